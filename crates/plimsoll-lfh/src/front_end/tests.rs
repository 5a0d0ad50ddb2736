//! The front end against a model of the blocks in use, with every description checked after each step.
#![allow(unsafe_code)]

mod mistakes;

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::boxed::Box;
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::affinity::{Header, SHARED};
use crate::front_end::flush::Idle;
use crate::numbers::Numbers;
use crate::remote_free::SubsegmentState;
use crate::seen_lock::{join, lock};
use crate::settings;
use crate::subsegment::{PAGE, Subsegment};
use plimsoll_testkit::this_program;

/// A heap of a test's own: a back end and a front end.
struct Ends {
    backend: Box<Backend>,
    front_end: Box<LowFragmentation>,
}

impl Ends {
    fn new() -> Ends {
        /// Numbers that no other test's heap has.
        static NUMBER: AtomicU32 = AtomicU32::new(400);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        assert!(arena::prepare(|| {
            integrity::set_key(arena::directory().key.load(Ordering::Relaxed));
            true
        }));
        // SAFETY: zeroed memory is valid for both.
        let (backend, front_end): (Box<Backend>, Box<LowFragmentation>) = unsafe {
            (
                Box::new(MaybeUninit::zeroed().assume_init()),
                Box::new(MaybeUninit::zeroed().assume_init()),
            )
        };
        backend.begin(number);
        assert!(front_end.start(number, false));
        Ends { backend, front_end }
    }

    fn allocate(&self, bucket: Bucket) -> *mut u8 {
        match allocate_fast(self.front_end.sections(), bucket) {
            block if block.is_null() => self.front_end.refill(&self.backend, bucket),
            block => block,
        }
    }

    /// # Safety
    /// As [`free_fast`].
    unsafe fn try_free(&self, block: *mut u8) -> Freed {
        // SAFETY: the caller's premise.
        unsafe {
            match free_fast(self.front_end.sections(), block) {
                Freed::NoRoom => self.front_end.free_tagged(&self.backend, block),
                Freed::NotHere => match any_bucket_at(block) {
                    Some(bucket) => self.front_end.free_slowly(&self.backend, bucket, block),
                    None => return Freed::NotHere,
                },
                Freed::Done => {}
            }
            Freed::Done
        }
    }

    fn free(&self, block: *mut u8) {
        // SAFETY: tests free blocks that they have.
        assert_eq!(unsafe { self.try_free(block) }, Freed::Done);
    }

    /// Checks all blocks of a bucket while no thread uses the heap: each block is in one place, and no other block
    /// exists.
    fn check(&self, bucket: Bucket, in_use: &BTreeSet<usize>) {
        let front_end = &self.front_end;
        let lists = front_end.buckets[bucket.index()].lock.lock();
        let mut known: BTreeMap<_, _> = lists
            .check(bucket)
            .into_iter()
            .map(|listed| (listed.first, listed.check()))
            .collect();
        if lists.spare() != 0 {
            let spare = Subsegment::new(lists.spare(), bucket);
            known.insert(spare.first, spare.check());
        }
        let mut free = BTreeSet::new();
        for slot in 0..front_end.slots.count() {
            let header: &Header = front_end.slots.header(slot, bucket);
            header.check(bucket);
            let active = front_end.slots.active(slot, bucket).load(Ordering::Relaxed);
            if active != 0 {
                let active = Subsegment::new(active, bucket);
                assert_eq!(active.unit().remote.load().state, SubsegmentState::Active);
                assert!(known.insert(active.first, active.check()).is_none());
            }
            // SAFETY: no thread uses the heap.
            for block in unsafe { front_end.slots.stopped(slot, bucket) } {
                assert!(free.insert(*block as usize), "a block is in slots twice");
            }
        }
        for block in in_use.iter().chain(&free) {
            let subsegment = Subsegment::containing(*block, bucket);
            let number = subsegment.number(*block as *mut u8);
            assert_eq!(subsegment.block(number) as usize, *block);
            // Those that are in no list are full: all of their blocks are somewhere else.
            let free = known.entry(subsegment.first).or_insert_with(|| {
                assert_eq!(subsegment.unit().remote.load().state, SubsegmentState::Full);
                BTreeSet::new()
            });
            assert!(free.insert(number), "block {number} is in two places");
        }
        assert!(in_use.is_disjoint(&free));
        assert_eq!(known.len(), lists.subsegments as usize);
        for (first, blocks) in known {
            let all = 0..subsegment::capacity(bucket);
            assert!(blocks.into_iter().eq(all), "subsegment {first} lost a block");
        }
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        // SAFETY: the test has ended.
        unsafe { self.front_end.end() };
    }
}

#[derive(Debug, Clone)]
enum Step {
    Allocate { bucket: u8, count: usize },
    Free { which: usize, count: usize },
    Flush { all: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Few buckets, so that they fill: the smallest, one whose blocks do not fill a subsegment, one whose blocks are a
    // page and a bit, a large one.
    let bucket = prop_oneof![Just(1_u8), Just(3), Just(27), Just(46), Just(BUCKETS as u8)];
    prop::collection::vec(
        prop_oneof![
            4 => (bucket, 1..300_usize).prop_map(|(bucket, count)| Step::Allocate { bucket, count }),
            4 => (any::<usize>(), 1..300_usize).prop_map(|(which, count)| Step::Free { which, count }),
            1 => any::<bool>().prop_map(|all| Step::Flush { all }),
        ],
        1..24,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn blocks_are_whole_and_in_one_place(steps in steps()) {
        let ends = Ends::new();
        let mut blocks: Vec<(*mut u8, Bucket, u8)> = Vec::new();
        let mut stamp = 0_u8;
        for step in steps {
            match step {
                Step::Allocate { bucket, count } => {
                    let bucket = Bucket::new(bucket).unwrap();
                    for _ in 0..count {
                        let block = ends.allocate(bucket);
                        stamp = stamp.wrapping_add(1);
                        // SAFETY: the block has that many bytes, and is this test's.
                        unsafe { block.write_bytes(stamp, bucket.size()) };
                        blocks.push((block, bucket, stamp));
                    }
                }
                Step::Free { which, count } => {
                    for at in 0..count.min(blocks.len()) {
                        let which = which.wrapping_mul(at + 1) % blocks.len();
                        let (block, bucket, stamp) = blocks.swap_remove(which);
                        // SAFETY: the block is in use.
                        let bytes = unsafe { core::slice::from_raw_parts(block, bucket.size()) };
                        assert!(bytes.iter().all(|byte| *byte == stamp), "another thread wrote to a block");
                        ends.free(block);
                    }
                }
                Step::Flush { all } => {
                    let idle = if all { Idle::All } else { Idle::Unchanged };
                    ends.front_end.flush_idle(&ends.backend, idle);
                }
            }
            for bucket in [1, 3, 27, 46, BUCKETS as u8] {
                let bucket = Bucket::new(bucket).unwrap();
                let in_use = blocks.iter().filter(|block| block.1 == bucket);
                ends.check(bucket, &in_use.map(|block| block.0 as usize).collect());
            }
        }
        for (block, ..) in blocks {
            ends.free(block);
        }
        everything_goes_back(&ends);
    }
}

/// Blocks of 48 bytes, and those of them that are the first of their subsegment; the others were freed, and their pages
/// purged. The first blocks are in use.
fn sparse(ends: &Ends, bucket: Bucket) -> (Vec<*mut u8>, Vec<*mut u8>) {
    let blocks: Vec<_> = (0..3000).map(|_| ends.allocate(bucket)).collect();
    let is_first = |block: &*mut u8| {
        let subsegment = Subsegment::containing(*block as usize, bucket);
        subsegment.number(*block) == 0
    };
    let (first, others): (Vec<_>, Vec<_>) = blocks.into_iter().partition(is_first);
    for block in &others {
        // SAFETY: the block is in use.
        unsafe { block.write_bytes(1, bucket.size()) };
        ends.free(*block);
    }
    for _ in 0..2 {
        ends.front_end.flush_idle(&ends.backend, Idle::All);
    }
    (first, others)
}

#[test]
fn purgeable_pages_return_and_become_blocks_again() {
    let ends = Ends::new();
    let bucket = Bucket::for_size(48).unwrap();
    let (first, others) = sparse(&ends, bucket);
    if plimsoll_os::page_size() != PAGE {
        assert_eq!(count_sparse(&first, bucket), 0, "longer pages stay");
        return;
    }
    assert!(first.len() > 4);
    let of = |first: &*mut u8| Subsegment::containing(*first as usize, bucket);
    let whole = |first: &&*mut u8| of(first).unit().split.load(Ordering::Relaxed) == of(first).capacity();
    assert!(first.iter().filter(whole).count() > 4);
    for first in first.iter().filter(whole) {
        assert_eq!(of(first).absent().pages, 0b1110);
        // Blocks of the first page that have no byte in the second are still there.
        let present = (0..of(first).capacity()).filter(|number| !of(first).absent().has(*number));
        assert_eq!(present.count(), 4096 / bucket.size());
        let mut resident = [0_u8; 4];
        let start = of(first).block(0);
        // SAFETY: the subsegment has four pages, and the kernel writes a byte for each.
        let found = unsafe { libc::mincore(start.cast(), 4 * 4096, resident.as_mut_ptr()) };
        assert_eq!((found, resident.map(|page| page & 1)), (0, [1, 0, 0, 0]));
    }
    let in_use: BTreeSet<_> = first.iter().map(|block| *block as usize).collect();
    ends.check(bucket, &in_use);
    let again: BTreeSet<_> = others.iter().map(|_| ends.allocate(bucket) as usize).collect();
    assert_eq!(again.len(), others.len());
    let subsegments = ends.front_end.buckets[bucket.index()].lock.lock().subsegments;
    // Where the thread moved to another processor meanwhile, the first one's slot has blocks that the others lack.
    let slots = &ends.front_end.slots;
    let with_blocks = (SHARED..slots.count()).filter(|slot| slots.header(*slot, bucket).filled() > 0);
    let more = with_blocks.count().saturating_sub(1);
    assert!(
        (first.len()..=first.len() + more).contains(&(subsegments as usize)),
        "absent blocks come before new subsegments: {subsegments} of {}",
        first.len()
    );
    let all: BTreeSet<_> = again.union(&in_use).copied().collect();
    ends.check(bucket, &all);
    for block in all {
        ends.free(block as *mut u8);
    }
    everything_goes_back(&ends);
}

/// How many of the blocks' subsegments have absent pages.
fn count_sparse(blocks: &[*mut u8], bucket: Bucket) -> usize {
    let absent = |block: &&*mut u8| Subsegment::containing(**block as usize, bucket).absent();
    blocks.iter().filter(|block| absent(block).pages != 0).count()
}

#[test]
fn subsegments_rest_before_their_pages_are_purged() {
    let ends = Ends::new();
    let bucket = Bucket::for_size(1000).unwrap();
    let blocks: Vec<_> = (0..1024).map(|_| ends.allocate(bucket)).collect();
    let (kept, freed): (Vec<_>, Vec<_>) = blocks
        .into_iter()
        .partition(|block| (*block as usize).is_multiple_of(UNIT));
    freed.iter().for_each(|block| ends.free(*block));
    let absent = || count_sparse(&kept, bucket);
    let looks = (0..8)
        .take_while(|_| absent() < kept.len() && ends.front_end.flush_idle(&ends.backend, Idle::Unchanged));
    // Two to see that the slots are idle and empty them, and three to see that the subsegments rest.
    let looks = looks.count();
    if plimsoll_os::page_size() != PAGE {
        assert_eq!(absent(), 0, "longer pages stay");
        return;
    }
    assert!((3..=6).contains(&looks), "{looks} looks");
    assert!(absent() >= kept.len() - 1, "{} of {}", absent(), kept.len());
    kept.iter().for_each(|block| ends.free(*block));
    everything_goes_back(&ends);
}

#[test]
fn a_growing_heap_purges_pages() {
    let ends = Ends::new();
    let bucket = Bucket::for_size(48).unwrap();
    let blocks: Vec<_> = (0..200_000).map(|_| ends.allocate(bucket)).collect();
    let (kept, freed): (Vec<_>, Vec<_>) = blocks
        .into_iter()
        .partition(|block| (*block as usize).is_multiple_of(UNIT));
    freed.iter().for_each(|block| ends.free(*block));
    let absent = || count_sparse(&kept, bucket);
    assert_eq!(absent(), 0);
    let other = Bucket::for_size(2000).unwrap();
    let new: Vec<_> = (0..4000).map(|_| ends.allocate(other)).collect();
    if plimsoll_os::page_size() != PAGE {
        assert_eq!(absent(), 0, "longer pages stay");
        return;
    }
    assert!(absent() >= kept.len() * 9 / 10, "{} of {}", absent(), kept.len());
    new.iter().chain(&kept).for_each(|block| ends.free(*block));
    everything_goes_back(&ends);
}

/// A thread that looks for its slot and then moves to another processor fills the first one's.
#[test]
fn a_slot_left_in_the_middle_is_flushed() {
    let ends = Ends::new();
    let bucket = Bucket::for_size(48).unwrap();
    let front_end = &ends.front_end;
    let left = front_end.slots.count() - 1;
    let mut blocks = [ptr::null_mut(); 8];
    let taken = {
        let mut lists = front_end.buckets[bucket.index()].lock.lock();
        front_end.grow(left, bucket);
        lists.take(front_end, &ends.backend, left, bucket, &mut blocks)
    };
    assert_ne!(front_end.slots.active(left, bucket).load(Ordering::Relaxed), 0);
    for block in &blocks[..taken] {
        open(*block, bucket);
        ends.free(*block);
    }
    everything_goes_back(&ends);
}

/// Frees a block while the arrays of its bucket are being flushed: none has room then, nor grows. Returns the counted
/// flushes, and the blocks in the first shared slot; none if the thread moved to a processor without an array.
fn free_while_flushed() -> Option<(u32, u16)> {
    let ends = Ends::new();
    let bucket = Bucket::for_size(48).unwrap();
    let slots = &ends.front_end.slots;
    let block = ends.allocate(bucket);
    let stopped: Vec<_> = (0..slots.count())
        .filter(|slot| slots.stop(*slot, bucket))
        .collect();
    ends.free(block);
    let stayed = (SHARED..slots.count()).all(|slot| slots.header(slot, bucket).capacity() == 0);
    stopped
        .iter()
        .for_each(|slot| slots.header(*slot, bucket).resume(bucket));
    let flushes = ends.front_end.buckets[bucket.index()].lock.lock().flushes;
    let found = (flushes, slots.header(0, bucket).filled());
    everything_goes_back(&ends);
    stayed.then_some(found)
}

/// Counted twice, a flush took itself for one before which nothing was asked for.
#[test]
fn a_flush_is_counted_once_and_shares_requested_blocks() {
    let found = (0..100).find_map(|_| free_while_flushed());
    assert_eq!(found, Some((1, 1)));
}

/// A heap whose blocks are all free has no subsegment after two idle looks of the flush.
fn everything_goes_back(ends: &Ends) {
    let looks = (0..4).take_while(|_| ends.front_end.flush_idle(&ends.backend, Idle::Unchanged));
    assert!(looks.count() < 4, "the flush never finds the heap idle");
    let extents = ends.backend.extents();
    assert_eq!(extents.free, extents.owned);
    drop(extents);
    for bucket in Bucket::all() {
        assert_eq!(ends.front_end.buckets[bucket.index()].lock.lock().subsegments, 0);
    }
}

/// Threads allocate and free blocks of their own and of each other, while slots are flushed.
#[test]
fn threads_share_blocks_and_none_is_lost() {
    const THREADS: usize = 8;
    let ends = Ends::new();
    let shared: Vec<std::sync::Mutex<Vec<(usize, u64)>>> = (0..THREADS).map(|_| Default::default()).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (ends, shared, stop) = (&ends, &shared, &stop);
                scope.spawn(move || {
                    let mut numbers = Numbers(0x9E37_79B9 + thread as u64);
                    let mut mine: Vec<(usize, u64)> = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        let state = numbers.next();
                        if state.is_multiple_of(64) {
                            // To the next thread, which frees them.
                            lock(&shared[(thread + 1) % THREADS]).append(&mut mine);
                        } else if state & 1 == 0 && mine.len() < 2000 {
                            let bucket = Bucket::for_size((state >> 20) as usize % 1500).unwrap();
                            let block = ends.allocate(bucket);
                            // SAFETY: blocks have at least two words; this one is this thread's.
                            unsafe { block.cast::<u64>().write(state) };
                            mine.push((block as usize, state));
                        } else if let Some((block, stamp)) =
                            mine.pop().or_else(|| lock(&shared[thread]).pop())
                        {
                            let block = block as *mut u8;
                            // SAFETY: the block is in use, and the thread that allocated it wrote its first word.
                            assert_eq!(unsafe { block.cast::<u64>().read() }, stamp);
                            ends.free(block);
                        }
                    }
                    lock(&shared[thread]).append(&mut mine);
                })
            })
            .collect();
        let start = std::time::Instant::now();
        while start.elapsed().as_millis() < 1500 {
            ends.front_end.flush_idle(&ends.backend, Idle::Unchanged);
            std::thread::sleep(core::time::Duration::from_micros(500));
        }
        stop.store(true, Ordering::Relaxed);
        join(workers);
    });
    for (block, stamp) in shared
        .iter()
        .flat_map(|blocks| std::mem::take(&mut *lock(blocks)))
    {
        // SAFETY: as above.
        assert_eq!(unsafe { (block as *const u64).read() }, stamp);
        ends.free(block as *mut u8);
    }
    for bucket in Bucket::all() {
        ends.check(bucket, &BTreeSet::new());
    }
    everything_goes_back(&ends);
}

#[test]
fn an_address_inside_of_a_block_is_not_freed() {
    let ends = Ends::new();
    let bucket = Bucket::for_size(48).unwrap();
    let block = ends.allocate(bucket);
    let mut other = [0_u8; 64];
    // SAFETY: none of them is a block, so nothing happens.
    unsafe {
        for no_block in [block.add(16), block.add(8), other.as_mut_ptr(), ptr::null_mut()] {
            assert_eq!(ends.try_free(no_block), Freed::NotHere);
        }
    }
    ends.free(block);
    everything_goes_back(&ends);
}

/// The same tests once more in a process without sections, as the choice is made once a process.
#[test]
fn the_front_end_is_the_same_without_sections() {
    settings::read();
    if !settings::sections() {
        return;
    }
    let output = this_program()
        .args(["front_end::tests", "--test-threads=1"])
        .env("PLIMSOLL_HEAP_RSEQ", "off")
        .output()
        .unwrap();
    let said = std::string::String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
}
