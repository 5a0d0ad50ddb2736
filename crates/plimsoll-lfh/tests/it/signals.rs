//! Handlers of signals that use the heap in the middle of a call of it. No malloc promises that; but an interrupted
//! restartable sequence begins anew, after any work of the handler, and these tests show that.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use plimsoll_lfh::Heap;

use crate::child::in_child;
use crate::this_process::stay_on_one_processor;

const SIZE: usize = 48;
/// Enough that some hundreds fall into a sequence.
const INTERRUPTIONS: u32 = 20_000;

static INTERRUPTED: AtomicU32 = AtomicU32::new(0);

/// A block filled with `byte`.
fn filled(byte: u8) -> *mut u8 {
    let block = Heap::process().allocate(SIZE);
    // SAFETY: the block was just made.
    unsafe { block.write_bytes(byte, SIZE) };
    block
}

/// Frees a block that holds nothing but `byte`, and otherwise ends the process: a handler cannot panic.
fn free(block: *mut u8, byte: u8) {
    // SAFETY: the block is in use, and is the caller's.
    unsafe {
        if !std::slice::from_raw_parts(block, SIZE)
            .iter()
            .all(|found| *found == byte)
        {
            libc::abort();
        }
        Heap::process().free(block);
    }
}

extern "C" fn use_the_heap(_signal: libc::c_int) {
    let (first, second) = (filled(1), filled(2));
    free(first, 1);
    free(second, 2);
    INTERRUPTED.fetch_add(1, Ordering::Relaxed);
}

/// Keeps this thread on one processor, and so at one slot, which never is empty or full: no call takes a lock.
fn stay_at_one_slot() {
    stay_on_one_processor();
    let blocks: Vec<_> = (0..2000).map(|_| filled(3)).collect();
    blocks.into_iter().for_each(|block| free(block, 3));
    // Between half full and full.
    for _ in 0..4 {
        filled(3);
    }
}

/// Has this thread interrupted by SIGALRM so often.
fn interrupt_every(period: Duration) {
    let every = libc::timespec {
        tv_sec: 0,
        tv_nsec: period.subsec_nanos().into(),
    };
    let timer_spec = libc::itimerspec {
        it_interval: every,
        it_value: every,
    };
    // SAFETY: zero is valid for the structure, and the handler has the signature of one.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = use_the_heap as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        let registered = libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
        assert_eq!(registered, 0);
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGALRM;
        event.sigev_notify_thread_id = libc::gettid();
        let mut timer: libc::timer_t = std::mem::zeroed();
        let made = libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer);
        assert_eq!(made, 0);
        let set = libc::timer_settime(timer, 0, &raw const timer_spec, std::ptr::null_mut());
        assert_eq!(set, 0);
    }
}

/// Whether restartable sequences serve the slots.
fn is_restartable() -> bool {
    free(filled(0), 0);
    let statistics = Heap::process().statistics();
    statistics.is_some_and(|(record, _)| record.front.restartable)
}

#[test]
fn a_sequence_that_a_handler_interrupts_begins_anew() {
    // Where no restartable sequences serve the slots a call takes a lock, and a handler may not.
    if !plimsoll_testkit::capability(
        "rseq",
        plimsoll_testkit::rseq::is_usable(),
        plimsoll_testkit::rseq::WHAT_IS_NEEDED,
    ) {
        return;
    }
    // Threads that return memory take locks.
    let environment = [
        ("PLIMSOLL_HEAP_PURGE", "never"),
        ("PLIMSOLL_HEAP_PROFILE", "default"),
        ("PLIMSOLL_HEAP_RSEQ", "on"),
    ];
    let name = "signals::a_sequence_that_a_handler_interrupts_begins_anew";
    in_child(name, &environment, || {
        assert!(is_restartable());
        stay_at_one_slot();
        interrupt_every(Duration::from_micros(20));
        let start = Instant::now();
        let mut calls = 0_u64;
        while INTERRUPTED.load(Ordering::Relaxed) < INTERRUPTIONS {
            let (first, second) = (filled(4), filled(5));
            assert_ne!(first, second);
            free(first, 4);
            free(second, 5);
            calls += 4;
            assert!(start.elapsed() < Duration::from_secs(100), "hardly interrupted");
        }
        println!("measured: {calls} calls, {INTERRUPTIONS} times interrupted");
        let mut damages = 0;
        let walked = Heap::validate_all(&mut |_| damages += 1).expect("it can be read");
        assert!(walked.is_some(), "the heap was used");
        assert_eq!(damages, 0);
    });
}
