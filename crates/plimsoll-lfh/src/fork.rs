//! What a fork must find: no lock held by a thread that the child does not have.
//!
//! Locks are held in the order in which they are taken: the list of heaps; by heap those of the low-fragmentation
//! front end, of Standard, of cached runs and of the back end; the arena's. The C library is told of it at the first call.
//!
//! Handlers of others may run while the locks are held, before the fork and after it, and may use the heap: this thread
//! goes through locks that it holds for a fork. Their order does not matter, then.
//!
//! `vfork`, `posix_spawn` and a `clone` past the C library call no such functions. The child of the second runs no code of
//! the program; those of the others must not allocate, as they must not with glibc's own malloc.
#![allow(unsafe_code)]

use core::ffi::c_int;
#[cfg(not(target_env = "musl"))]
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, Ordering};

#[cfg(not(target_env = "musl"))]
use plimsoll_os::weak;

use crate::heap::Heap;
use crate::lock::{Forking, Reporting};
use crate::{arena, purge, record};

type Handler = extern "C" fn();
/// What glibc's `pthread_atfork` calls. That itself is in an archive alone, where a weak reference does not find it.
#[cfg(not(target_env = "musl"))]
type RegisterAtfork = unsafe extern "C" fn(Handler, Handler, Handler, *mut c_void) -> c_int;

#[cfg(target_env = "musl")]
unsafe extern "C" {
    /// Not weak: a static program would be linked without it.
    fn pthread_atfork(before: Handler, in_parent: Handler, in_child: Handler) -> c_int;
}

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

/// Has the C library call the handlers, if it does not yet. It may allocate meanwhile: no lock is held, and the
/// process's heap is there. Where there is no C library, nobody forks by it.
#[cold]
pub(crate) fn register() {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if REGISTERED.swap(true, Ordering::Relaxed) {
        return;
    }
    debug_assert!(arena::is_ready());
    #[cfg(target_env = "musl")]
    // SAFETY: the handlers are functions of this library, which musl never unloads.
    unsafe {
        pthread_atfork(before, after_in_parent, after_in_child);
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
        unsafe { register(before, after_in_parent, after_in_child, this_library()) };
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

impl Heap {
    /// Has forks find the heap of the process whole, from now on. The first call of that heap does so too: this is for
    /// who wants it earlier, as a library does that stands in for malloc.
    pub fn prepare_for_forks() {
        if record::of(record::PROCESS).is_some() {
            register();
        }
    }

    /// Waits until no thread is within a heap, and keeps all but this one out of them: to be called right before a fork
    /// that is made past the C library. `fork(3)` needs no such call: the C library does it, and once more does no harm.
    pub fn before_fork() {
        if Forking::is_mine() {
            Forking::begin_again();
        } else if record::hold_list() {
            record::living_records().for_each(|record| record.hold());
            arena::hold();
            Forking::begin();
        }
    }

    /// Ends what [`Heap::before_fork`] began, in the parent.
    ///
    /// # Safety
    /// This thread called `before_fork`, and forked or failed to.
    pub unsafe fn after_fork_in_parent() {
        if !Forking::end() {
            return;
        }
        // SAFETY: the caller's premise: this thread holds each of them.
        unsafe {
            arena::release();
            record::living_records().for_each(|record| record.release());
            record::release_list();
        }
    }

    /// Ends what [`Heap::before_fork`] began, in the child.
    ///
    /// # Safety
    /// The thread that forked had called `before_fork`, and no other was started since. A child in a new namespace of
    /// processes did not use a heap before: it may have its parent's number, and locks are not seen to be its own then.
    pub unsafe fn after_fork_in_child() {
        if !Forking::end_in_child() {
            return;
        }
        purge::forget_helper();
        // SAFETY: the caller's premise: the thread that forked held each of them.
        unsafe {
            arena::free_after_fork();
            record::living_records().for_each(|record| record.free_after_fork());
            record::free_list_after_fork();
        }
        Reporting::forget();
    }
}
