//! What a fork must find: no lock held by a thread that the child does not have.
//!
//! Locks are held in the order in which they are taken: the list of heaps; by heap those of the low-fragmentation
//! front end, of Standard, of cached runs and of the back end; the arena's.
#![allow(unsafe_code)]

use crate::heap::Heap;
use crate::{arena, purge, record};

impl Heap {
    /// Waits until no thread is within a heap, and keeps all out of them: to be called right before a fork
    /// (`pthread_atfork(3)`).
    pub fn before_fork() {
        if record::hold_list() {
            record::living_records().for_each(|record| record.hold());
            arena::hold();
        }
    }

    /// Ends what [`Heap::before_fork`] began, in the parent.
    ///
    /// # Safety
    /// This thread called `before_fork`, and forked or failed to.
    pub unsafe fn after_fork_in_parent() {
        if !record::exists() {
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
    /// The thread that forked had called `before_fork`, and no other was started since.
    pub unsafe fn after_fork_in_child() {
        if !record::exists() {
            return;
        }
        purge::forget_helper();
        // SAFETY: the caller's premise: the thread that forked held each of them.
        unsafe {
            arena::free_after_fork();
            record::living_records().for_each(|record| record.free_after_fork());
            record::free_list_after_fork();
        }
    }
}
