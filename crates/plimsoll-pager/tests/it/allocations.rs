//! Counts the allocations of a thread, and of all.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

static ALL: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: passes every call on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        ALL.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's premise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        COUNT.set(COUNT.get() + 1);
        ALL.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's premise.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations and frees of this thread during `work`.
pub(crate) fn count<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = COUNT.get();
    let result = work();
    (result, COUNT.get() - before)
}

/// Allocations and frees of all threads so far.
pub(crate) fn of_all_threads() -> u64 {
    ALL.load(Ordering::Relaxed)
}
