//! The sampling thread does not allocate on a tick. Alone in its program, since it replaces the allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_sample::{HeldPost, Sampler, SamplerConfig, Target, monotonic_ns};

/// Counts allocations and frees of threads other than the test's own.
struct Counting;

static CALLS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static IS_TEST: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    if !IS_TEST.get() {
        CALLS.fetch_add(1, Ordering::Relaxed);
    }
}

#[allow(unsafe_code)]
// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    IS_TEST.set(true);
    let (sampler, batches) = Sampler::start(SamplerConfig::by_the_second(100, monotonic_ns()))
        .expect("a sampler needs nothing but /proc/meminfo");
    let target = Target {
        workers: vec![std::process::id()],
        held: Some(HeldPost::default()),
        ..Target::default()
    };
    // The thread's start allocates; its first ticks are over when the second batch has come.
    let started: usize = batches.iter().take(2).map(|batch| batch.rows().len()).sum();
    let before = CALLS.load(Ordering::Relaxed);
    for _ in 0..40 {
        sampler.set_target(Some(&target));
        std::thread::sleep(Duration::from_millis(50));
        sampler.set_target(None);
    }
    let calls = CALLS.load(Ordering::Relaxed) - before;
    let locked = sampler.locked().map_err(ToString::to_string);
    let report = sampler.stop();
    let taken: usize = batches.iter().map(|batch| batch.rows().len()).sum();
    assert_eq!(
        calls, 0,
        "{calls} calls of the allocator in 2 s of ticks: {report:?}"
    );
    assert!(taken + started > 100, "{taken} rows after {started}");
    assert!(CALLS.load(Ordering::Relaxed) > 0, "the counter counts");
    println!("no allocation in {taken} samples; memory locked: {locked:?}");
}
