//! Statistics of heaps against the known contents; and every walk ends, with any bytes in memory.
#![allow(unsafe_code)]

use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use plimsoll_lfh::inspect::{
    Damage, Fault, HeapStatistics, MAGIC, Memory, MemoryError, OtherProcess, Space, SpaceError, Validation,
    validate,
};
use plimsoll_lfh::{Directory, FIRST_UNIT, FrontEnd, Heap, HeapOptions, SEGMENT_UNITS, UNIT};
use proptest::prelude::*;

use crate::child::in_child;
use crate::numbers::Numbers;

fn hardened() -> Heap {
    let options = HeapOptions {
        hardened: true,
        ..HeapOptions::default()
    };
    Heap::new(options).expect("a heap")
}

fn heap(front_end: FrontEnd) -> Heap {
    let heap = Heap::new(HeapOptions::default()).expect("a heap");
    heap.set_front_end(front_end).expect("it may have any");
    heap
}

fn statistics(heap: &Heap) -> HeapStatistics {
    heap.statistics().expect("the heap was used").1
}

/// Runs a test in a process without the heaps of others: a walk looks again and again at data that threads change.
fn alone(name: &str, body: impl FnOnce()) {
    in_child(&format!("inspect::{name}"), &[], body);
}

/// Damages of one heap, while others may be in use.
fn damages(heap: &Heap) -> (Validation, Vec<Damage>) {
    let mut found = [None; 16];
    let mut count = 0;
    let number = heap.number();
    let seen = Heap::validate_all(&mut |damage| {
        if damage.heap == number && count < found.len() {
            found[count] = Some(damage);
            count += 1;
        }
    });
    (
        seen.expect("the heaps can be read").expect("a heap was used"),
        found.into_iter().flatten().collect(),
    )
}

#[track_caller]
fn check(statistics: &HeapStatistics) {
    assert_eq!(statistics.committed + statistics.uncommitted, statistics.reserved);
    assert!(statistics.committed <= statistics.virtual_bytes);
    assert!(statistics.virtual_bytes <= statistics.reserved);
    assert!(statistics.free <= statistics.committed);
    assert_eq!(statistics.moved, 0);
}

#[test]
fn blocks_in_use_are_counted_by_bucket() {
    alone("blocks_in_use_are_counted_by_bucket", || {
        let heap = heap(FrontEnd::LowFragmentation);
        let mut blocks: Vec<*mut u8> = (0..1000).map(|_| heap.allocate(48)).collect();
        let large: Vec<*mut u8> = (0..3).map(|_| heap.allocate(100_000)).collect();
        let before = statistics(&heap);
        check(&before);
        let bucket = &before.buckets[3];
        assert_eq!(bucket.busy(), 1000);
        assert_eq!(
            bucket.busy() + bucket.cached + bucket.listed + bucket.untouched,
            bucket.capacity
        );
        assert_eq!((before.large_blocks, before.large), (3, 3 * 7 * UNIT as u64));
        blocks.sort_unstable();
        for block in blocks.drain(200..).chain(large) {
            // SAFETY: the blocks are this test's.
            unsafe { heap.free(block) };
        }
        let after = statistics(&heap);
        check(&after);
        assert_eq!(after.buckets[3].busy(), 200);
        assert_eq!(after.large_blocks, 0);
        assert!(after.free >= 3 * 7 * UNIT as u64);
        let (record, _) = heap.statistics().expect("the heap was used");
        assert_eq!(record.front.subsegments, after.subsegments);
        assert!(record.front.slots_used >= 1 && record.front.refills > 0);
        assert_eq!(damages(&heap).1, []);
        heap.trim();
        let trimmed = statistics(&heap);
        check(&trimmed);
        let bucket = &trimmed.buckets[3];
        assert!(bucket.absent > 0, "{bucket:?}");
        assert_eq!((bucket.busy(), bucket.cached), (200, 0));
        assert_eq!(
            bucket.busy() + bucket.listed + bucket.absent + bucket.untouched,
            bucket.capacity
        );
        assert_eq!(damages(&heap).1, []);
    });
}

#[test]
fn blocks_of_the_standard_front_end_are_counted_by_size() {
    alone("blocks_of_the_standard_front_end_are_counted_by_size", || {
        let heap = heap(FrontEnd::Standard);
        let blocks: Vec<*mut u8> = (0..100).map(|_| heap.allocate(1000)).collect();
        let before = statistics(&heap);
        check(&before);
        assert_eq!(before.back.busy.iter().sum::<u64>(), 100);
        assert_eq!(before.free_blocks, 1, "the rest of the run");
        for block in blocks.iter().step_by(2) {
            // SAFETY: the blocks are this test's.
            unsafe { heap.free(*block) };
        }
        let after = statistics(&heap);
        check(&after);
        assert_eq!(after.back.busy.iter().sum::<u64>(), 50);
        assert_eq!(after.free_blocks, 51);
        assert_eq!(damages(&heap).1, []);
    });
}

/// The memory that one size freed serves the next, so that a load whose sizes shift needs no more than it did.
#[test]
fn memory_of_one_size_serves_others_as_load_shifts() {
    const LIVE: usize = 8 << 20;
    let name = "inspect::memory_of_one_size_serves_others_as_load_shifts";
    // Memory that returned meanwhile would count as new.
    in_child(name, &[("PLIMSOLL_HEAP_PURGE", "never")], || {
        let heap = heap(FrontEnd::LowFragmentation);
        let mut conversions = 0;
        for (phase, size) in [48, 1000, 16, 9000, 300, 16_000, 100].into_iter().enumerate() {
            let blocks: Vec<*mut u8> = (0..LIVE / size).map(|_| heap.allocate(size)).collect();
            for block in &blocks {
                // SAFETY: the block is this test's, and so long.
                unsafe { block.write_bytes(size as u8, size) };
            }
            let (record, counts) = heap.statistics().expect("the heap was used");
            check(&counts);
            let converted = record.front.conversions - conversions;
            conversions = record.front.conversions;
            // Some memory of each phase is new, or was cached for its size.
            match phase {
                0 => assert_eq!(converted, 0),
                _ => assert!(
                    converted >= counts.subsegments / 2,
                    "{size}: {converted} of {}",
                    counts.subsegments
                ),
            }
            assert!(
                counts.committed < LIVE as u64 * 3 / 2 + (2 << 20),
                "{size}: {} bytes committed",
                counts.committed
            );
            for block in blocks {
                // SAFETY: the block is this test's.
                let bytes = unsafe { std::slice::from_raw_parts(block, size) };
                assert!(bytes.iter().all(|byte| *byte == size as u8));
                // SAFETY: as above.
                unsafe { heap.free(block) };
            }
            assert_eq!(damages(&heap).1, []);
        }
    });
}

/// Ends threads that look at it, also where a test fails.
struct StopWhenDone<'s>(&'s AtomicBool);

impl Drop for StopWhenDone<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn running_threads_are_no_damage() {
    alone("running_threads_are_no_damage", || {
        let seen = churned_and_walked(&heap(FrontEnd::LowFragmentation));
        let walked = seen.free_blocks + seen.cached_blocks;
        assert!(walked > 10_000, "{seen:?}");
    });
}

/// They make and free guard pages, too, where a walk may be about to read.
#[test]
fn running_threads_in_a_hardened_heap_are_no_damage() {
    alone("running_threads_in_a_hardened_heap_are_no_damage", || {
        let seen = churned_and_walked(&hardened());
        assert!(seen.guarded_blocks > 10_000, "{seen:?}");
        assert!(seen.quarantined_blocks > 100, "{seen:?}");
    });
}

/// Walks over a heap again and again while threads use it. Returns the sum of the counts.
fn churned_and_walked(heap: &Heap) -> Validation {
    let mut walked = Validation::default();
    // So that there is something to see before the threads have begun.
    let first = heap.allocate(100);
    let stop = AtomicBool::new(false);
    let steps = [const { AtomicU64::new(0) }; 4];
    let least = || steps.iter().map(|steps| steps.load(Ordering::Relaxed)).min();
    std::thread::scope(|scope| {
        for thread in 0..steps.len() {
            let (stop, steps) = (&stop, &steps[thread]);
            scope.spawn(move || {
                let mut kept = vec![0_usize; 500];
                let mut numbers = Numbers(thread as u64 + 1);
                while !stop.load(Ordering::Relaxed) {
                    let seed = numbers.next() as usize;
                    let new = heap.allocate(seed % if seed.is_multiple_of(50) { 100_000 } else { 2000 });
                    let old = std::mem::replace(&mut kept[(seed >> 32) % 500], new as usize);
                    // SAFETY: the blocks are this thread's, or null.
                    unsafe { heap.free(old as *mut u8) };
                    steps.fetch_add(1, Ordering::Relaxed);
                }
                for block in kept {
                    // SAFETY: as above.
                    unsafe { heap.free(block as *mut u8) };
                }
            });
        }
        let _stop = StopWhenDone(&stop);
        while least() < Some(1000) {
            std::thread::yield_now();
        }
        let mut walks = 0;
        // And more, until the threads went on meanwhile.
        while walks < 200 || least() < Some(2000) {
            walks += 1;
            let (seen, found) = damages(heap);
            walked.free_blocks += seen.free_blocks;
            walked.cached_blocks += seen.cached_blocks;
            walked.guarded_blocks += seen.guarded_blocks;
            walked.quarantined_blocks += seen.quarantined_blocks;
            assert_eq!(found, []);
            assert!(statistics(heap).reserved > 0);
        }
    });
    // SAFETY: the block is this test's.
    unsafe { heap.free(first) };
    check(&statistics(heap));
    walked
}

#[test]
fn blocks_in_quarantine_are_not_in_use() {
    alone("blocks_in_quarantine_are_not_in_use", || {
        let heap = hardened();
        let blocks: Vec<*mut u8> = (0..1000).map(|_| heap.allocate(100)).collect();
        let large = heap.allocate(100_000);
        let counts = |freed: usize| {
            let counts = statistics(&heap);
            check(&counts);
            let bucket = counts.buckets[7];
            assert_eq!(bucket.busy(), 1000 - freed as u64, "{bucket:?}");
            assert_eq!(bucket.free() + bucket.busy(), bucket.capacity);
            let (seen, found) = damages(&heap);
            assert_eq!(found, []);
            assert_eq!(seen.quarantined_blocks, bucket.quarantined);
            // The large one, too.
            assert_eq!(seen.guarded_blocks, bucket.busy() + 1);
            bucket.quarantined
        };
        assert_eq!(counts(0), 0);
        for (at, block) in blocks.iter().enumerate() {
            // SAFETY: the blocks are this test's.
            unsafe { heap.free(*block) };
            if at == 9 {
                assert_eq!(counts(10), 10);
            }
        }
        assert!(counts(1000) >= 33, "the rest of a slot's");
        heap.trim();
        assert!(counts(1000) >= 33, "the rest of a slot's");
        // SAFETY: as above.
        unsafe { heap.free(large) };
    });
}

#[test]
fn mistakes_in_a_hardened_heap_are_found_before_it_notices_them() {
    alone(
        "mistakes_in_a_hardened_heap_are_found_before_it_notices_them",
        || {
            let heap = hardened();
            let (small, large) = (heap.allocate(100), heap.allocate(100_000));
            let freed = heap.allocate(1000);
            // SAFETY: the block is this test's.
            unsafe { heap.free(freed) };
            // SAFETY: no: these are the mistakes. The memory is the heap's, which no other thread uses.
            for (block, byte) in unsafe {
                [
                    (small, small.add(100)),
                    (large, large.add(100_000)),
                    (freed, freed.add(999)),
                ]
            } {
                // SAFETY: as above.
                let byte = unsafe { &mut *byte };
                let was = *byte;
                *byte = was.wrapping_add(1);
                let (_, found) = damages(&heap);
                *byte = was;
                assert_eq!(found.len(), 1, "{found:?}");
                assert_eq!(found[0].address, block as usize);
                let is_it = match block == freed {
                    true => matches!(found[0].fault, Fault::Resting { .. }),
                    false => matches!(found[0].fault, Fault::Canary { .. }),
                };
                assert!(is_it, "{found:?}");
            }
            assert_eq!(damages(&heap).1, []);
        },
    );
}

/// With damage on the way to the heaps, no heap counts as sound.
#[test]
fn a_walk_that_cannot_be_made_is_an_error() {
    alone("a_walk_that_cannot_be_made_is_an_error", || {
        let heap = heap(FrontEnd::Standard);
        heap.allocate(1);
        // SAFETY: it is there, and made of atomics.
        let directory = unsafe { &*(control_block() as *const Directory) };
        let units = directory.units.swap(0x4141, Ordering::Relaxed);
        let walked = Heap::validate_all(&mut |_| ());
        let counted = heap.statistics();
        directory.units.store(units, Ordering::Relaxed);
        assert_eq!(
            walked,
            Err(SpaceError::Damaged {
                field: "units",
                value: 0x4141
            })
        );
        assert_eq!(counted, None);
        assert!(matches!(Heap::validate_all(&mut |_| ()), Ok(Some(_))));
    });
}

#[test]
fn a_write_after_free_is_found_where_the_block_is() {
    alone("a_write_after_free_is_found_where_the_block_is", || {
        let heap = heap(FrontEnd::LowFragmentation);
        let blocks: Vec<*mut u8> = (0..2000).map(|_| heap.allocate(64)).collect();
        for block in &blocks {
            // SAFETY: the blocks are this test's.
            unsafe { heap.free(*block) };
        }
        for block in [blocks[0], blocks[1999]] {
            // SAFETY: no: this is the mistake. The memory is the heap's, which no other thread uses.
            let word = unsafe { &mut *block.cast::<u64>().add(1) };
            let tag = std::mem::replace(word, 0x4141_4141);
            let (_, found) = damages(&heap);
            *word = tag;
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].address, block as usize);
            assert!(
                matches!(
                    found[0].fault,
                    Fault::Mark {
                        found: 0x4141_4141,
                        ..
                    } | Fault::Slot { .. }
                ),
                "{found:?}"
            );
        }
        assert_eq!(damages(&heap).1, []);
    });
}

#[test]
fn an_overrun_of_the_standard_front_end_is_found() {
    alone("an_overrun_of_the_standard_front_end_is_found", || {
        let heap = heap(FrontEnd::Standard);
        let blocks: Vec<*mut u8> = (0..10).map(|_| heap.allocate(40)).collect();
        // SAFETY: no: this is the mistake. The memory is the heap's, which no other thread uses.
        let next = unsafe { &mut *blocks[4].add(40).cast::<u64>() };
        let header = std::mem::replace(next, 0x4141_4141_4141_4141);
        let (_, found) = damages(&heap);
        *next = header;
        assert!(
            matches!(
                found[..],
                [Damage {
                    fault: Fault::Standard { .. },
                    ..
                }]
            ),
            "{found:?}"
        );
        assert_eq!(found[0].address, blocks[5] as usize);
        assert_eq!(damages(&heap).1, []);
    });
}

/// Address of this process's control block, found as another process finds it.
pub(crate) fn control_block() -> usize {
    let memory = OtherProcess::new(std::process::id());
    let maps = std::fs::read_to_string("/proc/self/maps").expect("it can be read");
    let starts = maps
        .lines()
        .filter(|line| line.contains(" rw-p ") && line.split_ascii_whitespace().count() == 5)
        .filter_map(|line| usize::from_str_radix(line.split_once('-')?.0, 16).ok());
    let mut bytes = [0; MAGIC.len()];
    starts
        .into_iter()
        .find(|start| memory.read(*start, &mut bytes).is_ok() && bytes == MAGIC)
        .expect("the process has heaps")
}

#[test]
fn from_outside_the_same_is_read() {
    alone("from_outside_the_same_is_read", || {
        let heap = heap(FrontEnd::LowFragmentation);
        let blocks: Vec<*mut u8> = (0..5000).map(|size| heap.allocate(size)).collect();
        for block in blocks.iter().skip(7).step_by(3) {
            // SAFETY: the blocks are this test's.
            unsafe { heap.free(*block) };
        }
        let memory = OtherProcess::new(std::process::id());
        let space = Space::open(&memory, control_block()).expect("it is this process's");
        let record = space
            .heaps()
            .map(|record| record.expect("it can be read"))
            .find(|record| record.number == heap.number())
            .expect("the heap lives");
        let mut outside = HeapStatistics::default();
        for run in space.runs() {
            let run = run.expect("it can be read");
            if run.description.heap == heap.number() {
                outside.count(&space, &run).expect("it can be read");
            }
        }
        outside.count_slots(&space, &record).expect("it can be read");
        assert_eq!(Some((record, outside)), heap.statistics());
        let number = heap.number();
        let mut of_this = 0;
        validate(&space, &mut |damage| of_this += u32::from(damage.heap == number)).expect("it can be read");
        assert_eq!(of_this, 0);
    });
}

/// Memory that holds a control block, and otherwise bytes that a number makes of the address.
struct Anything {
    start: usize,
    directory: Vec<u8>,
    seed: u64,
    /// Of how many words one is a small number, as in a heap most are.
    small: u64,
}

impl Memory for Anything {
    fn read(&self, address: usize, into: &mut [u8]) -> Result<(), MemoryError> {
        for (offset, byte) in into.iter_mut().enumerate() {
            let at = address.wrapping_add(offset);
            let inside = at.wrapping_sub(self.start);
            *byte = match self.directory.get(inside) {
                Some(byte) => *byte,
                None => {
                    let word = ((at as u64 / 8) ^ self.seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                    let word = word ^ word >> 29;
                    let word = if word.is_multiple_of(self.small) {
                        word
                    } else {
                        word >> 32 & 0x0303_0101_0000_0005
                    };
                    (word >> (8 * (at % 8))) as u8
                }
            };
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A control block of any bytes leads to an error or to walks that end.
    #[test]
    fn any_bytes_of_a_control_block_end_in_an_error(
        seed: u64,
        small in 1..6_u64,
        changes in proptest::collection::vec((16..112_usize, any::<u8>()), 0..4),
        end in 0..3_u32,
    ) {
        Heap::process().allocate(1);
        let window = control_block();
        let mut directory = vec![0; 256];
        OtherProcess::new(std::process::id()).read(window, &mut directory).expect("it is this process's");
        // As few units as walks of a test have time for.
        let at = offset_of!(Directory, end);
        let first = FIRST_UNIT;
        directory[at..at + 4].copy_from_slice(&(first + end * SEGMENT_UNITS).to_ne_bytes());
        for (at, byte) in changes {
            directory[at] = byte;
        }
        let memory = Anything { start: window, directory, seed, small };
        match Space::open(&memory, window) {
            Err(SpaceError::NotAHeap) => prop_assert!(false, "the magic was not changed"),
            Err(_) => {}
            Ok(space) => {
                let mut counts = HeapStatistics::default();
                let mut units = 0;
                for run in space.runs().take(1 << 16) {
                    let run = run.expect("all can be read");
                    units += run.length;
                    counts.count(&space, &run).expect("all can be read");
                }
                prop_assert!(units <= 16 << 20);
                for record in space.heaps().take(4) {
                    let record = record.expect("all can be read");
                    counts.count_slots(&space, &record).expect("all can be read");
                }
            }
        }
        let mut wrong = memory;
        wrong.directory[3] ^= 1;
        prop_assert_eq!(Space::open(&wrong, window).err(), Some(SpaceError::NotAHeap));
        prop_assert_eq!(MAGIC.len(), 16);
    }
}
