//! A region larger than the budget, parts of which the program commits: the kernel resolves their faults while all of them fit.
#![allow(unsafe_code)]

use std::time::Instant;

use plimsoll_pager::{Pager, Region, TrimTo};

use crate::children::wait;
use crate::forked_pagers::fork;
use crate::modes::builder;
use crate::pages::{PAGE, fill, is_as_filled};

const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;
const CHUNK: usize = 2 * MIB;
const RAM: usize = 64 * MIB;

/// A pager of `ram` bytes with a region of 4 GiB.
fn sparse(ram: usize) -> (Pager, Region) {
    let pager = builder()
        .ram(ram as u64)
        .address_space(4 * GIB as u64)
        .build()
        .expect("userfaultfd is allowed");
    let region = pager.map(4 * GIB).expect("the arena is free");
    (pager, region)
}

/// The bytes of a range, which no other code uses.
#[allow(clippy::mut_from_ref)]
fn part(region: &Region, start: usize, bytes: usize) -> &mut [u8] {
    assert!(start + bytes <= region.len());
    // SAFETY: inside of the region; each test uses a range by one slice at a time.
    unsafe { std::slice::from_raw_parts_mut(region.as_ptr().add(start), bytes) }
}

fn decommit(region: &Region, start: usize, bytes: usize) {
    // SAFETY: no reference to the range exists.
    unsafe { region.decommit_unborrowed(start..start + bytes) }.expect("nothing is pinned");
}

/// Bytes of native chunks.
fn native(pager: &Pager) -> usize {
    pager.stats().native_pages as usize * PAGE
}

#[track_caller]
fn assert_within_budget(pager: &Pager) {
    let stats = pager.stats();
    assert!(stats.resident_bytes() <= stats.ram, "{stats:?}");
    assert_eq!(stats.forced_frames, 0);
    assert_eq!(pager.validate(), []);
}

#[test]
fn committed_memory_is_the_kernels_until_its_sum_exceeds_the_budget() {
    let (pager, region) = sparse(RAM);
    assert_eq!(native(&pager), 0);
    // In parts that are no multiples of a chunk, twice, and far apart.
    for start in [0, 5 * MIB, 10 * MIB, 15 * MIB, 5 * MIB] {
        region.commit(start..start + 5 * MIB).expect("inside");
    }
    region.commit(GIB + 5..GIB + 6).expect("inside");
    assert_eq!(native(&pager), 22 * MIB);
    fill(part(&region, 0, 20 * MIB), 1, 1);
    fill(part(&region, GIB, CHUNK), 2, 1);
    let stats = pager.stats();
    assert_eq!((stats.zero_faults, stats.active_pages), (0, 0));
    assert_within_budget(&pager);
    // More than the budget for itself.
    region.commit(2 * GIB..3 * GIB).expect("inside");
    assert_eq!(native(&pager), 22 * MIB);
    // More than is left: of the committed pages those in use count from here on, and then it fits.
    region.commit(100 * MIB..120 * MIB).expect("inside");
    region.commit(200 * MIB..230 * MIB).expect("inside");
    let stats = pager.stats();
    assert_eq!(stats.adopted_pages as usize, 22 * MIB / PAGE);
    assert_eq!(stats.active_pages as usize, 22 * MIB / PAGE);
    assert_eq!(native(&pager), 30 * MIB);
    assert_within_budget(&pager);
    // All of it, and more than the budget.
    fill(part(&region, 100 * MIB, 20 * MIB), 3, 1);
    fill(part(&region, 200 * MIB, 30 * MIB), 4, 1);
    fill(part(&region, 2 * GIB, 20 * MIB), 5, 1);
    assert_within_budget(&pager);
    assert_eq!(native(&pager), 0);
    assert!(is_as_filled(part(&region, 0, 20 * MIB), 1, 1));
    assert!(is_as_filled(part(&region, GIB, CHUNK), 2, 1));
    assert!(is_as_filled(part(&region, 100 * MIB, 20 * MIB), 3, 1));
    assert!(is_as_filled(part(&region, 200 * MIB, 30 * MIB), 4, 1));
    assert!(is_as_filled(part(&region, 2 * GIB, 20 * MIB), 5, 1));
    // From now on, new parts are managed.
    region.commit(300 * MIB..320 * MIB).expect("inside");
    assert_eq!(native(&pager), 0);
    assert_within_budget(&pager);
}

#[test]
fn decommitted_memory_is_zero_and_may_be_committed_again() {
    let (pager, region) = sparse(RAM);
    for round in 1..=5 {
        region.commit(..40 * MIB).expect("inside");
        assert_eq!(native(&pager), 40 * MIB);
        assert!(part(&region, 0, 40 * MIB).iter().all(|byte| *byte == 0));
        fill(part(&region, 0, 40 * MIB), 1, round);
        // The ends are parts of chunks.
        decommit(&region, 3 * MIB, 36 * MIB);
        assert_eq!(native(&pager), 6 * MIB);
        assert!(is_as_filled(part(&region, 0, 3 * MIB), 1, round));
        assert!(part(&region, 3 * MIB, MIB).iter().all(|byte| *byte == 0));
        region.commit(100 * MIB..140 * MIB).expect("inside");
        assert_eq!(native(&pager), 46 * MIB);
        assert_eq!(pager.stats().zero_faults, 0);
        assert_within_budget(&pager);
        decommit(&region, 0, GIB);
        assert_eq!((native(&pager), pager.stats().active_pages), (0, 0));
        assert_within_budget(&pager);
    }
    // Without a new commit, faults come to the pager.
    fill(part(&region, 0, MIB), 1, 1);
    assert!(
        pager.stats().active_pages > 200,
        "the last ones may not be counted yet"
    );
    // Pages in use keep their chunk managed.
    region.commit(..4 * MIB).expect("inside");
    assert_eq!(native(&pager), 2 * MIB);
    assert!(is_as_filled(part(&region, 0, MIB), 1, 1));
    assert_within_budget(&pager);
}

/// A pin of a signal handler made the pages of its chunk managed.
#[test]
fn committed_memory_that_a_signal_handler_pins_stays_the_kernels() {
    let (pager, region) = sparse(RAM);
    region.commit(..4 * MIB).expect("inside");
    let bytes = 4 * MIB - PAGE;
    // Across two chunks, none of it touched.
    let range = MIB..3 * MIB + 5;
    let (pin, pinned) = region.pin_in_signal_handler(range.clone()).expect("it fits");
    assert_eq!((pinned, native(&pager)), (range.len(), 4 * MIB));
    assert!(
        region.is_pinned(range.end..range.end + 1).expect("inside"),
        "whole pages"
    );
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let receive = |at: usize, byte: u8, writer: &mut std::io::PipeWriter| {
        std::io::Write::write_all(writer, &[byte; 100]).expect("it fits");
        // SAFETY: no other code uses the bytes.
        let read = unsafe {
            libc::read(
                std::os::fd::AsRawFd::as_raw_fd(&reader),
                region.as_ptr().add(at).cast(),
                100,
            )
        };
        assert_eq!(read, 100, "{}", std::io::Error::last_os_error());
        assert_eq!(part(&region, at, 100), [byte; 100]);
    };
    receive(MIB + 50, 1, &mut writer);
    assert_eq!((pager.stats().zero_faults, native(&pager)), (0, 4 * MIB));
    // Managed from here on: the pinned pages are present, and stay so.
    assert_eq!(region.trim(..bytes, TrimTo::Store).expect("inside"), 0);
    assert_eq!(
        (native(&pager), pager.stats().active_pages as usize),
        (0, 2 * MIB / PAGE + 1)
    );
    for (at, byte) in [(MIB, 2), (2 * MIB - 50, 3), (3 * MIB - 95, 4)] {
        receive(at, byte, &mut writer);
    }
    assert_within_budget(&pager);
    drop(pin);
    assert_eq!(
        region.trim(..bytes, TrimTo::Store).expect("inside") as usize,
        2 * MIB / PAGE + 1
    );
    assert_eq!(part(&region, 2 * MIB - 50, 100), [3; 100]);
    assert_within_budget(&pager);
}

/// Memory that is committed and not touched takes no frame from the rest of the program.
#[test]
fn untouched_committed_memory_is_given_up_before_a_page_is_trimmed() {
    let (pager, region) = sparse(RAM);
    region.commit(..50 * MIB).expect("inside");
    part(&region, 7 * MIB, PAGE).fill(7);
    fill(part(&region, GIB, 50 * MIB), 1, 1);
    let stats = pager.stats();
    assert_eq!(stats.native_pages, 0);
    // A batch at most.
    assert!(stats.active_pages as usize > 49 * MIB / PAGE, "{stats:?}");
    assert_eq!(stats.adopted_pages, 1);
    assert_eq!(part(&region, 7 * MIB, PAGE)[5], 7);
    assert!(is_as_filled(part(&region, GIB, 50 * MIB), 1, 1));
    assert_within_budget(&pager);
}

#[test]
fn a_forked_pager_has_committed_memory_in_both_phases() {
    let (pager, region) = sparse(RAM);
    region.commit(..30 * MIB).expect("inside");
    fill(part(&region, 0, 20 * MIB), 1, 1);
    for phase in 1..=2 {
        let child = fork(&pager, || {
            let mut is_whole = is_as_filled(part(&region, 0, 20 * MIB), 1, phase);
            is_whole &= native(&pager) == if phase == 1 { 30 * MIB } else { 0 };
            fill(part(&region, 0, 30 * MIB), 2, 1);
            // Native in the child alone, or managed there.
            region.commit(GIB..GIB + 20 * MIB).expect("inside");
            fill(part(&region, GIB, 20 * MIB), 3, 1);
            fill(part(&region, 2 * GIB, 40 * MIB), 4, 1);
            is_whole &= is_as_filled(part(&region, 0, 30 * MIB), 2, 1);
            is_whole &= is_as_filled(part(&region, GIB, 20 * MIB), 3, 1);
            is_whole &= is_as_filled(part(&region, 2 * GIB, 40 * MIB), 4, 1);
            assert_within_budget(&pager);
            decommit(&region, 0, 3 * GIB);
            is_whole &= part(&region, 0, MIB).iter().all(|byte| *byte == 0);
            assert_within_budget(&pager);
            i32::from(!is_whole)
        });
        assert!(is_as_filled(part(&region, 0, 20 * MIB), 1, phase));
        assert_eq!(wait(child), 0, "phase {phase}");
        assert!(part(&region, GIB, MIB).iter().all(|byte| *byte == 0));
        // The second phase: managed, and a part trimmed.
        region.trim(..10 * MIB, TrimTo::Store).expect("inside");
        fill(part(&region, 0, 20 * MIB), 1, 2);
        region.trim(..30 * MIB, TrimTo::Modified).expect("inside");
        region.trim(4 * MIB..8 * MIB, TrimTo::Store).expect("inside");
        assert_within_budget(&pager);
    }
}

/// Threads that commit, use and decommit parts of the same chunks, and of their own.
#[test]
fn threads_commit_and_fault_at_the_same_time() {
    const THREADS: usize = 6;
    const ROUNDS: u64 = 60;
    let (pager, region) = sparse(RAM);
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let (pager, region) = (&pager, &region);
            scope.spawn(move || {
                // A sixth of each of ten chunks, and ten own chunks.
                let share = CHUNK / THREADS / PAGE * PAGE;
                let shared = |chunk: usize| chunk * CHUNK + number * share;
                let own = GIB + number * 40 * MIB;
                for round in 1..=ROUNDS {
                    for chunk in 0..10 {
                        let start = shared(chunk);
                        region.commit(start..start + share).expect("inside");
                        fill(part(region, start, share), number, round);
                    }
                    region.commit(own..own + 20 * MIB).expect("inside");
                    fill(part(region, own, 4 * MIB), number, round);
                    assert!(is_as_filled(part(region, own, 4 * MIB), number, round));
                    for chunk in 0..10 {
                        let start = shared(chunk);
                        assert!(is_as_filled(part(region, start, share), number, round));
                        decommit(region, start, share);
                        assert!(part(region, start, PAGE).iter().all(|byte| *byte == 0));
                    }
                    decommit(region, own, 20 * MIB);
                    if number == 0 && round % 4 == 0 {
                        region.trim(.., TrimTo::Standby).expect("inside");
                    }
                    let stats = pager.stats();
                    assert!(stats.forced_frames == 0, "{stats:?}");
                }
            });
        }
    });
    assert_within_budget(&pager);
}

/// Chunks are committed again and again while other threads touch them: no fault is lost, and no page is uncounted.
#[test]
fn a_fault_meets_a_commit_of_its_chunk() {
    const ROUNDS: usize = 400;
    let (pager, region) = sparse(RAM);
    let start = std::sync::Barrier::new(3);
    std::thread::scope(|scope| {
        let (start, region) = (&start, &region);
        for number in 0..2 {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    start.wait();
                    let page = part(region, round * CHUNK + number * 9 * PAGE, PAGE);
                    page.fill((round % 250) as u8 + 1);
                    start.wait();
                }
            });
        }
        for round in 0..ROUNDS {
            start.wait();
            let range = round * CHUNK..round * CHUNK + CHUNK;
            region.commit(range.clone()).expect("inside");
            start.wait();
            for number in 0..2 {
                let page = part(region, round * CHUNK + number * 9 * PAGE, PAGE);
                assert!(page.iter().all(|byte| *byte == (round % 250) as u8 + 1));
            }
            if round % 2 == 0 {
                decommit(region, range.start, CHUNK);
            }
        }
    });
    assert_within_budget(&pager);
}

/// For a person: `cargo test --release -- --ignored --nocapture first_touch`.
#[test]
#[ignore = "a measurement"]
fn first_touch_of_committed_memory() {
    const BYTES: usize = 200 * MIB;
    let (pager, region) = sparse(GIB);
    // In order of address, which the pager sees as a stream, or in another one.
    let touch = |start: usize, step: usize| {
        let time = Instant::now();
        for number in 0..BYTES / PAGE {
            part(&region, start + number * step % (BYTES / PAGE) * PAGE, 8).fill(1);
        }
        time.elapsed()
    };
    let timed = |work: &dyn Fn()| {
        let time = Instant::now();
        work();
        time.elapsed()
    };
    for round in 0..3 {
        let step = [1, 12_289, 12_289][round];
        let managed = touch(GIB, step);
        let discard = timed(&|| decommit(&region, GIB, BYTES));
        let commit = timed(&|| region.commit(..BYTES).expect("inside"));
        let again = timed(&|| region.commit(..BYTES).expect("inside"));
        let native = touch(0, step);
        assert_eq!(self::native(&pager), BYTES);
        let give_up = match round {
            // All are registered, and their pages adopted.
            2 => timed(&|| region.commit(2 * GIB..2 * GIB + 900 * MIB).expect("inside")),
            _ => timed(&|| decommit(&region, 0, BYTES)),
        };
        println!(
            "step {step}: managed {managed:?}, discarded {discard:?}; commit {commit:?}, again {again:?}, native {native:?}, end {give_up:?}"
        );
    }
    // SAFETY: fresh memory of this test.
    let plain = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let start = libc::mmap(std::ptr::null_mut(), BYTES, rights, flags, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        libc::madvise(start, BYTES, libc::MADV_NOHUGEPAGE);
        start.cast::<u8>()
    };
    let plain = timed(&|| {
        for page in (0..BYTES).step_by(PAGE) {
            // SAFETY: inside of it.
            unsafe { plain.add(page).write_volatile(1) };
        }
    });
    println!("plain memory: {plain:?}");
    assert_eq!(pager.validate(), []);
}
