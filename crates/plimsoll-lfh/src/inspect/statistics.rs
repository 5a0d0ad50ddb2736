//! What a heap holds, counted from the table of units, the slots, and what slow paths counted.

use super::distribution::Distribution;
use super::memory::{Memory, MemoryError};
use super::records::HeapRecord;
use super::runs::Run;
use super::space::Space;
use super::standard::Blocks;
use crate::bucket::{BUCKETS, Bucket};
use crate::remote_free::Home;
use crate::standard::STEP;
use crate::subsegment::{Absent, PAGE, capacity};
use crate::unit::{UNIT, UnitIndex, UnitKind};

/// What a heap holds at one moment. Nothing of it is kept while the heap works: it is counted when it is asked for.
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
    /// Bytes that were given back to the system, or never used.
    pub uncommitted: u64,
    /// How many ranges those are.
    pub uncommitted_ranges: u64,
    /// Blocks larger than [`LARGEST_BLOCK`](crate::LARGEST_BLOCK).
    pub large_blocks: u64,
    /// Bytes of them.
    pub large: u64,
    /// Blocks of the back end and of the Standard front end, by size.
    pub back: Distribution,
    /// Subsegments of the low-fragmentation front end.
    pub subsegments: u64,
    /// Bytes of them.
    pub subsegment_bytes: u64,
    /// By bucket number; 0 is not used.
    pub buckets: [BucketStatistics; BUCKETS + 1],
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
    /// Subsegments.
    pub subsegments: u64,
    /// Blocks that they have room for.
    pub capacity: u64,
    /// Free blocks in the arrays of slots.
    pub cached: u64,
    /// Blocks of a hardened heap that were freed and are kept from being used again.
    pub quarantined: u64,
    /// Free blocks in the lists of subsegments.
    pub listed: u64,
    /// Free blocks that have a byte in a page that was given back to the system.
    pub absent: u64,
    /// Blocks that were never handed out.
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
            back: Distribution::EMPTY,
            subsegments: 0,
            subsegment_bytes: 0,
            buckets: [BucketStatistics::default(); BUCKETS + 1],
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
                self.back.busy[Distribution::range_of(bytes)] += 1;
                1.0
            }
            UnitKind::Subsegment => self.count_subsegment(run),
            UnitKind::Standard => self.count_standard(space, run)?,
        })
    }

    /// Counts address space: what of a run is committed lies at its start.
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

    /// Counts the blocks of a subsegment. Returns the share of them that is not at home, as those in slots are not.
    fn count_subsegment(&mut self, run: &Run) -> f64 {
        let description = &run.description;
        let Some(bucket) = Bucket::new(description.bucket) else {
            self.moved += 1;
            return 0.0;
        };
        let capacity = u64::from(capacity(bucket));
        let counts = &mut self.buckets[bucket.index()];
        let untouched = capacity.saturating_sub(description.carved.into());
        let home = Home::of_word(description.remote);
        // While it is being changed, one of the counts may be ahead of the other.
        let absent = Absent {
            pages: description.absent,
            bucket,
        };
        let absent = u64::from(absent.count()).min(capacity - untouched);
        let most = capacity - untouched - absent;
        let listed = (u64::from(home.chained) + u64::from(description.local_free)).min(most);
        counts.subsegments += 1;
        counts.capacity += capacity;
        counts.untouched += untouched;
        counts.absent += absent;
        counts.listed += listed;
        self.subsegments += 1;
        self.subsegment_bytes += u64::from(run.length) * UNIT as u64;
        (most - listed) as f64 / capacity.max(1) as f64
    }

    /// Counts the blocks in the slots of the heap, which are neither at home nor in use.
    ///
    /// # Errors
    /// Where the slots cannot be read.
    pub fn count_slots<M: Memory>(
        &mut self,
        space: &Space<'_, M>,
        record: &HeapRecord,
    ) -> Result<(), MemoryError> {
        let Some(slots) = record.slots() else {
            return Ok(());
        };
        for slot in record.slot_numbers() {
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

    /// Free bytes of committed ones, from 0 to 1; none where nothing is committed.
    pub fn external_fragmentation(&self) -> Option<f64> {
        share(self.free, self.committed)
    }

    /// Bytes that are not committed of those between committed ones, from 0 to 1; none where nothing is committed.
    pub fn virtual_fragmentation(&self) -> Option<f64> {
        share(self.virtual_bytes - self.committed, self.virtual_bytes)
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

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
