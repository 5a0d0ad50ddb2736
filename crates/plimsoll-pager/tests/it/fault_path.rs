//! Faults where the thread has little: a small stack, no allocator, a handler in the middle of its own fault.
#![allow(unsafe_code)]

use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_pager::{Codec, Pager, Region, TrimTo};
use plimsoll_testkit::{again, role};

use crate::alarm::Alarm;
use crate::allocations;
use crate::page_file::folder;

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;
/// The smallest stack that the rules of the handler promise to be enough, and room for the work of the thread itself.
const STACK: usize = 80 << 10;

/// The word that a page of a round begins with, and fills a quarter of it with.
fn word(page: usize, round: u64) -> u64 {
    (page as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ round << 32
}

fn write(bytes: &mut [u8], pages: Range<usize>, round: u64) {
    for page in pages {
        let mut value = word(page, round);
        for chunk in bytes[page * PAGE..page * PAGE + PAGE / 4].chunks_exact_mut(8) {
            chunk.copy_from_slice(&value.to_le_bytes());
            value = value.rotate_left(7).wrapping_add(0x1234_5678_9ABC_DEF1);
        }
    }
}

/// Pages that do not begin with the word of their round.
fn wrong(bytes: &[u8], pages: Range<usize>, round: u64) -> usize {
    let differs = |page: &usize| bytes[page * PAGE..][..8] != word(*page, round).to_le_bytes();
    pages.filter(differs).count()
}

/// Restores from every tier, trims and compresses inside faults, on a stack of 80 KiB and without one allocation: also with a
/// deferred page file.
#[test]
fn a_fault_needs_a_small_stack_and_no_allocator() {
    let folder = folder();
    for (codec, is_deferred) in [
        (Codec::Lz4, false),
        (Codec::Zstd, false),
        (Codec::Auto, false),
        (Codec::Lz4, true),
    ] {
        let mut builder = Pager::builder()
            .ram(8 * MIB as u64)
            .codec(codec)
            .page_file(folder.path(), 64 * MIB as u64);
        if is_deferred {
            builder = builder.defer_page_file();
        }
        let pager = builder.build().expect("userfaultfd is allowed");
        let mut region = pager.map(24 * MIB).expect("addresses are free");
        let pages = 24 * MIB / PAGE;
        let on_small_stack = |region: &mut Region| {
            let thread = std::thread::Builder::new().stack_size(STACK);
            let work = || {
                allocations::count(|| {
                    write(region.bytes_mut(), 0..pages, 1);
                    let wrong_once = wrong(region.bytes(), 0..pages, 1);
                    write(region.bytes_mut(), 0..pages / 2, 2);
                    wrong_once
                        + wrong(region.bytes(), 0..pages / 2, 2)
                        + wrong(region.bytes(), pages / 2..pages, 1)
                })
            };
            std::thread::scope(|scope| {
                let worker = thread.spawn_scoped(scope, work).expect("a thread");
                worker.join().expect("no panic")
            })
        };
        let (wrong, allocations) = on_small_stack(&mut region);
        assert_eq!((wrong, allocations), (0, 0), "{codec:?}");
        let stats = pager.stats();
        // A fault restores one page, or a run of a stream.
        assert!(
            stats.hard_faults > 0 && stats.hard_faults + stats.stream_pages > 1000,
            "{stats:?}"
        );
        let written = stats.page_file.map_or(0, |file| file.written_bytes);
        assert!(written > 0 || !is_deferred, "{stats:?}");
    }
}

static TICKS: AtomicU64 = AtomicU64::new(0);
static REGION: AtomicPtr<u8> = AtomicPtr::new(null_mut());
/// Pages that the handler of the alarm has to itself.
const OF_HANDLER: usize = 2048;

/// Counts in pages of the region: each may be in any state.
extern "C" fn on_alarm(_: libc::c_int) {
    let tick = TICKS.fetch_add(1, Ordering::Relaxed);
    let page = (tick as usize).wrapping_mul(797) % OF_HANDLER;
    // SAFETY: the region outlives the timer, and no other code uses its first pages.
    unsafe {
        let count = REGION.load(Ordering::Relaxed).add(page * PAGE).cast::<u64>();
        count.write_volatile(count.read_volatile() + 1);
    }
}

/// The alarm comes between any two instructions of the one thread: also while it trims, waits or holds pages.
#[test]
fn a_signal_handler_uses_a_region_in_the_middle_of_faults_and_trims() {
    if role().is_none() {
        let test = "fault_path::a_signal_handler_uses_a_region_in_the_middle_of_faults_and_trims";
        let output = again(test, "alarm").output().expect("the test program starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        return;
    }
    let pager = Pager::builder()
        .ram(8 * MIB as u64)
        .build()
        .expect("userfaultfd is allowed");
    let pages = 24 * MIB / PAGE;
    let mut region = pager.map(24 * MIB).expect("addresses are free");
    let of_thread = OF_HANDLER..pages;
    write(region.bytes_mut(), of_thread.clone(), 0);
    REGION.store(region.bytes_mut().as_mut_ptr(), Ordering::Relaxed);
    let alarm = Alarm::every(Duration::from_micros(300), on_alarm);
    for round in 0..6 {
        assert_eq!(
            wrong(region.bytes(), of_thread.clone(), round),
            0,
            "round {round}"
        );
        region.trim(.., TrimTo::Store).expect("the whole region");
        write(region.bytes_mut(), of_thread.clone(), round + 1);
        region.trim(.., TrimTo::Standby).expect("the whole region");
    }
    drop(alarm);
    let counts = region.bytes()[..OF_HANDLER * PAGE].chunks_exact(PAGE);
    let sum: u64 = counts
        .map(|page| u64::from_ne_bytes(page[..8].try_into().expect("8 bytes")))
        .sum();
    let ticks = TICKS.load(Ordering::Relaxed);
    assert!(ticks > 100, "{ticks} alarms");
    assert_eq!(sum, ticks);
    assert!(pager.validate().is_empty(), "{:?}", pager.validate());
}
