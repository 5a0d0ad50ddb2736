//! Forks of a process whose threads are within the heap.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_lfh::Heap;

use crate::blocks::{filled, free_all};
use crate::child::in_child;
use crate::numbers::Numbers;
use crate::this_process::resident;
use crate::threads::{Block, duration};
use plimsoll_testkit::status_of_fork;

/// Forks for each second that a stress lasts.
const FORKS: u64 = 30;

/// Handlers of a library that was there before the heap: before a fork they run after the heap's, after it before them.
unsafe extern "C" fn allocate_in_handler() {
    use_the_heap(77, 100);
}

/// Handlers of a program that also announces its forks itself.
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

fn register(before: unsafe extern "C" fn(), parent: unsafe extern "C" fn(), child: unsafe extern "C" fn()) {
    // SAFETY: the three functions have the required types.
    let registered = unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) };
    assert_eq!(registered, 0);
}

/// The body of the child: without any function of the Rust library that might lock.
fn use_the_heap(seed: u64, steps: usize) {
    let heap = Heap::process();
    let mut numbers = Numbers(seed);
    let mut blocks: [Option<Block>; 64] = [const { None }; 64];
    for _ in 0..steps {
        let at = numbers.next() as usize % blocks.len();
        if let Some(block) = blocks[at].replace(Block::new(heap, &mut numbers)) {
            block.free(heap);
        }
    }
    blocks.into_iter().flatten().for_each(|block| block.free(heap));
    heap.trim();
}

fn fork_under_load() {
    // SAFETY: ends the process if a fork hangs.
    unsafe { libc::alarm(120 + 10 * duration().as_secs() as u32) };
    register(allocate_in_handler, allocate_in_handler, allocate_in_handler);
    Heap::prepare_for_forks();
    register(before, in_the_parent, in_the_child);
    register(allocate_in_handler, allocate_in_handler, allocate_in_handler);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let ended = &ended;
            scope.spawn(move || {
                let mut seed = thread + 1;
                while !ended.load(Ordering::Relaxed) {
                    use_the_heap(seed, 2000);
                    seed += 10;
                }
            });
        }
        for fork in 0..FORKS * duration().as_secs() {
            let status = status_of_fork(|| use_the_heap(fork + 1000, 2000));
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
fn children_of_a_process_under_load_have_a_hardened_heap() {
    in_child(
        "fork::children_of_a_process_under_load_have_a_hardened_heap",
        &[("PLIMSOLL_HEAP_PROFILE", "hardened")],
        fork_under_load,
    );
}

#[test]
fn children_of_a_process_under_load_have_a_hardened_heap_without_sections() {
    in_child(
        "fork::children_of_a_process_under_load_have_a_hardened_heap_without_sections",
        &[
            ("PLIMSOLL_HEAP_PROFILE", "hardened"),
            ("PLIMSOLL_HEAP_RSEQ", "off"),
        ],
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

/// A handler of a library that was there before the heap, in the child: the heap does not know of the fork's end yet.
unsafe extern "C" fn free_much_in_handler() {
    let heap = Heap::process();
    let mut blocks = [std::ptr::null_mut(); 320];
    blocks.fill_with(|| heap.allocate(100_000));
    for block in blocks {
        // SAFETY: the block is in use, and that long.
        unsafe {
            block.write_bytes(1, 100_000);
            heap.free(block);
        }
    }
}

/// Such a thread's stack would be that of the next one too.
#[test]
fn no_thread_is_started_before_the_child_has_forgotten_its_parents() {
    in_child(
        "fork::no_thread_is_started_before_the_child_has_forgotten_its_parents",
        &[],
        || {
            unsafe extern "C" fn nothing() {}
            register(nothing, nothing, free_much_in_handler);
            Heap::prepare_for_forks();
            let status = status_of_fork(|| {
                let threads = std::fs::read_dir("/proc/self/task").expect("there is /proc");
                assert_eq!(threads.count(), 1);
            });
            assert_eq!(status, 0);
        },
    );
}

/// The helper is not in the child, which starts one of its own.
#[test]
fn a_child_gives_memory_back() {
    if !crate::HAS_HELPER {
        return;
    }
    in_child("fork::a_child_gives_memory_back", &[], || {
        let take_and_give = || {
            let heap = Heap::process();
            let blocks: Vec<_> = (0..320).map(|_| heap.allocate(100_000)).collect();
            for block in &blocks {
                // SAFETY: the block is in use, and that long.
                unsafe { block.write_bytes(1, 100_000) };
            }
            let taken = resident();
            // SAFETY: the blocks are in use.
            blocks.into_iter().for_each(|block| unsafe { heap.free(block) });
            taken
        };
        take_and_give();
        let status = status_of_fork(move || {
            let taken = take_and_give();
            for _ in 0..100 {
                std::thread::sleep(std::time::Duration::from_millis(50));
                if resident() + (24 << 20) < taken {
                    return;
                }
            }
            panic!("of {taken} bytes {} are resident still", resident());
        });
        assert_eq!(status, 0);
    });
}

/// Memory that returned to the kernel while a fork waited for the heap; `total` bytes were free, and the purge had begun.
/// None if it had come too far by then.
fn returned_while_a_fork_waits(total: usize) -> Option<usize> {
    let heap = Heap::process();
    let blocks = filled(heap, total, || 1 << 20);
    let full = resident();
    free_all(heap, blocks);
    while resident() + (16 << 20) > full {
        std::thread::yield_now();
    }
    let before = resident();
    Heap::before_fork();
    let after = resident();
    // SAFETY: `before_fork` was called by this thread, which does not fork.
    unsafe { Heap::after_fork_in_parent() };
    (before + total / 2 > full).then(|| before.saturating_sub(after))
}

/// A fork waited until all old free memory had returned: a second and more where gigabytes were free.
#[test]
fn a_fork_waits_for_one_step_of_the_purge_not_for_a_period() {
    if !crate::HAS_HELPER {
        return;
    }
    in_child(
        "fork::a_fork_waits_for_one_step_of_the_purge_not_for_a_period",
        &[],
        || {
            const TOTAL: usize = 768 << 20;
            // SAFETY: ends the process if the purge never begins.
            unsafe { libc::alarm(240) };
            // This thread may lose its processor before it calls the heap, and the helper goes on meanwhile.
            let returned = (0..20).filter_map(|_| returned_while_a_fork_waits(TOTAL)).take(5);
            let least = returned.min().expect("the purge of so much takes a while");
            println!("measured: {} MiB returned while a fork waited", least >> 20);
            assert!(least <= 64 << 20, "{least} bytes");
        },
    );
}

/// The helper ends before a fork, and the program may do nothing more after it.
#[test]
fn an_idle_process_with_threads_returns_memory_after_a_fork() {
    if !crate::HAS_HELPER {
        return;
    }
    in_child(
        "fork::an_idle_process_with_threads_returns_memory_after_a_fork",
        &[],
        || {
            // SAFETY: ends the process if the memory stays.
            unsafe { libc::alarm(60) };
            let heap = Heap::process();
            let before = resident();
            free_all(heap, filled(heap, 200 << 20, || 100_000));
            assert_eq!(status_of_fork(|| ()), 0);
            while resident() > before + (20 << 20) {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        },
    );
}
