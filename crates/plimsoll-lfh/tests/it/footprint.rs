//! Return of memory to the kernel, and its time. The values are of a process of its own.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plimsoll_lfh::{FrontEnd, Heap, HeapOptions};

use crate::blocks::{filled, free_all, is_zero};
use crate::child::in_child;
use crate::numbers::Numbers;
use crate::this_process::resident;

const MIB: usize = 1 << 20;

/// Time without the time for which the threads of this process, one of which is the heap's helper, waited for a
/// processor: other load on a busy machine is not the heap's. If several waited at once it is counted more than once,
/// so that a value over a limit is surely over it.
struct TimeOnProcessors {
    start: Instant,
    /// By number of the thread; also of those that have ended since.
    waited_before: BTreeMap<u64, Duration>,
    waited: BTreeMap<u64, Duration>,
}

impl TimeOnProcessors {
    fn begin() -> TimeOnProcessors {
        TimeOnProcessors {
            start: Instant::now(),
            waited_before: waits(),
            waited: BTreeMap::new(),
        }
    }

    fn passed(&mut self) -> Duration {
        for (thread, wait) in waits() {
            let before = self.waited_before.get(&thread).copied().unwrap_or_default();
            self.waited.insert(thread, wait.saturating_sub(before));
        }
        let waited = self.waited.values().sum();
        self.start.elapsed().saturating_sub(waited)
    }
}

/// How long each thread of this process waited for a processor until now, by number.
fn waits() -> BTreeMap<u64, Duration> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("there is /proc");
    let wait = |task: std::fs::DirEntry| {
        // Nanoseconds on a processor, then those waited for one; a thread may have ended.
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        let waited = text.split(' ').nth(1)?.parse().ok()?;
        let number = task.file_name().to_str()?.parse().ok()?;
        Some((number, Duration::from_nanos(waited)))
    };
    tasks.filter_map(|task| wait(task.ok()?)).collect()
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task")
        .expect("there is /proc")
        .count()
}

/// The growth of resident memory, once it is below `most`, and the time until then on free processors; after ten
/// seconds of these in any case.
fn settled(before: usize, most: usize) -> (usize, Duration) {
    let mut time = TimeOnProcessors::begin();
    loop {
        let (now, passed) = (resident().saturating_sub(before), time.passed());
        if now <= most || passed > Duration::from_secs(10) {
            return (now, passed);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Frees 200 MiB of blocks and sleeps: the process does nothing more.
fn idle_after_free(name: &str, mut size: impl FnMut(&mut Numbers) -> usize) {
    in_child(&format!("footprint::{name}"), &[], || {
        let heap = Heap::process();
        let mut numbers = Numbers(42);
        // Before the base is measured, as the list of blocks is not the heap's.
        let mut blocks = filled(heap, 200 * MIB, || size(&mut numbers));
        free_all(heap, blocks.drain(..));
        heap.trim();
        let base = resident();
        blocks = filled(heap, 200 * MIB, || size(&mut numbers));
        assert!(resident() > base + 190 * MIB);
        free_all(heap, blocks.drain(..));
        let (left, after) = settled(base, MIB);
        println!("measured: {name}: {} KiB left after {after:?}", left >> 10);
        assert!(
            left < 10 * MIB && after < Duration::from_millis(1500),
            "{left} bytes left after {after:?}"
        );
    });
}

#[test]
fn an_idle_process_returns_small_blocks() {
    idle_after_free("an_idle_process_returns_small_blocks", |_| 32);
}

#[test]
fn an_idle_process_returns_mixed_blocks() {
    idle_after_free("an_idle_process_returns_mixed_blocks", |numbers| {
        numbers.size() + 1
    });
}

#[test]
fn an_idle_process_returns_large_blocks() {
    idle_after_free("an_idle_process_returns_large_blocks", |_| 300_000);
}

/// One of fifty blocks stays in use, at any place: of eight blocks that share a page and two that reach into it, four
/// of five times none.
#[test]
fn an_idle_process_returns_pages_between_blocks() {
    in_child(
        "footprint::an_idle_process_returns_pages_between_blocks",
        &[],
        || {
            let heap = Heap::process();
            let mut numbers = Numbers(42);
            let base = resident();
            let blocks = filled(heap, 100 * MIB, || 500);
            let list = blocks.capacity() * 8;
            let (kept, freed): (Vec<_>, Vec<_>) = blocks
                .into_iter()
                .partition(|_| numbers.next().is_multiple_of(50));
            free_all(heap, freed);
            let (left, after) = settled(base, 27 * MIB + list);
            println!(
                "measured: pages between blocks: {} KiB left after {after:?}",
                left >> 10
            );
            assert!(left <= 27 * MIB + list, "{left} bytes left after {after:?}");
            assert!(after < Duration::from_millis(2000), "{after:?}");
            free_all(heap, kept);
        },
    );
}

#[test]
fn an_idle_process_returns_the_end_of_a_shortened_block() {
    in_child(
        "footprint::an_idle_process_returns_the_end_of_a_shortened_block",
        &[],
        || {
            let heap = Heap::process();
            let block = heap.allocate(100 * MIB);
            let base = resident();
            // SAFETY: the block is in use, and that long until it is shortened.
            let short = unsafe {
                block.write_bytes(1, 100 * MIB);
                heap.reallocate(block, MIB)
            };
            let (left, after) = settled(base, 2 * MIB);
            assert!(
                left < 10 * MIB && after < Duration::from_millis(1500),
                "{left} bytes left after {after:?}"
            );
            free_all(heap, [short]);
        },
    );
}

/// Frees 20 MiB of blocks. Returns the largest number of threads meanwhile: on a busy machine the helper has begun and
/// ended before all are freed.
fn most_threads_while_freeing(heap: &Heap) -> usize {
    let blocks = filled(heap, 20 * MIB, || 1000);
    let counts = blocks.chunks(500).map(|some| {
        free_all(heap, some.iter().copied());
        threads()
    });
    counts.max().expect("there are blocks")
}

#[test]
fn the_helper_ends_when_nothing_is_left() {
    in_child("footprint::the_helper_ends_when_nothing_is_left", &[], || {
        let before = threads();
        let heap = Heap::process();
        assert_eq!(
            most_threads_while_freeing(heap),
            before + 1,
            "the helper was started"
        );
        let mut time = TimeOnProcessors::begin();
        while threads() != before {
            assert!(time.passed() < Duration::from_secs(5), "the helper goes on");
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}

/// Has a program free 100 MiB and go on with calls of all sizes, for `seconds` or until nothing of it is left. Returns the
/// bytes that are left, and how many threads were there besides the program's.
fn work_on_after_free(seconds: u64) -> (usize, usize) {
    let before = threads();
    let heap = Heap::process();
    let mut numbers = Numbers(42);
    let mut calls = |total: usize| {
        let blocks = filled(heap, total, || numbers.size() + 1);
        free_all(heap, blocks);
    };
    calls(MIB);
    let base = resident();
    calls(100 * MIB);
    let mut time = TimeOnProcessors::begin();
    let mut others = 0;
    loop {
        calls(MIB);
        others = others.max(threads() - before);
        let left = resident().saturating_sub(base);
        if left < 8 * MIB || time.passed() > Duration::from_secs(seconds) {
            println!(
                "measured: {} KiB left after {:?} of calls",
                left >> 10,
                time.passed()
            );
            return (left, others);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn callers_return_memory_without_a_helper() {
    in_child(
        "footprint::callers_return_memory_without_a_helper",
        &[("PLIMSOLL_HEAP_PURGE", "inline")],
        || {
            // A quiet machine takes 2 s; beside other load the calls, which do the work, are fewer.
            let (left, others) = work_on_after_free(30);
            assert!(left < 8 * MIB, "{left} bytes left");
            assert_eq!(others, 0, "threads");
        },
    );
}

/// So the purge returns memory, not the calls themselves.
#[test]
fn purge_never_returns_no_memory_but_by_trim() {
    in_child(
        "footprint::purge_never_returns_no_memory_but_by_trim",
        &[("PLIMSOLL_HEAP_PURGE", "never")],
        || {
            let base = resident();
            let (left, others) = work_on_after_free(3);
            assert!(left > 80 * MIB, "{left} bytes left");
            assert_eq!(others, 0, "threads");
            Heap::process().trim();
            let trimmed = resident().saturating_sub(base);
            assert!(trimmed < 10 * MIB, "{trimmed} bytes left");
        },
    );
}

/// A process that had too many threads for a moment never had a helper again, and none of its children.
#[test]
fn the_helper_is_started_once_there_is_room() {
    in_child("footprint::the_helper_is_started_once_there_is_room", &[], || {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: a child of the test's own becomes a user with limits. The numbers outlive the calls.
        unsafe {
            if libc::geteuid() == 0 {
                assert_eq!(libc::setresuid(65_534, 65_534, 65_534), 0);
                assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, 1), 0);
            }
            assert_eq!(libc::getrlimit(libc::RLIMIT_NPROC, &raw mut limit), 0);
        }
        let allow = |number| {
            let now = libc::rlimit {
                rlim_cur: number,
                ..limit
            };
            // SAFETY: as above.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &raw const now) }, 0);
        };
        let before = threads();
        let heap = Heap::process();
        allow(0);
        assert_eq!(most_threads_while_freeing(heap), before, "there is no room");
        allow(limit.rlim_cur);
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(
            most_threads_while_freeing(heap),
            before + 1,
            "the helper was started"
        );
    });
}

#[test]
fn a_destroyed_heap_returns_its_memory() {
    in_child("footprint::a_destroyed_heap_returns_its_memory", &[], || {
        let mut numbers = Numbers(7);
        for front_end in [FrontEnd::Standard, FrontEnd::LowFragmentation] {
            let heap = Heap::new(HeapOptions::default()).expect("there is memory");
            heap.set_front_end(front_end).expect("nothing forbids it");
            let base = resident();
            let blocks = filled(&heap, 64 * MIB, || numbers.size() + 1).len();
            let full = resident();
            assert!(full > base + 60 * MIB);
            drop(heap);
            // The list of blocks, of which the system's heap may keep the pages, is not the heap's.
            let left = resident().saturating_sub(base);
            println!(
                "measured: {front_end:?} destroyed: {} KiB left of {blocks} blocks",
                left >> 10
            );
            assert!(left < MIB + blocks * 8 + 64 * MIB / 16 * 8, "{left} bytes left");
        }
    });
}

#[test]
fn zeroed_blocks_that_are_not_written_to_are_not_resident() {
    in_child(
        "footprint::zeroed_blocks_that_are_not_written_to_are_not_resident",
        &[],
        || {
            let heap = Heap::process();
            let block = heap.allocate(200 * MIB);
            // SAFETY: the block was just made, and is not used afterwards.
            unsafe {
                block.write_bytes(1, 200 * MIB);
                heap.free(block);
            }
            let base = resident();
            let zeroed = heap.allocate_zeroed(200 * MIB);
            // SAFETY: the block was just made.
            assert!(unsafe { is_zero(zeroed, 200 * MIB) });
            println!(
                "measured: zeroed block read: {} KiB more resident",
                resident().saturating_sub(base) >> 10
            );
            // Reading maps the page of zeroes, which is not resident.
            assert!(resident() < base + MIB);
        },
    );
}
