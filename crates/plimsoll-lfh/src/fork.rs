//! Registration of fork handlers with the C library.
#![allow(unsafe_code)]

use core::ffi::c_int;
#[cfg(not(target_env = "musl"))]
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, Ordering};

#[cfg(not(target_env = "musl"))]
use plimsoll_os::weak;

pub(crate) type Handler = extern "C" fn();
/// The function behind glibc's `pthread_atfork`, which itself is in a static archive, out of reach of a weak reference.
#[cfg(not(target_env = "musl"))]
type RegisterAtfork = unsafe extern "C" fn(Handler, Handler, Handler, *mut c_void) -> c_int;

#[cfg(target_env = "musl")]
unsafe extern "C" {
    /// Not weak: a static program would be linked without it.
    fn pthread_atfork(before: Handler, in_parent: Handler, in_child: Handler) -> c_int;
}

/// The functions that the C library calls around a fork.
#[derive(Debug)]
pub(crate) struct Handlers {
    pub(crate) before: Handler,
    pub(crate) in_parent: Handler,
    pub(crate) in_child: Handler,
}

/// Registers the handlers with the C library, once. The C library may allocate meanwhile: the caller holds no lock, and
/// the process's heap exists. A process without a C library does not fork by it.
#[cold]
pub(crate) fn register(handlers: &Handlers) {
    let Handlers {
        before,
        in_parent,
        in_child,
    } = *handlers;
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if REGISTERED.swap(true, Ordering::Relaxed) {
        return;
    }
    #[cfg(target_env = "musl")]
    // SAFETY: the handlers are functions of this library, which musl never unloads.
    unsafe {
        pthread_atfork(before, in_parent, in_child);
    }
    #[cfg(not(target_env = "musl"))]
    {
        let function = weak!("__register_atfork");
        if function == 0 {
            return;
        }
        // SAFETY: the symbol is that function, of glibc since 2.3.2.
        let register: RegisterAtfork = unsafe { core::mem::transmute(function) };
        // SAFETY: the handlers are functions of the library that the handle is of: they go when it is unloaded.
        unsafe { register(before, in_parent, in_child, this_library()) };
    }
}

/// The handle by which glibc knows the library that this code was linked into; null for the program itself.
#[cfg(not(target_env = "musl"))]
fn this_library() -> *mut c_void {
    match weak!("__dso_handle") {
        0 => core::ptr::null_mut(),
        // SAFETY: the compiler's start files define it as a pointer.
        handle => unsafe { *(handle as *const *mut c_void) },
    }
}
