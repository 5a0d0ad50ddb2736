//! More threads than anybody has processors for.
#![allow(unsafe_code)]

use std::sync::{Barrier, Mutex};
use std::time::Duration;

use plimsoll_lfh::Heap;

use crate::child::{in_child, resident};
use crate::threads::{Block, Numbers, step};

/// Resident bytes with threads that did nothing yet, and with the same after each allocated and freed a few blocks; both
/// over what was resident before.
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
fn a_thousand_idle_threads_take_no_more_than_a_few() {
    in_child(
        "crowds::a_thousand_idle_threads_take_no_more_than_a_few",
        &[],
        || {
            let (few, many) = (idle(50), idle(1000));
            let of_heap = |(stacks, all): (usize, usize)| all.saturating_sub(stacks);
            println!(
                "figure: idle threads: 1000 with their stacks {} KiB each, of which the heap {} KiB for all; 50: {} KiB",
                many.1 / 1000 >> 10,
                of_heap(many) >> 10,
                of_heap(few) >> 10
            );
            assert!(many.1 <= 1000 * 20 << 10, "{} bytes", many.1);
            // The heap's part does not follow the number of threads: a byte of a page each would be 4 MiB.
            assert!(of_heap(many) < of_heap(few) + (2 << 20), "{few:?}, then {many:?}");
        },
    );
}

/// CPU time of this process.
fn cpu_time() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel fills it in.
    let usage = unsafe {
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()), 0);
        usage.assume_init()
    };
    let of =
        |time: libc::timeval| Duration::from_micros(time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64);
    of(usage.ru_utime) + of(usage.ru_stime)
}

/// Lets threads allocate, resize, free and pass on blocks, `steps` of each. Returns the CPU time a step.
fn work(threads: usize, steps: usize) -> Duration {
    let passed: Vec<Mutex<Vec<Block>>> = (0..threads).map(|_| Mutex::new(Vec::new())).collect();
    let before = cpu_time();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let passed = &passed;
            scope.spawn(move || {
                let heap = Heap::process();
                let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15 ^ (thread as u64 + 1));
                let mut own: Vec<Block> = Vec::new();
                for at in 0..steps {
                    step(heap, &mut numbers, &mut own, passed);
                    if at % 256 == 255 {
                        let received = std::mem::take(&mut *passed[thread].lock().expect("no panic"));
                        received.into_iter().for_each(|block| block.free(heap));
                    }
                }
                own.into_iter().for_each(|block| block.free(heap));
            });
        }
    });
    let taken = cpu_time() - before;
    for blocks in passed {
        let blocks = blocks.into_inner().expect("no panic");
        blocks.into_iter().for_each(|block| block.free(Heap::process()));
    }
    taken / (threads * steps) as u32
}

#[test]
fn five_hundred_threads_do_not_get_in_each_others_way() {
    in_child(
        "crowds::five_hundred_threads_do_not_get_in_each_others_way",
        &[],
        || {
            let few = work(2, 128_000);
            let many = work(512, 1000);
            println!("figure: a step of 2 threads {few:?}, of 512 {many:?}");
            assert!(
                many < few * 6,
                "a step takes {many:?} of CPU time, of 2 threads {few:?}"
            );
        },
    );
}
