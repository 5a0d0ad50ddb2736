//! Counts the allocations of a thread, and of the pager's thread for faults.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Whether allocations look at the name of their thread.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);
/// Allocations and frees of a thread for faults while it was watched.
static OF_FAULTS: AtomicU64 = AtomicU64::new(0);

fn count_one() {
    COUNT.set(COUNT.get() + 1);
    if IS_WATCHED.load(Ordering::Relaxed) {
        let mut name = [0_u8; 16];
        // SAFETY: the kernel writes 16 bytes.
        unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
        OF_FAULTS.fetch_add(u64::from(name.starts_with(b"pager-faults")), Ordering::Relaxed);
    }
}

struct Counting;

// SAFETY: passes every call on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_one();
        // SAFETY: the caller's premise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count_one();
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

/// Allocations and frees of the threads for faults during `work`, which no other test runs beside.
pub(crate) fn of_threads_for_faults(work: impl FnOnce()) -> u64 {
    IS_WATCHED.store(true, Ordering::SeqCst);
    work();
    IS_WATCHED.store(false, Ordering::SeqCst);
    OF_FAULTS.load(Ordering::SeqCst)
}
