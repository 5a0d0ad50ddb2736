//! Forks of a process whose threads are within the heap.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_lfh::Heap;

use crate::child::in_child;
use crate::threads::{Block, Numbers};

const FORKS: usize = 200;

unsafe extern "C" fn before() {
    Heap::before_fork();
}

unsafe extern "C" fn in_the_parent() {
    // SAFETY: the C library calls it after `before`, in the same thread.
    unsafe { Heap::after_fork_in_parent() };
}

unsafe extern "C" fn in_the_child() {
    // SAFETY: the C library calls it after `before`, in the one thread of the child.
    unsafe { Heap::after_fork_in_child() };
}

/// What the child does: without anything of the Rust library that might lock.
fn use_the_heap(seed: u64) {
    let heap = Heap::process();
    let mut numbers = Numbers(seed);
    let mut blocks: [Option<Block>; 64] = [const { None }; 64];
    for _ in 0..2000 {
        let at = numbers.next() as usize % blocks.len();
        if let Some(block) = blocks[at].replace(Block::new(heap, &mut numbers)) {
            block.free(heap);
        }
    }
    blocks.into_iter().flatten().for_each(|block| block.free(heap));
    heap.trim();
}

fn fork_under_load() {
    // SAFETY: the three functions are what the call asks for.
    let registered = unsafe { libc::pthread_atfork(Some(before), Some(in_the_parent), Some(in_the_child)) };
    assert_eq!(registered, 0);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let ended = &ended;
            scope.spawn(move || {
                let mut seed = thread + 1;
                while !ended.load(Ordering::Relaxed) {
                    use_the_heap(seed);
                    seed += 10;
                }
            });
        }
        for fork in 0..FORKS {
            // SAFETY: the child calls the heap and `_exit` alone.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                // A panic may wait for a lock of a thread that is not there.
                // SAFETY: ends the child if it is not done by then.
                unsafe { libc::alarm(60) };
                // A panic must not unwind into the scope, which would wait for threads that the child does not have.
                let used = std::panic::catch_unwind(|| use_the_heap(fork as u64 + 1000));
                // SAFETY: ends the child.
                unsafe { libc::_exit(if used.is_ok() { 0 } else { 101 }) };
            }
            assert!(pid > 0);
            let mut status = 0;
            // SAFETY: waits for the child that was just made.
            assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
            assert_eq!(status, 0, "child {fork}");
        }
        ended.store(true, Ordering::Relaxed);
    });
}

#[test]
fn children_of_a_process_under_load_have_a_heap() {
    in_child(
        "fork::children_of_a_process_under_load_have_a_heap",
        &[],
        fork_under_load,
    );
}

#[test]
fn children_of_a_process_under_load_have_a_standard_heap() {
    in_child(
        "fork::children_of_a_process_under_load_have_a_standard_heap",
        &[("PLIMSOLL_HEAP_FRONT_END", "standard")],
        fork_under_load,
    );
}
