//! Pages that return to the kernel or cannot, while others lock, fork and walk over the heap.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use plimsoll_lfh::inspect::{Space, ThisProcess};
use plimsoll_lfh::{FrontEnd, Heap, HeapOptions, UnitKind};

use crate::blocks::{filled, free_all, is_zero};
use crate::child::in_child;
use crate::inspect::control_block;
use crate::this_process::resident;
use plimsoll_testkit::status_of_fork;

const BLOCK: usize = 1 << 20;
const BLOCKS: usize = 48;

/// Blocks in use, all of which are resident.
fn blocks(heap: &Heap) -> Vec<*mut u8> {
    filled(heap, BLOCKS * BLOCK, || BLOCK)
}

/// Frees blocks after a page in the middle of one of them was locked, as by a library that keeps a secret there.
fn free_with_a_locked_page(heap: &Heap, blocks: Vec<*mut u8>) {
    // SAFETY: the page is a part of a block in use.
    let locked = unsafe { libc::mlock(blocks[BLOCKS / 2].add(BLOCK / 2).cast(), 1) };
    assert_eq!(locked, 0, "a page may be locked by everybody");
    free_all(heap, blocks);
}

fn returned(before: usize) -> bool {
    resident() + BLOCKS * BLOCK * 9 / 10 < before
}

#[test]
fn a_locked_page_does_not_keep_others() {
    in_child("returned::a_locked_page_does_not_keep_others", &[], || {
        let heap = Heap::process();
        let requested = blocks(heap);
        let before = resident();
        free_with_a_locked_page(heap, requested);
        heap.trim();
        assert!(returned(before), "{} of {before} are left", resident());
        // Nor later: without a request, but with time.
        let aged = blocks(heap);
        let before = resident();
        free_with_a_locked_page(heap, aged);
        let start = Instant::now();
        while !returned(before) {
            if !crate::HAS_HELPER {
                Heap::end_purge_period();
            }
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "{} of {before} are left",
                resident()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        let zeros: Vec<_> = (0..BLOCKS).map(|_| heap.allocate_zeroed(BLOCK)).collect();
        for block in zeros {
            // SAFETY: the block is in use, and that long.
            unsafe {
                assert!(is_zero(block, BLOCK));
                heap.free(block);
            }
        }
    });
}

#[test]
fn a_locked_page_of_a_heap_that_ended_does_not_keep_others() {
    in_child(
        "returned::a_locked_page_of_a_heap_that_ended_does_not_keep_others",
        &[],
        || {
            let _process = Heap::process().allocate(1);
            let heap = Heap::new(HeapOptions::default()).expect("there is memory");
            let requested = blocks(&heap);
            let before = resident();
            free_with_a_locked_page(&heap, requested);
            drop(heap);
            assert!(returned(before), "{} of {before} are left", resident());
            let next = Heap::new(HeapOptions::default()).expect("there is memory");
            for _ in 0..BLOCKS {
                let block = next.allocate_zeroed(BLOCK);
                // SAFETY: the block is in use, and that long.
                assert!(unsafe { is_zero(block, BLOCK) });
            }
        },
    );
}

/// Runs of this process's heaps that no heap has. `window` is the address of their descriptions.
fn busy_runs(window: usize) -> usize {
    let space = Space::open(&ThisProcess, window).expect("it is this process's");
    space
        .runs()
        .filter(|run| run.as_ref().is_ok_and(|run| run.kind == Some(UnitKind::Busy)))
        .count()
}

/// Lets a thread do `round` again and again, while this one does `look` so often: and more often, until the other has
/// done `rounds`, so that the two did meet.
fn at_the_same_time(looks: u32, rounds: u32, round: impl Fn() + Sync, mut look: impl FnMut()) {
    // SAFETY: ends the process if something hangs.
    unsafe { libc::alarm(300) };
    let (ended, done) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                round();
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
        // Ends the thread where a look fails, too.
        let ended = EndsWhenDropped(&ended);
        let mut looked = 0;
        while looked < looks || done.load(Ordering::Relaxed) < rounds {
            look();
            looked += 1;
        }
        drop(ended);
    });
    println!("measured: {} rounds meanwhile", done.into_inner());
}

struct EndsWhenDropped<'e>(&'e AtomicBool);

impl Drop for EndsWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// An extent that was being purged during the fork was lost to the child.
#[test]
fn a_fork_finds_no_extent_half_purged() {
    in_child("returned::a_fork_finds_no_extent_half_purged", &[], || {
        let heap = Heap::process();
        let _first = heap.allocate(1);
        let window = control_block();
        let release = || {
            let requested = blocks(heap);
            free_all(heap, requested);
            heap.trim();
        };
        let fork = || {
            let status = status_of_fork(|| assert_eq!(busy_runs(window), 0));
            assert_eq!(status, 0);
        };
        at_the_same_time(100, 10, release, fork);
    });
}

/// Slots are unmapped with their heap: readers of them crashed.
#[test]
fn heaps_end_during_statistics() {
    in_child("returned::heaps_end_during_statistics", &[], || {
        let _process = Heap::process().allocate(1);
        let come_and_go = || {
            let heap = Heap::new(HeapOptions::default()).expect("there is memory");
            heap.set_front_end(FrontEnd::LowFragmentation)
                .expect("nothing forbids it");
            for size in (0..2000).step_by(16) {
                let block = heap.allocate(size);
                // SAFETY: the block is in use.
                unsafe { heap.free(block) };
            }
        };
        let walk = || {
            let mut damages = Vec::new();
            let seen = Heap::validate_all(&mut |damage| damages.push(damage));
            assert!(matches!(seen, Ok(Some(_))), "the walk came to its end: {seen:?}");
            assert_eq!(damages, []);
        };
        at_the_same_time(500, 200, come_and_go, walk);
    });
}
