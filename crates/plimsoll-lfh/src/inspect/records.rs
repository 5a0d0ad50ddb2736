//! The records of heaps, read from anywhere.

use core::mem::offset_of;

use super::memory::{Memory, MemoryError};
use super::slots::{MOST_SLOTS, Slots};
use super::space::Space;
use crate::affinity::{SHARED, SlotSet};
use crate::arena::RECORD;
use crate::backend::{Backend, Extents};
use crate::bucket::Bucket;
use crate::front_end::{BucketLists, BucketLock, LowFragmentation};
use crate::lock::Lock;
use crate::options::FrontEnd;
use crate::record::Record;
use crate::run_cache::{Rows, RunCache, SHELVES, Shelf};
use crate::standard::Standard;

/// A heap, from its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapRecord {
    /// Its number; 1 is that of the process.
    pub number: u32,
    /// Address of its record.
    pub address: usize,
    /// The one that serves its blocks of up to 16 KiB.
    pub front_end: FrontEnd,
    /// Made for one thread alone.
    pub no_serialize: bool,
    /// Checks itself at every call.
    pub debug: bool,
    /// Checks each address that it gets.
    pub hardened: bool,
    /// Times that a thread had to wait for the back end's lock or that of the Standard front end.
    pub back_contention: u64,
    /// Times that a thread had to wait for a shelf of cached runs.
    pub shelf_contention: u64,
    /// The low-fragmentation front end; all 0 before it was started.
    pub front: FrontCounts,
    slots: Option<Slots>,
}

/// Counts of the slow paths of a low-fragmentation front end, over all buckets. Counts wrap at 2^32 a bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrontCounts {
    /// Slots of processors that there may be.
    pub slots: u32,
    /// Those that were ever used.
    pub slots_used: u32,
    /// Whether restartable sequences serve them, rather than locks.
    pub restartable: bool,
    /// Times that a thread had to wait for a bucket's lock, or for the flush lock.
    pub contention: u64,
    /// Subsegments now.
    pub subsegments: u64,
    /// Subsegments ever taken from the back end.
    pub created: u64,
    /// Empty subsegments used again for their bucket.
    pub reused: u64,
    /// Subsegments of memory that had served something else.
    pub conversions: u64,
    /// Empty subsegments cached for their bucket.
    pub spare: u64,
    /// Batches moved from subsegments to a slot that had none.
    pub refills: u64,
    /// Batches moved from a full slot to subsegments.
    pub flushes: u64,
    /// Arrays emptied because they were idle.
    pub idle_flushes: u64,
}

/// Flag of a heap that can grow, as all can.
const GROWABLE: u32 = 2;
const NO_SERIALIZE: u32 = 1;
const DEBUG: u32 = 0x1000_0000;
const HARDENED: u32 = 0x0001_0000;

impl HeapRecord {
    /// Its options as bits.
    pub fn flags(&self) -> u32 {
        self.named_flags()
            .filter(|(_, _, set)| *set)
            .fold(0, |flags, (bit, ..)| flags | bit)
    }

    /// The names of those that are set.
    pub fn flag_names(&self) -> impl Iterator<Item = &'static str> {
        self.named_flags()
            .filter_map(|(_, name, set)| set.then_some(name))
    }

    fn named_flags(&self) -> impl Iterator<Item = (u32, &'static str, bool)> {
        [
            (NO_SERIALIZE, "no serialize", self.no_serialize),
            (GROWABLE, "growable", true),
            (HARDENED, "hardened", self.hardened),
            (DEBUG, "debug", self.debug),
        ]
        .into_iter()
    }

    /// Numbers of the slots that may hold blocks: those that processors share come first.
    pub(super) fn slot_numbers(&self) -> core::ops::Range<u32> {
        let used = self.front.slots_used + SHARED as u32;
        0..self.slots.map_or(0, |slots| slots.count.min(used))
    }

    /// Its slots, where there are any.
    pub(super) fn slots(&self) -> Option<Slots> {
        self.slots
    }
}

impl<'m, M: Memory> Space<'m, M> {
    /// The heaps that live, by number.
    pub fn heaps(&self) -> Heaps<'_, 'm, M> {
        Heaps { space: self, next: 1 }
    }

    pub(super) fn record(&self, number: u32) -> Result<Option<HeapRecord>, MemoryError> {
        let address = self.records + (number as usize - 1) * RECORD;
        let mut bytes = [0; size_of::<Record>()];
        self.memory.read(address, &mut bytes)?;
        let bytes = Bytes(&bytes);
        if bytes.u32(offset_of!(Record, number)) != number {
            return Ok(None);
        }
        let flag = |at: usize| bytes.0[at] != 0;
        let back = offset_of!(Record, backend) + offset_of!(Backend, extents);
        let back = back + offset_of!(Lock<Extents>, contended);
        let standard = offset_of!(Record, standard) + offset_of!(Lock<Standard>, contended);
        let front = offset_of!(Record, low_fragmentation);
        let shelf = |shelf: usize| {
            let shelves = offset_of!(Record, run_cache) + offset_of!(RunCache, shelves);
            let lock = shelves + shelf * size_of::<Shelf>() + offset_of!(Shelf, rows);
            u64::from(bytes.u32(lock + offset_of!(Lock<Rows>, contended)))
        };
        let flushing =
            front + offset_of!(LowFragmentation, upkeep.flushing) + offset_of!(Lock<()>, contended);
        let (slots, restartable) = bytes.slots(front + offset_of!(LowFragmentation, slots));
        let mut counts = FrontCounts {
            slots: slots.map_or(0, |slots| slots.count.saturating_sub(SHARED as u32)),
            slots_used: bytes
                .u32(front + offset_of!(LowFragmentation, slots_used))
                .saturating_sub(SHARED as u32),
            restartable,
            contention: bytes.u32(flushing).into(),
            ..FrontCounts::default()
        };
        for bucket in Bucket::all() {
            let buckets = front + offset_of!(LowFragmentation, buckets);
            bytes.count_bucket(buckets + bucket.index() * size_of::<BucketLock>(), &mut counts);
        }
        Ok(Some(HeapRecord {
            number,
            address,
            front_end: match bytes.0[offset_of!(Record, front_end)] {
                0 => FrontEnd::Standard,
                _ => FrontEnd::LowFragmentation,
            },
            no_serialize: flag(offset_of!(Record, no_serialize)),
            debug: flag(offset_of!(Record, debug)),
            hardened: flag(offset_of!(Record, hardened)),
            back_contention: u64::from(bytes.u32(back)) + u64::from(bytes.u32(standard)),
            shelf_contention: (0..SHELVES).map(shelf).sum(),
            front: counts,
            slots,
        }))
    }
}

impl<M: Memory> Space<'_, M> {
    /// Whether there is a heap of that number now.
    pub(super) fn lives(&self, number: u32) -> Result<bool, MemoryError> {
        if !(1..=self.highest_heap()).contains(&number) {
            return Ok(false);
        }
        let record = self.records + (number as usize - 1) * RECORD;
        let mut bytes = [0; 4];
        self.memory
            .read(record + offset_of!(Record, number), &mut bytes)?;
        Ok(u32::from_ne_bytes(bytes) == number)
    }
}

struct Bytes<'b>(&'b [u8; size_of::<Record>()]);

impl Bytes<'_> {
    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(*self.0[at..].first_chunk().expect("a field is inside"))
    }

    fn usize(&self, at: usize) -> usize {
        usize::from_ne_bytes(*self.0[at..].first_chunk().expect("a field is inside"))
    }

    /// Where the slots are, if there are any and as many as there can be, and whether sections serve them.
    fn slots(&self, at: usize) -> (Option<Slots>, bool) {
        let address = self.usize(at + offset_of!(SlotSet, slots));
        // The low half; processors with the other order of bytes have no such heap.
        let count = self.u32(at + offset_of!(SlotSet, counts));
        let restartable = self.usize(at + offset_of!(SlotSet, sections)) != 0;
        let sound = address != 0 && address.is_multiple_of(8) && (1..=MOST_SLOTS).contains(&count);
        (sound.then_some(Slots { address, count }), restartable)
    }

    /// Adds the counts of a bucket's slow paths.
    fn count_bucket(&self, at: usize, counts: &mut FrontCounts) {
        let lock = at + offset_of!(BucketLock, lock);
        let lists = lock + offset_of!(Lock<BucketLists>, value);
        let count = |field: usize| u64::from(self.u32(lists + field));
        counts.contention += u64::from(self.u32(lock + offset_of!(Lock<BucketLists>, contended)));
        counts.subsegments += count(offset_of!(BucketLists, subsegments));
        counts.created += count(offset_of!(BucketLists, begun));
        counts.reused += count(offset_of!(BucketLists, reused));
        counts.conversions += count(offset_of!(BucketLists, conversions));
        counts.refills += count(offset_of!(BucketLists, refills));
        counts.flushes += count(offset_of!(BucketLists, flushes));
        counts.idle_flushes += count(offset_of!(BucketLists, idle_flushes));
        counts.spare += u64::from(count(offset_of!(BucketLists, spare)) != 0);
    }
}

/// The heaps of a space that live, by number: at most [`HEAPS`](crate::HEAPS).
#[derive(Debug)]
pub struct Heaps<'s, 'm, M> {
    space: &'s Space<'m, M>,
    next: u32,
}

impl<M: Memory> Iterator for Heaps<'_, '_, M> {
    type Item = Result<HeapRecord, MemoryError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.next <= self.space.highest_heap() {
            let number = self.next;
            self.next += 1;
            match self.space.record(number) {
                Ok(None) => {}
                Ok(Some(record)) => return Some(Ok(record)),
                Err(error) => {
                    self.next = u32::MAX;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::Ordering;

    use crate::record;
    use crate::{FrontEnd, Heap};

    #[test]
    fn waits_for_each_lock_of_a_heap_are_counted() {
        let heap = Heap::of(FrontEnd::LowFragmentation);
        heap.allocate(100);
        let (own, counts) = heap.statistics().expect("the heap was made");
        assert_eq!(own.lock_contention(&counts), 0);
        let own = record::of(heap.number()).expect("the heap was made");
        let (front, runs) = (&own.low_fragmentation, &own.run_cache);
        for (waits, contended) in [
            (1, &own.backend.extents.contended),
            (10, &own.standard.contended),
            (100, &front.upkeep.flushing.contended),
            (1000, &front.buckets[1].lock.contended),
            (10_000, &front.buckets[64].lock.contended),
            (100_000, &runs.shelves[0].rows.contended),
            (1_000_000, &runs.shelves[15].rows.contended),
            (10_000_000, &front.slots.lock(2).contended),
        ] {
            contended.store(waits, Ordering::Relaxed);
        }
        let (own, counts) = heap.statistics().expect("the heap was made");
        assert_eq!(own.lock_contention(&counts), 11_111_111);
        assert_eq!((own.back_contention, own.shelf_contention), (11, 1_100_000));
        assert_eq!(
            (own.front.contention, counts.slot_contention),
            (11_100, 10_000_000)
        );
    }
}
