//! Slots keep what is put into them, whoever puts and takes, while other slots are stopped and emptied.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Mutex;
use std::vec::Vec;

use super::*;
use crate::bucket::BUCKETS;
use crate::seen_lock::lock;
use crate::this_program::this_program;

fn started() -> SlotSet {
    let set = SlotSet {
        sections: AtomicUsize::new(0),
        slots: AtomicUsize::new(0),
        count: AtomicU32::new(0),
    };
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
fn an_unused_slot_gives_and_takes_nothing() {
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
    // SAFETY: nobody else knows of the set.
    unsafe { set.end() };
}

/// Does what the model does, on one thread that may change its processor: so the slots' sum is compared.
#[test]
fn slots_hold_what_a_model_holds() {
    let set = started();
    let mut held = std::collections::BTreeSet::new();
    let mut fresh = 1;
    let mut state = 0x1234_5678_u64;
    let bucket = bucket(7);
    for _ in 0..3_000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
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
    // SAFETY: nobody else knows of the set.
    unsafe { set.end() };
}

/// Empties every slot, as the drain does, while others take and put.
fn drain(set: &SlotSet, bucket: Bucket, owned: &[AtomicBool], spare: &Mutex<Vec<usize>>) {
    // Stands in for the bucket's lock.
    let mut spare = lock(spare);
    let stopped: Vec<usize> = (0..set.count()).filter(|slot| set.stop(*slot, bucket)).collect();
    assert!(set.restart_sections());
    let mut taken = Vec::new();
    for slot in stopped {
        // As the drain: whoever stands before a locked slot goes by its header, which changes in more than one step.
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
    let mut state = thread_pointer() as u64 | 1;
    let mut mine: Vec<usize> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
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
            for _ in 0..threads {
                scope.spawn(|| hammer(&set, bucket, &owned, &spare, &stop));
            }
            let start = std::time::Instant::now();
            while start.elapsed() < Duration::from_millis(400) {
                drain(&set, bucket, &owned, &spare);
                std::thread::sleep(Duration::from_micros(300));
            }
            stop.store(true, Ordering::Relaxed);
        });
        drain(&set, bucket, &owned, &spare);
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

/// Where the C library and the kernel have what sections need, they are used: otherwise every test here would pass
/// on locked slots alone.
#[test]
fn sections_are_used_where_the_system_has_them() {
    let used = started().uses_sections();
    let wanted = plimsoll_os::restartable_area().is_some() && settings::sections();
    assert_eq!(used, wanted);
}
