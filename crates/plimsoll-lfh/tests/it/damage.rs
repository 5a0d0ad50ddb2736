//! Damage that the heap detects in the back end and under its locks: the process ends with the cause, and does not
//! hang.
#![allow(unsafe_code)]

use std::os::unix::process::ExitStatusExt;
use std::process::Output;
use std::sync::atomic::{AtomicU32, Ordering};

use plimsoll_lfh::{Directory, FrontEnd, Heap, HeapOptions, UNIT, Unit};

use crate::child::in_child;
use crate::inspect::control_block;
use plimsoll_testkit::{again, role};

/// A size whose blocks are cached whole for the next request, and one whose blocks coalesce at once.
const LARGE: [usize; 2] = [40_000, 1 << 20];

const FREE: &str = "double-free";
const FREED: &str = "use-after-free";
const OTHER_HEAP: &str = "other-heap";
const WRITTEN: &str = "write-after-free";
const HEADER: &str = "damaged-header";
const DESCRIPTION: &str = "damaged-description";

const BY_THREADS: &str = "a large block freed by two threads";

/// The mistake, the front end of the process's heap, and the code of the message.
type Case = (&'static str, fn(), &'static str, &'static str);

const CASES: [Case; 21] = [
    ("a large block freed twice", freed_twice, "lfh", FREE),
    ("the same without slots", freed_twice, "standard", FREE),
    ("a long block freed twice", long_freed_twice, "lfh", FREE),
    (BY_THREADS, freed_by_threads, "lfh", FREE),
    (
        "a large block freed after it was coalesced",
        freed_after_trim,
        "lfh",
        FREE,
    ),
    (
        "a large block resized after its free",
        || resized_after_free(40_000, 60_000),
        "lfh",
        FREED,
    ),
    (
        "a long block resized after its free",
        || resized_after_free(1 << 20, 2 << 20),
        "lfh",
        FREED,
    ),
    (
        "a block of Standard resized after its free",
        || resized_after_free(100, 90),
        "standard",
        FREED,
    ),
    (
        "the size of a block of Standard after its free",
        sized_after_free,
        "standard",
        FREED,
    ),
    (
        "a large block freed to another heap",
        || freed_elsewhere(40_000),
        "lfh",
        OTHER_HEAP,
    ),
    (
        "a long block freed to another heap",
        || freed_elsewhere(1 << 20),
        "lfh",
        OTHER_HEAP,
    ),
    (
        "a large block lengthened by another heap",
        || resized_elsewhere(40_000, 60_000),
        "lfh",
        OTHER_HEAP,
    ),
    (
        "a long block shortened by another heap",
        || resized_elsewhere(1 << 20, 60_000),
        "lfh",
        OTHER_HEAP,
    ),
    (
        "a block of Standard freed to another heap",
        || freed_elsewhere(100),
        "standard",
        OTHER_HEAP,
    ),
    (
        "a block of Standard lengthened by another heap",
        || resized_elsewhere(100, 120),
        "standard",
        OTHER_HEAP,
    ),
    (
        "a link of Standard that leads to no memory",
        || misled(32 << 30),
        "standard",
        WRITTEN,
    ),
    (
        "a link of Standard that leads out of the heap",
        || misled(1 << 40),
        "standard",
        WRITTEN,
    ),
    (
        "a link of Standard that leads between blocks",
        || misled(8),
        "standard",
        WRITTEN,
    ),
    (
        "a header of Standard that was written over",
        header_overwritten,
        "standard",
        HEADER,
    ),
    (
        "an overrun in a heap that checks itself",
        overrun_in_a_debug_heap,
        "lfh",
        HEADER,
    ),
    (
        "a description of a heap that checks itself",
        description_overwritten,
        "lfh",
        DESCRIPTION,
    ),
];

/// # Safety
/// None: these are the mistakes under test.
unsafe fn free(block: *mut u8) {
    // SAFETY: the caller's.
    unsafe { Heap::process().free(block) };
}

fn large(size: usize) -> *mut u8 {
    let block = Heap::process().allocate(size);
    assert!(!block.is_null());
    block
}

fn freed_twice() {
    let block = large(LARGE[0]);
    // SAFETY: the mistake of this test.
    unsafe {
        free(block);
        free(block);
    }
}

/// Between others, so that it does not coalesce.
fn long_freed_twice() {
    let blocks: Vec<_> = (0..3).map(|_| large(LARGE[1])).collect();
    // SAFETY: the mistake of this test.
    unsafe {
        free(blocks[1]);
        free(blocks[1]);
    }
}

/// The second one comes while the first is within the heap, or after it.
/// Both once found the block in use when they freed it within the same few nanoseconds, and neither reported it.
fn freed_by_threads() {
    let (ready, block) = (AtomicU32::new(0), large(LARGE[0]) as usize);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                ready.fetch_add(1, Ordering::Relaxed);
                // A wait in the kernel would let one of them go much later.
                while ready.load(Ordering::Relaxed) < 2 {
                    std::hint::spin_loop();
                }
                // SAFETY: the mistake of this test.
                unsafe { free(block as *mut u8) };
            });
        }
    });
}

fn freed_after_trim() {
    let (block, _guard) = (large(LARGE[0]), large(LARGE[0]));
    // SAFETY: the mistake of this test.
    unsafe {
        free(block);
        Heap::process().trim();
        free(block);
    }
}

fn resized_after_free(size: usize, to: usize) {
    let block = Heap::process().allocate(size);
    // SAFETY: the mistake of this test.
    unsafe {
        free(block);
        Heap::process().reallocate(block, to);
    }
}

fn sized_after_free() {
    let block = Heap::process().allocate(100);
    // SAFETY: the mistake of this test.
    unsafe {
        free(block);
        Heap::process().usable_size(block);
    }
}

fn freed_elsewhere(size: usize) {
    let other = Heap::new(HeapOptions::default()).expect("there is memory");
    let block = other.allocate(size);
    // SAFETY: the mistake of this test.
    unsafe { free(block) };
}

fn resized_elsewhere(size: usize, to: usize) {
    let other = Heap::new(HeapOptions::default()).expect("there is memory");
    let block = other.allocate(size);
    // SAFETY: the mistake of this test.
    unsafe { Heap::process().reallocate(block, to) };
}

/// Has a link of a free block of Standard lead so many bytes past where it led, and has it followed.
fn misled(by: u64) {
    let blocks: Vec<_> = (0..6).map(|_| large(100)).collect();
    // SAFETY: the mistake of this test. Blocks that do not touch are linked in their first word, which is the address of
    // the header in front of the next one, and encoded.
    unsafe {
        free(blocks[1]);
        free(blocks[3]);
        let link = blocks[3].cast::<u64>();
        let led_to = blocks[1] as u64 - 8;
        let key = link.read() ^ led_to;
        link.write(key ^ (led_to + by));
    }
    large(100);
    large(100);
}

fn header_overwritten() {
    let block = large(100);
    // SAFETY: the mistake of this test.
    unsafe {
        block.sub(8).write_bytes(0x41, 8);
        free(block);
    }
}

fn debug_heap() -> Heap {
    let options = HeapOptions {
        debug: true,
        ..HeapOptions::default()
    };
    Heap::new(options).expect("there is memory")
}

/// The next call of any kind detects it.
fn overrun_in_a_debug_heap() {
    let heap = debug_heap();
    let blocks = [(); 3].map(|()| heap.allocate(100));
    // SAFETY: the mistake of this test.
    unsafe { blocks[0].write_bytes(1, heap.usable_size(blocks[0]) + 8) };
    heap.allocate(1 << 20);
}

fn description_overwritten() {
    let heap = debug_heap();
    let block = heap.allocate(1 << 20) as usize;
    let window = control_block();
    // SAFETY: the mistake of this test: the tables are there, and made of atomics.
    let unit = unsafe {
        let units = (*(window as *const Directory)).units.load(Ordering::Relaxed);
        &*(units as *const Unit).add((block - window) / UNIT)
    };
    unit.heap.store(77, Ordering::Relaxed);
    heap.allocate(100);
}

fn run(test: &str, case: &str, front_end: &str) -> Output {
    again(test, case)
        .env("PLIMSOLL_HEAP_FRONT_END", front_end)
        .output()
        .expect("the test program starts")
}

/// Checks that the process reported damage of this code. These blocks belong to no bucket.
fn assert_reported(name: &str, said: &str, code: &str) {
    let (start, end) = ("plimsoll-malloc: 0x", format!(" [{code}]"));
    let is_report =
        |line: &str| line.starts_with(start) && line.ends_with(&end) && !line.contains("(bucket ");
    assert!(said.lines().any(is_report), "{name}: {said}");
}

fn case_of_child() -> Option<fn()> {
    let name = role()?;
    let case = CASES.iter().find(|(known, ..)| *known == name);
    Some(case.expect("a case of the table").1)
}

#[test]
fn damage_of_runs_ends_the_process_and_is_named() {
    if let Some(commit) = case_of_child() {
        return commit();
    }
    for (name, _, front_end, code) in CASES {
        let output = run(
            "damage::damage_of_runs_ends_the_process_and_is_named",
            name,
            front_end,
        );
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(6), "{name}: {said}");
        assert_reported(name, &said, code);
    }
}

/// Neither thread reported it where both found the block in use: it went into two rows of the run cache.
#[test]
fn of_two_threads_that_free_a_large_block_one_reports_it() {
    if let Some(commit) = case_of_child() {
        return commit();
    }
    for round in 0..40 {
        let test = "damage::of_two_threads_that_free_a_large_block_one_reports_it";
        let output = run(test, BY_THREADS, "lfh");
        assert_eq!(output.status.signal(), Some(6), "round {round}");
    }
}

/// A handler as crash reporters have it. Of Standard it takes longer blocks than those of the damaged list: there it
/// would find the same damage again, and the process end at once.
extern "C" fn allocate_and_end(_signal: i32) {
    let heap = Heap::process();
    for size in [3000, 40_000, 1 << 20] {
        let block = heap.allocate(size);
        if block.is_null() {
            // SAFETY: ends the process.
            unsafe { libc::_exit(7) };
        }
        // SAFETY: the block is in use, and as long.
        unsafe { block.write_bytes(1, size) };
    }
    // SAFETY: ends the process.
    unsafe { libc::_exit(42) };
}

/// It hung: the thread that found the damage held the lock that its handler waited for.
#[test]
fn a_handler_of_sigabrt_may_allocate() {
    if let Some(commit) = case_of_child() {
        // SAFETY: ends the process if it hangs; the handler is one.
        unsafe {
            libc::alarm(60);
            libc::signal(
                libc::SIGABRT,
                allocate_and_end as extern "C" fn(i32) as libc::sighandler_t,
            );
        }
        return commit();
    }
    for (name, _, front_end, code) in CASES {
        let output = run("damage::a_handler_of_sigabrt_may_allocate", name, front_end);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.status.code(),
            Some(42),
            "{name}: {:?} {said}",
            output.status
        );
        assert_reported(name, &said, code);
    }
}

fn use_by_threads() {
    let heap = debug_heap();
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            let heap = &heap;
            scope.spawn(move || {
                for round in 0..500_usize {
                    let size = match thread {
                        0 => 100 + round,
                        _ => 20_000 * (1 + (round * 7 + thread) % 12),
                    };
                    let block = heap.allocate(size);
                    assert!(!block.is_null());
                    // SAFETY: the block is in use.
                    unsafe { heap.free(block) };
                }
            });
        }
    });
    assert_eq!(heap.front_end(), FrontEnd::Standard);
}

/// One thread's large blocks come and go while another's call has the heap checked.
#[test]
fn a_heap_that_checks_itself_is_used_by_many_threads() {
    in_child(
        "damage::a_heap_that_checks_itself_is_used_by_many_threads",
        &[],
        use_by_threads,
    );
}

#[test]
fn a_heap_is_not_hardened_and_something_that_excludes_it() {
    use plimsoll_lfh::HeapError;
    for debug in [false, true] {
        let options = HeapOptions {
            debug,
            hardened: true,
        };
        // SAFETY: no other thread uses it.
        let made = unsafe { Heap::new_no_serialize(options) };
        assert_eq!(made.err(), Some(HeapError::Contradiction));
        assert_eq!(
            Heap::new(options).err(),
            debug.then_some(HeapError::Contradiction)
        );
    }
    let said = HeapError::Contradiction.to_string();
    assert!(
        said.contains("hardened") && said.contains("debug") && said.contains("no_serialize"),
        "{said}"
    );
}
