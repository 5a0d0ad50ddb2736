//! More threads than anybody has processors for.

use std::sync::{Barrier, Mutex};
use std::time::Duration;

use plimsoll_lfh::Heap;

use crate::child::in_child;
use crate::numbers::Numbers;
use crate::this_process::{cpu_time, resident};
use crate::threads::Block;

/// Growth of resident bytes with threads that did nothing yet, and with the same after each allocated and freed a few
/// blocks.
fn idle(threads: usize) -> (usize, usize) {
    // The threads, and this one.
    let meeting = Barrier::new(threads + 1);
    let before = resident();
    let growth = || resident().saturating_sub(before);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let meeting = &meeting;
            let work = move || {
                // The stack that the work takes is there before it begins.
                allocate_and_free(thread as u64 + 1, 0);
                meeting.wait();
                meeting.wait();
                allocate_and_free(thread as u64 + 1, 16);
                meeting.wait();
                meeting.wait();
            };
            std::thread::Builder::new()
                .stack_size(256 << 10)
                .spawn_scoped(scope, work)
                .expect("so many threads may be");
        }
        meeting.wait();
        let stacks = growth();
        meeting.wait();
        meeting.wait();
        std::thread::sleep(Duration::from_millis(200));
        let all = growth();
        meeting.wait();
        (stacks, all)
    })
}

fn allocate_and_free(seed: u64, count: usize) {
    let mut numbers = Numbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut blocks = [const { None }; 16];
    for block in blocks.iter_mut().take(count) {
        *block = Some(Block::of_size(
            Heap::process(),
            numbers.next() as usize % 1024 + 1,
        ));
    }
    blocks
        .into_iter()
        .flatten()
        .for_each(|block| block.free(Heap::process()));
}

#[test]
fn a_thousand_idle_threads_cache_no_more_than_a_few() {
    in_child(
        "crowds::a_thousand_idle_threads_cache_no_more_than_a_few",
        &[],
        || {
            let (few, many) = (idle(50), idle(1000));
            let of_heap = |(stacks, all): (usize, usize)| all.saturating_sub(stacks);
            println!(
                "measured: idle threads: 1000 with their stacks {} KiB each, of which the heap {} KiB for all; 50: {} KiB",
                (many.1 / 1000) >> 10,
                of_heap(many) >> 10,
                of_heap(few) >> 10
            );
            assert!(many.1 <= (1000 * 20) << 10, "{} bytes", many.1);
            // The heap's part does not follow the number of threads: a byte of a page each would be 4 MiB.
            assert!(of_heap(many) < of_heap(few) + (2 << 20), "{few:?}, then {many:?}");
        },
    );
}

/// Blocks of all threads together, and the operations on them: the same for few threads as for many.
const BLOCKS: usize = 16 << 10;
const STEPS: usize = 1 << 20;

/// Lets so many threads replace blocks at random, of which every eighth goes to the next thread, which frees it. Returns
/// the CPU time that this takes.
fn replace(threads: usize) -> Duration {
    let passed: Vec<Mutex<Vec<Block>>> = (0..threads).map(|_| Mutex::new(Vec::new())).collect();
    let meeting = Barrier::new(threads + 1);
    let before = std::thread::scope(|scope| {
        for thread in 0..threads {
            let (passed, meeting) = (&passed, &meeting);
            scope.spawn(move || {
                let heap = Heap::process();
                let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15 ^ (thread as u64 + 1));
                let mut new = || Block::of_size(heap, numbers.next() as usize % 512 + 1);
                let mut own: Vec<Block> = (0..BLOCKS / threads).map(|_| new()).collect();
                meeting.wait();
                meeting.wait();
                for at in 0..STEPS / threads {
                    let place = at * 7919 % own.len();
                    let old = std::mem::replace(&mut own[place], new());
                    match at % 8 {
                        0 => passed[(thread + 1) % threads].lock().expect("no panic").push(old),
                        _ => old.free(heap),
                    }
                    if at % 256 == 255 {
                        let received = std::mem::take(&mut *passed[thread].lock().expect("no panic"));
                        received.into_iter().for_each(|block| block.free(heap));
                    }
                }
                own.into_iter().for_each(|block| block.free(heap));
            });
        }
        meeting.wait();
        let before = cpu_time();
        meeting.wait();
        before
    });
    let taken = cpu_time() - before;
    for blocks in passed {
        let blocks = blocks.into_inner().expect("no panic");
        blocks.into_iter().for_each(|block| block.free(Heap::process()));
    }
    taken
}

#[test]
fn five_hundred_threads_allocate_and_free() {
    in_child("crowds::five_hundred_threads_allocate_and_free", &[], || {
        // A machine that is busy with others makes both dearer, and not always alike: the least of three counts.
        let least = |threads| (0..3).map(|_| replace(threads)).min().expect("three");
        let (few, many) = (least(2), least(512));
        println!("measured: {STEPS} steps of 2 threads {few:?}, of 512 {many:?}");
        assert!(
            many < few * 2,
            "{STEPS} steps of 512 threads take {many:?} of CPU time, of 2 threads {few:?}"
        );
        let (record, counts) = Heap::process().statistics().expect("the heap was used");
        let waits = record.lock_contention(&counts);
        println!("measured: {waits} waits for locks");
        assert!(waits < 3 * STEPS as u64 / 200, "{waits} waits for locks");
    });
}
