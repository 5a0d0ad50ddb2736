//! Public calls around a fork.
#![allow(unsafe_code)]

use super::Heap;
use crate::record::fork;

impl Heap {
    /// Registers the fork handlers of the process's heap. The first call of that heap does so too: a library that stands in
    /// for malloc calls this earlier.
    pub fn prepare_for_forks() {
        fork::prepare_early();
    }

    /// Waits until no thread is within a heap, and keeps all but this one out of them: to be called right before a fork
    /// past the C library. `fork(3)` needs no such call: the C library makes it, and a second call does no harm.
    pub fn before_fork() {
        fork::before();
    }

    /// Ends [`Heap::before_fork`] in the parent.
    ///
    /// # Safety
    /// This thread called `before_fork`, and forked or failed to.
    pub unsafe fn after_fork_in_parent() {
        // SAFETY: the caller's premise.
        unsafe { fork::after_in_parent() };
    }

    /// Ends [`Heap::before_fork`] in the child.
    ///
    /// # Safety
    /// The thread that forked had called `before_fork`, and no other thread was started since. A child in a new PID
    /// namespace did not use a heap before: it may have its parent's PID, and locks do not count as its own then.
    pub unsafe fn after_fork_in_child() {
        // SAFETY: the caller's premise.
        unsafe { fork::after_in_child() };
    }
}
