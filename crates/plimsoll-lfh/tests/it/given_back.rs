//! Pages that are given back or cannot be, while others lock, fork and look at the heap.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plimsoll_lfh::inspect::{Space, ThisProcess};
use plimsoll_lfh::{FrontEnd, Heap, HeapOptions, UnitKind};

use crate::child::{in_child, resident};
use crate::inspect::control_block;

const BLOCK: usize = 1 << 20;
const BLOCKS: usize = 48;

/// Blocks in use, all of which are resident.
fn blocks(heap: &Heap) -> Vec<*mut u8> {
    (0..BLOCKS)
        .map(|_| {
            let block = heap.allocate(BLOCK);
            assert!(!block.is_null());
            // SAFETY: the block was just made, and is that long.
            unsafe { block.write_bytes(1, BLOCK) };
            block
        })
        .collect()
}

/// Frees blocks after a page in the middle of one of them was locked, as by a library that keeps a secret there.
fn free_with_a_locked_page(heap: &Heap, blocks: Vec<*mut u8>) {
    // SAFETY: the page is a part of a block in use.
    let locked = unsafe { libc::mlock(blocks[BLOCKS / 2].add(BLOCK / 2).cast(), 1) };
    assert_eq!(locked, 0, "a page may be locked by everybody");
    for block in blocks {
        // SAFETY: the block is in use.
        unsafe { heap.free(block) };
    }
}

fn given_back(before: usize) -> bool {
    resident() + BLOCKS * BLOCK * 9 / 10 < before
}

#[test]
fn a_locked_page_does_not_keep_others() {
    in_child("given_back::a_locked_page_does_not_keep_others", &[], || {
        let heap = Heap::process();
        let asked = blocks(heap);
        let before = resident();
        free_with_a_locked_page(heap, asked);
        heap.trim();
        assert!(given_back(before), "{} of {before} are left", resident());
        // Nor for later: nobody asks, but time goes by.
        let aged = blocks(heap);
        let before = resident();
        free_with_a_locked_page(heap, aged);
        let start = Instant::now();
        while !given_back(before) {
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
                assert!(
                    core::slice::from_raw_parts(block, BLOCK)
                        .iter()
                        .all(|byte| *byte == 0)
                );
                heap.free(block);
            }
        }
    });
}

#[test]
fn a_locked_page_of_a_heap_that_ended_does_not_keep_others() {
    in_child(
        "given_back::a_locked_page_of_a_heap_that_ended_does_not_keep_others",
        &[],
        || {
            let _process = Heap::process().allocate(1);
            let heap = Heap::new(HeapOptions::default()).expect("there is memory");
            let asked = blocks(&heap);
            let before = resident();
            free_with_a_locked_page(&heap, asked);
            drop(heap);
            assert!(given_back(before), "{} of {before} are left", resident());
            let next = Heap::new(HeapOptions::default()).expect("there is memory");
            for _ in 0..BLOCKS {
                let block = next.allocate_zeroed(BLOCK);
                // SAFETY: the block is in use, and that long.
                let bytes = unsafe { core::slice::from_raw_parts(block, BLOCK) };
                assert!(bytes.iter().all(|byte| *byte == 0));
            }
        },
    );
}

/// Runs of this process's heaps that nobody has. `window` is where their memory is described.
fn busy_runs(window: usize) -> usize {
    let space = Space::open(&ThisProcess, window).expect("it is this process's");
    space
        .runs()
        .filter(|run| run.as_ref().is_ok_and(|run| run.kind == Some(UnitKind::Busy)))
        .count()
}

/// An extent that was being given back when the process was forked was lost to the child.
#[test]
fn a_fork_finds_no_extent_half_given_back() {
    in_child("given_back::a_fork_finds_no_extent_half_given_back", &[], || {
        let (heap, ended) = (Heap::process(), AtomicBool::new(false));
        let _first = heap.allocate(1);
        let window = control_block();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    let asked = blocks(heap);
                    // SAFETY: the blocks are in use.
                    asked.into_iter().for_each(|block| unsafe { heap.free(block) });
                    heap.trim();
                }
            });
            let mut lost = 0;
            for _ in 0..100 {
                // SAFETY: the child reads memory, and ends.
                let pid = unsafe { libc::fork() };
                if pid == 0 {
                    // SAFETY: ends the child.
                    unsafe { libc::_exit(busy_runs(window) as i32) };
                }
                let mut status = 0;
                // SAFETY: waits for the child that was just made.
                assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
                lost += usize::from(status != 0);
            }
            ended.store(true, Ordering::Relaxed);
            assert_eq!(lost, 0, "of 100 children");
        });
    });
}

/// Slots are unmapped with their heap: who looked at them crashed.
#[test]
fn heaps_end_while_others_look_at_them() {
    in_child("given_back::heaps_end_while_others_look_at_them", &[], || {
        let ended = AtomicBool::new(false);
        let _process = Heap::process().allocate(1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    let heap = Heap::new(HeapOptions::default()).expect("there is memory");
                    heap.set_front_end(FrontEnd::LowFragmentation)
                        .expect("nothing forbids it");
                    for size in (0..2000).step_by(16) {
                        let block = heap.allocate(size);
                        // SAFETY: the block is in use.
                        unsafe { heap.free(block) };
                    }
                }
            });
            let start = Instant::now();
            let (mut walks, mut ended_early, mut damages) = (0, 0, Vec::new());
            while start.elapsed() < Duration::from_secs(2) {
                walks += 1;
                ended_early += usize::from(Heap::validate_all(&mut |damage| damages.push(damage)).is_err());
            }
            ended.store(true, Ordering::Relaxed);
            assert_eq!(ended_early, 0, "of {walks} walks");
            assert_eq!(damages, []);
        });
    });
}
