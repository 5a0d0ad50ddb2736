//! What is given back to the system, and when. The figures are of a process of its own.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plimsoll_lfh::{FrontEnd, Heap, HeapOptions};

use crate::child::{in_child, resident};
use crate::threads::Numbers;

const MIB: usize = 1 << 20;

/// Blocks of `total` bytes, all written to.
fn fill(heap: &Heap, total: usize, mut size: impl FnMut() -> usize) -> Vec<*mut u8> {
    let mut blocks = Vec::with_capacity(total / 16);
    let mut left = total;
    while left > 0 {
        let size = size().clamp(1, left);
        let block = heap.allocate(size);
        assert!(!block.is_null());
        // SAFETY: the block was just made.
        unsafe { block.write_bytes(1, size) };
        blocks.push(block);
        left -= size;
    }
    blocks
}

fn free(heap: &Heap, blocks: impl IntoIterator<Item = *mut u8>) {
    for block in blocks {
        // SAFETY: the block is in use.
        unsafe { heap.free(block) };
    }
}

/// How long the other threads of this process, of which one is the helper, waited for a processor until now, by
/// number. On a busy machine that is not the heap's fault.
fn waits() -> BTreeMap<u64, Duration> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("there is /proc");
    let wait = |task: std::fs::DirEntry| {
        // Nanoseconds on a processor, then those waited for one; a thread may have ended.
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        let waited = text.split(' ').nth(1)?.parse().ok()?;
        let number = task.file_name().to_str()?.parse().ok()?;
        Some((number, Duration::from_nanos(waited)))
    };
    // SAFETY: asks for a number.
    let own = unsafe { libc::gettid() } as u64;
    tasks
        .filter_map(|task| wait(task.ok()?))
        .filter(|(number, _)| *number != own)
        .collect()
}

/// What is resident over what was before, once it is below `most`, and how long that took on a processor that is free;
/// after ten seconds whatever it is.
fn settled(before: usize, most: usize) -> (usize, Duration) {
    let (start, waited_before) = (Instant::now(), waits());
    let mut waited = BTreeMap::new();
    loop {
        for (thread, wait) in waits() {
            waited.insert(
                thread,
                wait - waited_before.get(&thread).copied().unwrap_or_default(),
            );
        }
        let now = resident().saturating_sub(before);
        if now <= most || start.elapsed() > Duration::from_secs(10) {
            let waited = waited.into_values().sum();
            return (now, start.elapsed().saturating_sub(waited));
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
        let mut blocks = fill(heap, 200 * MIB, || size(&mut numbers));
        free(heap, blocks.drain(..));
        heap.trim();
        let base = resident();
        blocks = fill(heap, 200 * MIB, || size(&mut numbers));
        assert!(resident() > base + 190 * MIB);
        free(heap, blocks.drain(..));
        let (left, after) = settled(base, MIB);
        println!("figure: {name}: {} KiB left after {after:?}", left >> 10);
        assert!(
            left < 10 * MIB && after < Duration::from_millis(1500),
            "{left} bytes left after {after:?}"
        );
    });
}

#[test]
fn an_idle_process_gives_small_blocks_back() {
    idle_after_free("an_idle_process_gives_small_blocks_back", |_| 32);
}

#[test]
fn an_idle_process_gives_mixed_blocks_back() {
    idle_after_free("an_idle_process_gives_mixed_blocks_back", |numbers| {
        numbers.size() + 1
    });
}

#[test]
fn an_idle_process_gives_large_blocks_back() {
    idle_after_free("an_idle_process_gives_large_blocks_back", |_| 300_000);
}

/// One of fifty blocks stays in use, wherever it stands: of eight blocks that share a page and two that reach into it,
/// four of five times none.
#[test]
fn an_idle_process_gives_pages_between_blocks_back() {
    in_child(
        "footprint::an_idle_process_gives_pages_between_blocks_back",
        &[],
        || {
            let heap = Heap::process();
            let mut numbers = Numbers(42);
            let base = resident();
            let blocks = fill(heap, 100 * MIB, || 500);
            let list = blocks.capacity() * 8;
            let (kept, freed): (Vec<_>, Vec<_>) = blocks
                .into_iter()
                .partition(|_| numbers.next().is_multiple_of(50));
            free(heap, freed);
            let (left, after) = settled(base, 27 * MIB + list);
            println!(
                "figure: pages between blocks: {} KiB left after {after:?}",
                left >> 10
            );
            assert!(left <= 27 * MIB + list, "{left} bytes left after {after:?}");
            assert!(after < Duration::from_millis(2000), "{after:?}");
            free(heap, kept);
        },
    );
}

#[test]
fn an_idle_process_gives_the_end_of_a_shortened_block_back() {
    in_child(
        "footprint::an_idle_process_gives_the_end_of_a_shortened_block_back",
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
            free(heap, [short]);
        },
    );
}

#[test]
fn the_helper_ends_when_nothing_is_left() {
    in_child("footprint::the_helper_ends_when_nothing_is_left", &[], || {
        let threads = || {
            std::fs::read_dir("/proc/self/task")
                .expect("there is /proc")
                .count()
        };
        let before = threads();
        let heap = Heap::process();
        let blocks = fill(heap, 20 * MIB, || 1000);
        free(heap, blocks);
        assert_eq!(threads(), before + 1, "the helper was started");
        let start = Instant::now();
        while threads() != before {
            assert!(start.elapsed() < Duration::from_secs(5), "the helper goes on");
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}

/// A process that had too many threads for a moment never had a helper again, and none of its children.
#[test]
fn the_helper_is_started_once_there_is_room() {
    in_child("footprint::the_helper_is_started_once_there_is_room", &[], || {
        let threads = || {
            std::fs::read_dir("/proc/self/task")
                .expect("there is /proc")
                .count()
        };
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: a child of the test's own becomes a user for whom there are limits. The numbers outlive the calls.
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
        free(heap, fill(heap, 20 * MIB, || 1000));
        assert_eq!(threads(), before, "there is no room");
        allow(limit.rlim_cur);
        std::thread::sleep(Duration::from_millis(500));
        free(heap, fill(heap, 20 * MIB, || 1000));
        assert_eq!(threads(), before + 1, "the helper was started");
    });
}

#[test]
fn a_heap_that_is_destroyed_gives_its_memory_back() {
    in_child(
        "footprint::a_heap_that_is_destroyed_gives_its_memory_back",
        &[],
        || {
            let mut numbers = Numbers(7);
            for front_end in [FrontEnd::Standard, FrontEnd::LowFragmentation] {
                let heap = Heap::new(HeapOptions::default()).expect("there is memory");
                heap.set_front_end(front_end).expect("nothing forbids it");
                let base = resident();
                let blocks = fill(&heap, 64 * MIB, || numbers.size() + 1).len();
                let full = resident();
                assert!(full > base + 60 * MIB);
                drop(heap);
                // The list of blocks, of which the system's heap may keep the pages, is not the heap's.
                let left = resident().saturating_sub(base);
                println!(
                    "figure: {front_end:?} destroyed: {} KiB left of {blocks} blocks",
                    left >> 10
                );
                assert!(left < MIB + blocks * 8 + 64 * MIB / 16 * 8, "{left} bytes left");
            }
        },
    );
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
            let bytes = unsafe { std::slice::from_raw_parts(zeroed, 200 * MIB) };
            assert!(bytes.iter().step_by(1021).all(|byte| *byte == 0));
            println!(
                "figure: zeroed block read: {} KiB more resident",
                resident().saturating_sub(base) >> 10
            );
            // Reading maps the page of zeroes, which is not resident.
            assert!(resident() < base + MIB);
        },
    );
}
