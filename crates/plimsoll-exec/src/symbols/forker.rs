//! The one thread of the process that is in `fork`.

use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll_os::{thread_token, yield_processor};

/// The thread; 0 without one.
static FORKER: AtomicUsize = AtomicUsize::new(0);

pub(super) fn is_this_thread() -> bool {
    FORKER.load(Ordering::SeqCst) == thread_token()
}

/// Waits until no other thread is in `fork`, and makes the calling thread the one that is.
pub(super) fn become_forker() {
    let free = || FORKER.compare_exchange(0, thread_token(), Ordering::SeqCst, Ordering::Relaxed);
    while free().is_err() {
        yield_processor();
    }
}

/// States that no thread is in `fork`: at its end, and in a child of another thread's.
pub(super) fn clear() {
    FORKER.store(0, Ordering::SeqCst);
}
