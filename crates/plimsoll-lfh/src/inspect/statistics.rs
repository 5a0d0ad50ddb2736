//! The contents of a heap, counted from the table of units, the slots, and the counters of slow paths.

use super::distribution::Distribution;
use super::memory::{Memory, MemoryError};
use super::records::HeapRecord;
use super::runs::Run;
use super::space::Space;
use super::standard::Blocks;
use crate::affinity::{SHARED, SLOT};
use crate::arena::{RECORD, SEGMENT, Segment};
use crate::bucket::{BUCKETS, Bucket, SMALLEST_BLOCK};
use crate::remote_free::FreeBlocks;
use crate::standard::STEP;
use crate::subsegment::{Absent, PAGE, capacity};
use crate::unit::{UNIT, Unit, UnitIndex, UnitKind};

/// The contents of a heap at one moment. The heap keeps no such counts: a request counts them.
///
/// Invariants, checked by `check`: `committed + uncommitted = reserved`; `committed <= virtual_bytes <= reserved`;
/// `free <= committed`.
#[derive(Debug, Clone, PartialEq)]
pub struct HeapStatistics {
    /// Pieces of address space, each without a gap.
    pub segments: u64,
    /// Bytes of address space.
    pub reserved: u64,
    /// Bytes that may be resident.
    pub committed: u64,
    /// Bytes of the segments, each from its start to the end of its last committed unit.
    pub virtual_bytes: u64,
    /// Bytes of free blocks of the back end (and of the Standard front end) that are committed.
    pub free: u64,
    /// How many free blocks those are.
    pub free_blocks: u64,
    /// Bytes that returned to the kernel, or were never used.
    pub uncommitted: u64,
    /// How many ranges those are.
    pub uncommitted_ranges: u64,
    /// Blocks larger than [`LARGEST_BLOCK`](crate::LARGEST_BLOCK).
    pub large_blocks: u64,
    /// Bytes of them.
    pub large: u64,
    /// Runs of freed large blocks, cached whole for the next ones, on shelves and in slots; they are among the free
    /// blocks.
    pub cached_runs: u64,
    /// Bytes of them.
    pub cached_run_bytes: u64,
    /// Blocks of the back end and of the Standard front end, by size.
    pub back: Distribution,
    /// Subsegments of the low-fragmentation front end.
    pub subsegments: u64,
    /// Bytes of them.
    pub subsegment_bytes: u64,
    /// By bucket number; 0 is not used.
    pub buckets: [BucketStatistics; BUCKETS + 1],
    /// Times that a thread had to wait for the lock of a slot; 0 if restartable sequences serve them.
    pub slot_contention: u64,
    /// Runs that made no sense, as they were changed while they were read; their units are counted nowhere else.
    pub moved: u64,
    /// Where the last run ended, which the next one of the same segment begins at.
    segment_end: UnitIndex,
    /// Bytes at the end of the segment so far that are not committed.
    tail: u64,
}

/// The blocks of one bucket. Invariant: `busy + cached + quarantined + listed + absent + untouched = capacity`, where
/// nothing moved meanwhile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BucketStatistics {
    /// Runs that are divided into its blocks.
    pub subsegments: u64,
    /// Blocks that they have room for.
    pub capacity: u64,
    /// Free blocks in the arrays of slots.
    pub cached: u64,
    /// Freed blocks of a hardened heap that wait before their next use.
    pub quarantined: u64,
    /// Free blocks in the lists of subsegments.
    pub listed: u64,
    /// Free blocks with a byte in a page that returned to the kernel.
    pub absent: u64,
    /// Blocks that were never allocated.
    pub untouched: u64,
}

impl BucketStatistics {
    /// Blocks in use.
    pub fn busy(&self) -> u64 {
        self.capacity
            .saturating_sub(self.cached + self.quarantined + self.listed + self.absent + self.untouched)
    }

    /// Free blocks, those in quarantine too.
    pub fn free(&self) -> u64 {
        self.capacity - self.busy()
    }
}

impl Default for HeapStatistics {
    fn default() -> HeapStatistics {
        HeapStatistics {
            segments: 0,
            reserved: 0,
            committed: 0,
            virtual_bytes: 0,
            free: 0,
            free_blocks: 0,
            uncommitted: 0,
            uncommitted_ranges: 0,
            large_blocks: 0,
            large: 0,
            cached_runs: 0,
            cached_run_bytes: 0,
            back: Distribution::EMPTY,
            subsegments: 0,
            subsegment_bytes: 0,
            buckets: [BucketStatistics::default(); BUCKETS + 1],
            slot_contention: 0,
            moved: 0,
            segment_end: 0,
            tail: 0,
        }
    }
}

impl HeapStatistics {
    /// Counts a run of the heap. Runs come by address. Returns the share of its blocks that is in use, from 0 to 1.
    ///
    /// # Errors
    /// Where the blocks of a Standard run cannot be read.
    pub fn count<M: Memory>(&mut self, space: &Space<'_, M>, run: &Run) -> Result<f64, MemoryError> {
        let bytes = u64::from(run.length) * UNIT as u64;
        let Some(kind) = run.kind else {
            self.moved += 1;
            return Ok(0.0);
        };
        let committed = match kind {
            UnitKind::Nothing => return Ok(0.0),
            UnitKind::Free => u64::from(run.description.touched.min(run.length)) * UNIT as u64,
            UnitKind::Subsegment => {
                bytes.saturating_sub(u64::from(run.description.absent.count_ones()) * PAGE as u64)
            }
            _ => bytes,
        };
        self.extend(run, committed, bytes - committed);
        Ok(match kind {
            UnitKind::Nothing | UnitKind::Busy => 0.0,
            UnitKind::Free | UnitKind::Cached => {
                if kind == UnitKind::Cached {
                    self.cached_runs += 1;
                    self.cached_run_bytes += bytes;
                }
                if committed > 0 {
                    self.free += committed;
                    self.free_blocks += 1;
                    self.back.free[Distribution::range_of(committed)] += 1;
                }
                0.0
            }
            UnitKind::Large => {
                self.large_blocks += 1;
                self.large += bytes;
                // The gap behind a block would move the usual sizes to the next range.
                let size = bytes.saturating_sub(u64::from(run.description.slack)).max(1);
                self.back.busy[Distribution::range_of(size)] += 1;
                1.0
            }
            UnitKind::Subsegment => self.count_subsegment(run),
            UnitKind::Standard => self.count_standard(space, run)?,
        })
    }

    /// Counts address space: the committed part of a run is at its start.
    fn extend(&mut self, run: &Run, committed: u64, uncommitted: u64) {
        if run.first != self.segment_end || self.segments == 0 {
            self.segments += 1;
            self.tail = 0;
        }
        self.segment_end = run.first + run.length;
        self.reserved += committed + uncommitted;
        self.committed += committed;
        if committed > 0 {
            self.virtual_bytes += self.tail + committed;
            self.tail = 0;
        }
        if uncommitted > 0 {
            self.uncommitted += uncommitted;
            self.uncommitted_ranges += 1;
            self.tail += uncommitted;
        }
    }

    /// Counts the blocks of a run of the Standard front end. Returns the share of its bytes that is in use.
    fn count_standard<M: Memory>(&mut self, space: &Space<'_, M>, run: &Run) -> Result<f64, MemoryError> {
        let mut used = 0;
        for found in Blocks::new(space.memory, space.key, space.address_of(run.first)) {
            let Some(block) = found?.block else {
                self.moved += 1;
                break;
            };
            let bytes = u64::from(block.size) * STEP as u64;
            let range = Distribution::range_of(bytes);
            if block.size == 0 {
                break;
            } else if block.in_use {
                used += bytes;
                self.back.busy[range] += 1;
            } else {
                self.free += bytes;
                self.free_blocks += 1;
                self.back.free[range] += 1;
            }
        }
        Ok(used as f64 / (u64::from(run.length) * UNIT as u64) as f64)
    }

    /// Counts the blocks of a subsegment. Returns the share of them that is in use or in slots.
    fn count_subsegment(&mut self, run: &Run) -> f64 {
        let description = &run.description;
        let Some(bucket) = Bucket::new(description.bucket) else {
            self.moved += 1;
            return 0.0;
        };
        let capacity = u64::from(capacity(bucket));
        let counts = &mut self.buckets[bucket.index()];
        let untouched = capacity.saturating_sub(description.split.into());
        let free = FreeBlocks::of_word(description.remote);
        // While it is being changed, one of the counts may be ahead of the other.
        let absent = Absent {
            pages: description.absent,
            bucket,
        };
        let absent = u64::from(absent.count()).min(capacity - untouched);
        let most = capacity - untouched - absent;
        let listed = (u64::from(free.chained) + u64::from(description.local_free)).min(most);
        counts.subsegments += 1;
        counts.capacity += capacity;
        counts.untouched += untouched;
        counts.absent += absent;
        counts.listed += listed;
        self.subsegments += 1;
        self.subsegment_bytes += u64::from(run.length) * UNIT as u64;
        (most - listed) as f64 / capacity.max(1) as f64
    }

    /// Counts the free blocks in the slots of the heap, and the waits for their locks.
    ///
    /// # Errors
    /// [`MemoryError`] if the slots cannot be read.
    pub fn count_slots<M: Memory>(
        &mut self,
        space: &Space<'_, M>,
        record: &HeapRecord,
    ) -> Result<(), MemoryError> {
        let Some(slots) = record.slots() else {
            return Ok(());
        };
        for slot in record.slot_numbers() {
            self.slot_contention += slots.contended(space.memory, slot)?;
            for bucket in Bucket::all() {
                let filled = slots.array(space.memory, slot, bucket)?.filled() as u64;
                let counts = &mut self.buckets[bucket.index()];
                // Blocks moved while this was counted may be in two counts.
                counts.cached = (counts.cached + filled)
                    .min(counts.capacity - counts.untouched - counts.absent - counts.listed);
            }
        }
        self.count_quarantine(space, record, &slots)
    }

    /// Free bytes of committed ones, from 0 to 1; none if nothing is committed.
    pub fn external_fragmentation(&self) -> Option<f64> {
        share(self.free, self.committed)
    }

    /// Bytes that are not committed of those between committed ones, from 0 to 1; none if nothing is committed.
    pub fn virtual_fragmentation(&self) -> Option<f64> {
        share(self.virtual_bytes - self.committed, self.virtual_bytes)
    }

    /// Bytes that describe the heap and its blocks: the record; of each unit its description, and the byte that names
    /// its bucket; of each segment its entry; the slots in use, with those that processors share; and of a hardened heap
    /// a byte for each [`SMALLEST_BLOCK`] bytes. As addresses: not each page is resident.
    pub fn metadata(&self, record: &HeapRecord) -> u64 {
        let of_unit = size_of::<Unit>() + size_of::<u8>();
        let of_blocks = if record.hardened { UNIT / SMALLEST_BLOCK } else { 0 };
        let units = self.reserved / UNIT as u64 * (of_unit + of_blocks) as u64;
        let segments = self.reserved.div_ceil(SEGMENT as u64) * size_of::<Segment>() as u64;
        let slots = match record.front.slots_used {
            0 => 0,
            used => (u64::from(used) + SHARED as u64) * SLOT as u64,
        };
        RECORD as u64 + units + segments + slots
    }

    /// Blocks of the front end in use and free, by size.
    pub fn front(&self) -> Distribution {
        let mut front = Distribution::EMPTY;
        for bucket in Bucket::all() {
            let range = Distribution::range_of(bucket.size() as u64);
            front.busy[range] += self.buckets[bucket.index()].busy();
            front.free[range] += self.buckets[bucket.index()].free();
        }
        front
    }
}

impl HeapRecord {
    /// Times that a thread had to wait for any lock of the heap: those of the record, and those of slots, from
    /// `counts`.
    pub fn lock_contention(&self, counts: &HeapStatistics) -> u64 {
        self.back_contention + self.shelf_contention + self.front.contention + counts.slot_contention
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::arena::{self, FIRST_UNIT};
    use crate::inspect::memory::ThisProcess;
    use crate::inspect::runs::Description;
    use crate::{FrontEnd, Heap};

    const U: u64 = UNIT as u64;

    fn statistics(heap: &Heap) -> (HeapRecord, HeapStatistics) {
        heap.statistics().expect("the heap was made")
    }

    fn free(heap: &Heap, blocks: Vec<*mut u8>) {
        for block in blocks {
            // SAFETY: the caller's blocks, which it does not use again.
            #[allow(unsafe_code)]
            unsafe {
                heap.free(block);
            }
        }
    }

    /// A run so many units behind the first unit of all.
    fn run(offset: u32, length: u32, kind: UnitKind, description: Description) -> Run {
        Run {
            first: FIRST_UNIT + offset,
            length,
            kind: Some(kind),
            description,
        }
    }

    #[test]
    fn address_space_is_counted_by_run() {
        let _made = Heap::of(FrontEnd::Standard);
        let space = Space::open(&ThisProcess, arena::window()).expect("a heap was made");
        let plain = Description::default();
        let of_touched = |touched| Description { touched, ..plain };
        let absent = Description {
            bucket: 1,
            absent: 0b1011,
            ..plain
        };
        let mut counts = HeapStatistics::default();
        for run in [
            run(0, 10, UnitKind::Large, plain),
            run(10, 20, UnitKind::Free, of_touched(5)),
            run(30, 8, UnitKind::Subsegment, absent),
            run(38, 2, UnitKind::Cached, plain),
            run(40, 24, UnitKind::Free, plain),
            // Another piece of address space, of which nothing was touched.
            run(192, 128, UnitKind::Free, plain),
        ] {
            counts.count(&space, &run).expect("nothing of it is read");
        }
        let committed = 25 * U - 3 * PAGE as u64;
        assert_eq!(counts.segments, 2);
        assert_eq!((counts.reserved, counts.committed), (192 * U, committed));
        assert_eq!(
            (counts.uncommitted, counts.uncommitted_ranges),
            (192 * U - committed, 4)
        );
        assert_eq!(counts.virtual_bytes, 40 * U);
        assert_eq!((counts.free, counts.free_blocks), (7 * U, 2));
        assert_eq!((counts.large_blocks, counts.large), (1, 10 * U));
        assert_eq!((counts.cached_runs, counts.cached_run_bytes), (1, 2 * U));
        assert_eq!((counts.subsegments, counts.subsegment_bytes), (1, 8 * U));
        let near = |share: Option<f64>, to: f64| share.is_some_and(|share| (share - to).abs() < 1e-12);
        let committed = 25.0 - 3.0 / 4.0;
        assert!(near(counts.external_fragmentation(), 7.0 / committed));
        assert!(near(counts.virtual_fragmentation(), (40.0 - committed) / 40.0));
        let nothing = HeapStatistics::default();
        assert_eq!(nothing.external_fragmentation(), None);
        assert_eq!(nothing.virtual_fragmentation(), None);
    }

    #[test]
    fn metadata_counts_every_table() {
        let (record, _) = statistics(&Heap::of(FrontEnd::Standard));
        let counts = HeapStatistics {
            reserved: 3 * SEGMENT as u64,
            ..HeapStatistics::default()
        };
        let units = 3 * 128;
        let least = 65536 + units * (size_of::<Unit>() as u64 + 1) + 3 * 4;
        assert_eq!(counts.metadata(&record), least);
        let mut hardened = record;
        hardened.hardened = true;
        assert_eq!(counts.metadata(&hardened), least + counts.reserved / 16);
        let mut used = record;
        used.front.slots_used = 3;
        assert_eq!(counts.metadata(&used), least + 5 * 65536);
    }

    #[test]
    fn cached_runs_are_counted_on_shelves_and_in_slots() {
        for front_end in [FrontEnd::Standard, FrontEnd::LowFragmentation] {
            let heap = Heap::of(front_end);
            let blocks = (0..3).map(|_| heap.allocate(40 << 10)).collect();
            let (_, before) = statistics(&heap);
            assert_eq!((before.cached_runs, before.cached_run_bytes), (0, 0));
            free(&heap, blocks);
            let (_, after) = statistics(&heap);
            assert_eq!((after.cached_runs, after.cached_run_bytes), (3, 9 * U));
            heap.trim();
            assert_eq!(statistics(&heap).1.cached_runs, 0);
        }
    }

    #[test]
    fn the_lives_of_subsegments_are_counted() {
        let heap = Heap::of(FrontEnd::LowFragmentation);
        let fill = |size| (0..40_000).map(|_| heap.allocate(size)).collect();
        let blocks = fill(64);
        let (full, counts) = statistics(&heap);
        assert_eq!(full.front.created, counts.subsegments);
        assert_eq!(
            (full.front.reused, full.front.conversions, full.front.idle_flushes),
            (0, 0, 0)
        );
        assert!(full.front.slots_used > 0 && full.front.slots_used <= full.front.slots);
        free(&heap, blocks);
        let (empty, counts) = statistics(&heap);
        assert_eq!(empty.front.subsegments, counts.subsegments);
        assert!(empty.front.subsegments < empty.front.created / 2, "{empty:?}");
        assert_eq!((empty.front.created, empty.front.spare), (full.front.created, 1));
        assert!(empty.front.flushes > full.front.flushes);
        free(&heap, fill(64));
        let (again, _) = statistics(&heap);
        assert!(again.front.reused > 0 && again.front.conversions > 0, "{again:?}");
        heap.trim();
        let (trimmed, counts) = statistics(&heap);
        assert!(trimmed.front.idle_flushes > 0, "{trimmed:?}");
        assert_eq!((trimmed.front.subsegments, trimmed.front.spare), (0, 0));
        assert_eq!((counts.subsegments, counts.committed), (0, 0));
    }
}
