//! Locks around a fork: the child must find none held by a thread that it does not have.
//!
//! A fork holds every lock, in the order in which they are taken: the list of heaps; of each heap those of the
//! low-fragmentation front end, of Standard, of cached runs and of the back end; the arena's. The C library calls the
//! handlers, which the first call of the process's heap registers.
//!
//! Handlers of other libraries may run while the locks are held, before the fork and after it, and may use the heap:
//! this thread passes locks that it holds for a fork. So the order of handlers does not matter.
//!
//! The helper of the purge ends before a fork (`purge`): the child does not have it, and a program that has one thread
//! may count its threads right after a fork, as Python does to warn of forks beside threads. Other long work makes way
//! between two pieces ([`Forking::make_way`]): a fork waits for a piece.
//!
//! `vfork`, `posix_spawn` and a `clone` past the C library call no such handlers. The child of the second runs no code
//! of the program; those of the others must not allocate, as they must not with glibc's own malloc.
//!
//! Invariant: the child of a fork finds no lock held, in any state of the other threads. Checked by
//! `children_of_a_process_under_load_have_a_heap`, `children_of_a_process_under_load_have_a_standard_heap`,
//! `children_of_a_fork_under_load_allocate`, `handlers_of_a_fork_may_allocate` and
//! `forks_in_the_middle_of_malloc_leave_no_lock_behind`.
#![allow(unsafe_code)]

use crate::arena::{self, PROCESS};
use crate::fork::{self, Handlers};
use crate::lock::{Forking, Reporting};
use crate::purge;
use crate::record::period;

extern "C" fn handle_before() {
    before();
}

extern "C" fn handle_in_parent() {
    // SAFETY: the C library calls it after `handle_before`, in the same thread.
    unsafe { after_in_parent() };
}

extern "C" fn handle_in_child() {
    // SAFETY: the C library calls it after `handle_before`, in the thread that is the child's only one.
    unsafe { after_in_child() };
}

/// Registers the handlers, once. The process's heap exists, and this thread holds no lock.
pub(super) fn prepare() {
    debug_assert!(arena::is_ready());
    fork::register(&Handlers {
        before: handle_before,
        in_parent: handle_in_parent,
        in_child: handle_in_child,
    });
}

/// Registers the handlers before the first call of the process's heap, which this makes.
pub(crate) fn prepare_early() {
    if super::of(PROCESS).is_some() {
        prepare();
    }
}

/// Holds every lock, see [`Heap::before_fork`](crate::Heap::before_fork).
pub(crate) fn before() {
    if Forking::is_mine() {
        return Forking::begin_again();
    }
    purge::dismiss_helper();
    Forking::approach();
    if super::hold_list() {
        period::purge_share_of_all();
        super::living_records().for_each(|record| record.hold());
        arena::hold();
        Forking::begin();
    }
    Forking::arrive();
}

/// Ends [`before`] in the parent.
///
/// # Safety
/// As for [`Heap::after_fork_in_parent`](crate::Heap::after_fork_in_parent).
pub(crate) unsafe fn after_in_parent() {
    if !Forking::end() {
        return;
    }
    // SAFETY: the caller's premise: this thread holds each of them.
    unsafe {
        arena::release();
        super::living_records().for_each(|record| record.release());
        super::release_list();
    }
    purge::go_on_after_fork();
}

/// Ends [`before`] in the child.
///
/// # Safety
/// As for [`Heap::after_fork_in_child`](crate::Heap::after_fork_in_child).
pub(crate) unsafe fn after_in_child() {
    if !Forking::end_in_child() {
        return;
    }
    purge::forget_helper();
    // SAFETY: the caller's premise: the thread that forked held each of them.
    unsafe {
        arena::free_after_fork();
        super::living_records().for_each(|record| record.free_after_fork());
        super::free_list_after_fork();
    }
    Reporting::forget();
}
