//! A fork copies the memory of a process but one thread alone: a lock that another one held stays locked in the child for
//! ever. So all locks of the heap are taken before a fork and freed after it, on both sides.
//!
//! `vfork`, `posix_spawn` and a `clone` past the C library call no such functions. The child of the second runs no code of
//! the program; those of the others must not allocate, as they must not with glibc's own malloc.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::ptr;

use plimsoll_lfh::Heap;

use crate::weak::weak;

type Handler = extern "C" fn();
/// `pthread_atfork` of musl; glibc has it in an archive alone, where a weak reference does not find it.
type PthreadAtfork = unsafe extern "C" fn(Handler, Handler, Handler) -> c_int;
/// What glibc's archive calls, with the handle of the library (null: the program's) that unloads the handlers with it.
type RegisterAtfork = unsafe extern "C" fn(Handler, Handler, Handler, *mut c_void) -> c_int;

extern "C" fn before() {
    Heap::before_fork();
}

extern "C" fn after_in_parent() {
    // SAFETY: the C library calls it after `before`, in the same thread.
    unsafe { Heap::after_fork_in_parent() };
}

extern "C" fn after_in_child() {
    // SAFETY: the C library calls it after `before`, in the thread that is the child's only one.
    unsafe { Heap::after_fork_in_child() };
}

/// Handlers before a fork run last registered first: those of a library that is loaded first run last, when no other
/// handler allocates any more. The C library keeps the first 48 of them without allocating.
extern "C" fn register() {
    let glibc = weak!("__register_atfork");
    if glibc != 0 {
        // SAFETY: the symbol is that function, of glibc since 2.3.2.
        let register: RegisterAtfork = unsafe { core::mem::transmute(glibc) };
        // SAFETY: the handlers are functions of this library, which is never unloaded: the program runs on its blocks.
        unsafe { register(before, after_in_parent, after_in_child, ptr::null_mut()) };
        return;
    }
    let posix = weak!("pthread_atfork");
    if posix != 0 {
        // SAFETY: the symbol is that function, of POSIX.
        let register: PthreadAtfork = unsafe { core::mem::transmute(posix) };
        // SAFETY: as above.
        unsafe { register(before, after_in_parent, after_in_child) };
    }
}

/// Run by the dynamic linker when the library has been loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static REGISTER: extern "C" fn() = register;
