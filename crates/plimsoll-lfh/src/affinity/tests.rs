//! Slots keep the pointers that threads put into them, while other slots are stopped and emptied.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Mutex;
use std::vec::Vec;

use plimsoll_os::{Advice, address_space};

use super::*;
use crate::bucket::BUCKETS;
use crate::numbers::Numbers;
use crate::seen_lock::{join, lock};
use plimsoll_testkit::rseq;
use plimsoll_testkit::this_program;

fn started() -> SlotSet {
    let set = SlotSet::unstarted();
    assert_eq!((set.count(), set.uses_sections()), (0, false));
    // As the process's first call does.
    settings::read();
    assert!(set.start());
    set
}

fn bucket(number: u8) -> Bucket {
    Bucket::new(number).unwrap()
}

fn token(number: usize) -> *mut u8 {
    core::ptr::without_provenance_mut(number << 4)
}

/// As the front end does it: a section where there are such, a batch of one elsewhere.
fn pop(set: &SlotSet, bucket: Bucket) -> *mut u8 {
    let block = set.sections().pop(bucket);
    let mut one = [block];
    if block.is_null() && !set.uses_sections() {
        set.pop_batch(bucket, &mut one);
    }
    one[0]
}

fn push(set: &SlotSet, bucket: Bucket, block: *mut u8) -> bool {
    set.sections().push(bucket, block) || !set.uses_sections() && set.push_batch(bucket, &[block]) == 1
}

#[test]
fn an_unused_slot_neither_pops_nor_pushes() {
    let set = started();
    for number in 0..=BUCKETS as u8 {
        let Some(bucket) = Bucket::new(number) else {
            continue;
        };
        assert!(pop(&set, bucket).is_null());
        assert!(!push(&set, bucket, token(1)));
        assert_eq!(set.pop_batch(bucket, &mut [token(0); 4]), 0);
        assert_eq!(set.push_batch(bucket, &[token(1); 4]), 0);
    }
    // SAFETY: no other thread knows the set.
    unsafe { set.end() };
}

/// A process that was restored on a machine with more processors (CRIU) had threads whose ids lead past the slots: into
/// memory of others.
#[test]
fn ids_past_the_slots_get_slots() {
    let set = SlotSet::unstarted();
    settings::read();
    // Each id is past the slots.
    assert!(set.start_for(Some(0)));
    if set.uses_sections() {
        assert_eq!(set.count(), SHARED);
        let bucket = bucket(9);
        assert!(pop(&set, bucket).is_null());
        assert!(!push(&set, bucket, token(1)));
        assert_eq!(set.pop_batch(bucket, &mut [token(0); 4]), 0);
        assert_eq!(set.push_batch(bucket, &[token(1); 4]), 0);
        assert_eq!(set.prepare(bucket), None);
        assert!(set.mine() >= SHARED && set.count() > SHARED, "it has slots now");
        while !push(&set, bucket, token(1)) {
            set.prepare(bucket);
        }
        // The thread may run elsewhere by now.
        let filled: u16 = (0..set.count())
            .map(|slot| set.header(slot, bucket).filled())
            .sum();
        assert_eq!(filled, 1);
        set.unmap_rest();
        assert!(set.mine() < set.count());
        assert!(!set.contains(set.slots.load(Ordering::Relaxed), set.count() * SLOT + 1));
    }
    // SAFETY: no other thread knows the set.
    unsafe { set.end() };
}

/// Whether the kernel has the advice against huge pages for an address.
fn has_no_huge_pages(address: usize) -> bool {
    let text = std::fs::read_to_string("/proc/self/smaps").expect("there is /proc");
    let mut here = false;
    for line in text.lines() {
        let first = line.split_ascii_whitespace().next().unwrap_or_default();
        let number = |text| usize::from_str_radix(text, 16).ok();
        let range = first
            .split_once('-')
            .map(|(start, end)| (number(start), number(end)));
        if let Some((Some(start), Some(end))) = range {
            here = (start..end).contains(&address);
        } else if here && first == "VmFlags:" {
            return line.split_ascii_whitespace().any(|flag| flag == "nh");
        }
    }
    panic!("nothing is mapped at {address:#x}, or the kernel shows no flags");
}

/// Else a heap's slots would be 2 MiB resident from the first block on, where huge pages are always used.
#[test]
fn no_huge_page_lies_under_slots() {
    let set = started();
    let plain = address_space::map(SLOT).expect("memory");
    // A kernel without huge pages takes no advice on them.
    let told = address_space::advise(plain, SLOT, Advice::NoHugePage).is_ok() && has_no_huge_pages(plain);
    assert_eq!(has_no_huge_pages(set.slots.load(Ordering::Relaxed)), told);
    // SAFETY: no other thread knows either.
    unsafe {
        address_space::unmap(plain, SLOT).expect("mapped above");
        set.end();
    }
}

/// Runs the steps on slots and on the model, on one thread that may change its processor: so it compares sums over
/// slots.
#[test]
fn slots_hold_what_a_model_holds() {
    let set = started();
    let mut held = std::collections::BTreeSet::new();
    let mut fresh = 1;
    let mut numbers = Numbers(0x1234_5678);
    let bucket = bucket(7);
    for _ in 0..3_000 {
        let state = numbers.next();
        let mut buffer = [core::ptr::null_mut(); 64];
        let size = (state >> 8) as usize % 64;
        match state % 6 {
            0 => {
                let block = pop(&set, bucket);
                assert!(block.is_null() || held.remove(&block), "{block:?} was never put");
            }
            1 if push(&set, bucket, token(fresh)) => {
                held.insert(token(fresh));
                fresh += 1;
            }
            2 => {
                let count = set.pop_batch(bucket, &mut buffer[..size]);
                for block in &buffer[..count] {
                    assert!(held.remove(block), "{block:?} was never put");
                }
            }
            3 => {
                for block in &mut buffer[..size] {
                    *block = token(fresh);
                    fresh += 1;
                }
                let count = set.push_batch(bucket, &buffer[..size]);
                held.extend(&buffer[..count]);
            }
            4 => {
                set.prepare(bucket);
            }
            _ => {
                set.header(set.mine(), bucket).grow(bucket);
            }
        }
        let inside: Vec<_> = (0..set.count())
            .flat_map(|slot| {
                set.header(slot, bucket).check(bucket);
                // SAFETY: this thread is the only one.
                unsafe { set.stopped(slot, bucket) }.to_vec()
            })
            .collect();
        assert_eq!(inside.len(), held.len());
        assert!(inside.iter().all(|block| held.contains(block)));
    }
    // SAFETY: no other thread knows the set.
    unsafe { set.end() };
}

/// Empties every slot, as a flush does, while others take and put.
fn flush(set: &SlotSet, bucket: Bucket, owned: &[AtomicBool], spare: &Mutex<Vec<usize>>) {
    // In place of the bucket's lock.
    let mut spare = lock(spare);
    let stopped: Vec<usize> = (0..set.count()).filter(|slot| set.stop(*slot, bucket)).collect();
    assert!(set.restart_sections());
    let mut taken = Vec::new();
    for slot in stopped {
        // As a flush: a thread that waits for a locked slot relies on its header, which changes in more than one step.
        let held = (!set.uses_sections()).then(|| set.lock(slot).lock());
        // SAFETY: just stopped, and the locks are held.
        taken.extend(
            unsafe { set.stopped(slot, bucket) }
                .iter()
                .map(|block| block.addr() >> 4),
        );
        set.header(slot, bucket).set_empty(bucket);
        set.header(slot, bucket).resume(bucket);
        drop(held);
    }
    for token in taken {
        assert!(
            !owned[token].swap(true, Ordering::AcqRel),
            "token {token} was in two hands"
        );
        assert!(owned[token].swap(false, Ordering::AcqRel));
        spare.push(token);
    }
}

fn hammer(set: &SlotSet, bucket: Bucket, owned: &[AtomicBool], spare: &Mutex<Vec<usize>>, stop: &AtomicBool) {
    let mut numbers = Numbers(thread_pointer() as u64 | 1);
    let mut mine: Vec<usize> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let state = numbers.next();
        let mut buffer = [core::ptr::null_mut(); 24];
        match state % 8 {
            0..3 => {
                let block = pop(set, bucket);
                if !block.is_null() {
                    take(owned, &mut mine, block.addr() >> 4);
                }
            }
            3..6 => {
                if let Some(number) = mine.pop() {
                    assert!(owned[number].swap(false, Ordering::AcqRel));
                    if !push(set, bucket, token(number)) {
                        let mut spare = lock(spare);
                        set.prepare(bucket);
                        set.header(set.mine(), bucket).grow(bucket);
                        spare.push(number);
                    }
                }
            }
            6 => {
                let size = (state >> 16) as usize % buffer.len();
                let count = set.pop_batch(bucket, &mut buffer[..size]);
                for block in &buffer[..count] {
                    take(owned, &mut mine, block.addr() >> 4);
                }
            }
            _ => {
                let size = ((state >> 16) as usize % buffer.len()).min(mine.len());
                for block in &mut buffer[..size] {
                    let number = mine.pop().unwrap();
                    assert!(owned[number].swap(false, Ordering::AcqRel));
                    *block = token(number);
                }
                let count = set.push_batch(bucket, &buffer[..size]);
                let mut spare = lock(spare);
                spare.extend(buffer[count..size].iter().map(|block| block.addr() >> 4));
                if let Some(number) = mine.is_empty().then(|| spare.pop()).flatten() {
                    take(owned, &mut mine, number);
                }
            }
        }
    }
    let mut spare = lock(spare);
    for number in mine {
        assert!(owned[number].swap(false, Ordering::AcqRel));
        spare.push(number);
    }
}

fn take(owned: &[AtomicBool], mine: &mut Vec<usize>, number: usize) {
    assert!(
        !owned[number].swap(true, Ordering::AcqRel),
        "token {number} was in two hands"
    );
    mine.push(number);
}

#[test]
fn tokens_are_neither_doubled_nor_lost() {
    const TOKENS: usize = 3000;
    let set = started();
    let bucket = bucket(3);
    for threads in [2, 8, 64] {
        let owned: Vec<AtomicBool> = (0..=TOKENS).map(|_| AtomicBool::new(false)).collect();
        let spare = Mutex::new((1..=TOKENS).collect::<Vec<_>>());
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|_| scope.spawn(|| hammer(&set, bucket, &owned, &spare, &stop)))
                .collect();
            let start = std::time::Instant::now();
            while start.elapsed() < Duration::from_millis(400) {
                flush(&set, bucket, &owned, &spare);
                std::thread::sleep(Duration::from_micros(300));
            }
            stop.store(true, Ordering::Relaxed);
            join(workers);
        });
        flush(&set, bucket, &owned, &spare);
        let mut left = spare.into_inner().unwrap();
        left.sort_unstable();
        assert!(
            left.iter().copied().eq(1..=TOKENS),
            "{} of {TOKENS} left, with {threads} threads",
            left.len()
        );
        for slot in 0..set.count() {
            set.header(slot, bucket).check(bucket);
        }
    }
    // SAFETY: all threads have ended.
    unsafe { set.end() };
}

/// The same tests once more in a process without sections, as the choice is made once a process.
#[test]
fn slots_are_the_same_without_sections() {
    settings::read();
    if !settings::sections() {
        assert!(!started().uses_sections());
        return;
    }
    let status = this_program()
        .args(["affinity::tests", "--test-threads=1"])
        .env("PLIMSOLL_HEAP_RSEQ", "off")
        .output()
        .unwrap();
    assert!(
        status.status.success(),
        "{}",
        std::string::String::from_utf8_lossy(&status.stdout)
    );
}

/// A process with threads waits 10 ms or more for the kernel, and those threads for the flushing one.
#[test]
fn sections_can_be_restarted_from_the_start() {
    const ALONE: &str = "PLIMSOLL_LFH_CHILD";
    if std::env::var_os(ALONE).is_none() {
        // Other tests of this process may have registered it.
        let status = this_program()
            .args([
                "affinity::tests::sections_can_be_restarted_from_the_start",
                "--exact",
            ])
            .env(ALONE, "1")
            .output()
            .unwrap();
        assert!(status.status.success(), "{status:?}");
        return;
    }
    // SAFETY: the call changes no memory.
    let restart = || match unsafe { libc::syscall(libc::SYS_membarrier, 1 << 7, 0, 0) } {
        0 => 0,
        _ => std::io::Error::last_os_error().raw_os_error().unwrap_or(0),
    };
    let before = restart();
    let set = started();
    match before {
        libc::EPERM if set.uses_sections() => assert_eq!(restart(), 0),
        // A kernel without sections, or without the call.
        other => assert_eq!(restart(), other),
    }
    // SAFETY: no other thread knows the set.
    unsafe { set.end() };
}

/// Sections serve slots if the C library and the kernel support them: otherwise every test here would pass on locked
/// slots alone. The test asks the system for that support itself, past the code under test.
#[test]
fn sections_are_used_where_the_system_has_them() {
    let wanted = rseq::is_usable() && settings::sections();
    assert_eq!(
        started().uses_sections(),
        wanted,
        "they need {}",
        rseq::WHAT_IS_NEEDED
    );
}
