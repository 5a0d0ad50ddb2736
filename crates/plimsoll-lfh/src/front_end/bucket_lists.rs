//! The subsegments of a bucket, under its lock: which are listed, which is spare, and where blocks are taken from.

use core::sync::atomic::Ordering;

use super::LowFragmentation;
use crate::arena;
use crate::backend::Backend;
use crate::bucket::Bucket;
use crate::remote_free::SubsegmentState;
use crate::subsegment::{self, Subsegment};
use crate::unit::{UnitIndex, UnitKind};

/// How many of the listed subsegments are looked at to find the fullest.
const LOOKS: usize = 8;

/// The data under a bucket's lock. Zeroed memory is a bucket without subsegments.
///
/// Invariant: a subsegment is in the list from `first` exactly if it is [`SubsegmentState::Listed`], or
/// [`SubsegmentState::Emptying`] from there; `spare` is 0 or one that is [`SubsegmentState::Spare`]; a free block of a
/// bucket is in one place: a slot, a list of its subsegment, or never allocated. Executable form: `check`. Checked by
/// `blocks_are_whole_and_in_one_place` and `threads_share_blocks_and_none_is_lost`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct BucketLists {
    /// The first of the listed subsegments, 0 for none.
    first: UnitIndex,
    /// An empty subsegment, cached for the next need; 0 for none.
    pub(crate) spare: UnitIndex,
    pub(crate) subsegments: u32,
    /// Subsegments that were ever taken from the back end.
    pub(crate) begun: u32,
    /// Times that the spare subsegment was used again.
    pub(crate) reused: u32,
    /// Subsegments that were begun in memory which had served something else.
    pub(crate) conversions: u32,
    /// Times that a slot had no block.
    pub(crate) refills: u32,
    /// Times that a slot was full.
    pub(crate) flushes: u32,
    /// Arrays of slots that were emptied because they were idle.
    pub(crate) idle_flushes: u32,
    /// `refills` at the last look of a flush.
    pub(super) refills_seen: u32,
    /// `refills` at the last flush.
    refills_at_flush: u32,
}

impl BucketLists {
    /// Takes up to `blocks.len()` blocks for a slot, at least one unless no memory is left: from the slot's active
    /// subsegment, and when that has no more, from the next. Returns how many.
    pub(super) fn take(
        &mut self,
        front_end: &LowFragmentation,
        backend: &Backend,
        slot: usize,
        bucket: Bucket,
        blocks: &mut [*mut u8],
    ) -> usize {
        let active = front_end.slots.active(slot, bucket);
        let mut taken = 0;
        loop {
            let first = active.load(Ordering::Relaxed);
            if first != 0 {
                let subsegment = Subsegment::new(first, bucket);
                let absent = subsegment.absent();
                taken += subsegment.take(&mut blocks[taken..]);
                if subsegment.absent() != absent {
                    front_end.upkeep.begun.fetch_add(1, Ordering::Relaxed);
                    front_end.upkeep.grown.fetch_add(1, Ordering::Relaxed);
                }
                if subsegment.unchained() > 0 || taken == blocks.len() {
                    return taken;
                }
                active.store(0, Ordering::Relaxed);
                self.deactivate(backend, subsegment);
            }
            if taken * 2 > blocks.len() {
                return taken;
            }
            let next = match self.fullest() {
                None if taken > 0 => return taken,
                None => self.begin(front_end, backend, bucket),
                listed => listed,
            };
            match next {
                Some(next) => active.store(next, Ordering::Relaxed),
                None => return taken,
            }
        }
    }

    /// Counts a flush. Whether blocks were requested since the one before it, and so may be soon again.
    pub(super) fn note_flush(&mut self) -> bool {
        self.flushes = self.flushes.wrapping_add(1);
        core::mem::replace(&mut self.refills_at_flush, self.refills) != self.refills
    }

    /// A slot gives up its active subsegment.
    pub(super) fn deactivate(&mut self, backend: &Backend, subsegment: Subsegment) {
        let state = subsegment
            .unit()
            .remote
            .deactivate(subsegment.unchained(), subsegment.capacity());
        self.settle(backend, subsegment, state);
    }

    /// Acts on the new state of a subsegment in no list.
    pub(super) fn settle(&mut self, backend: &Backend, subsegment: Subsegment, state: SubsegmentState) {
        match state {
            SubsegmentState::Listed => self.insert(subsegment.first),
            SubsegmentState::Emptying => self.retire(backend, subsegment),
            _ => {}
        }
    }

    /// All blocks of a listed subsegment are free.
    pub(super) fn empty(&mut self, backend: &Backend, subsegment: Subsegment) {
        self.remove(subsegment.first);
        self.retire(backend, subsegment);
    }

    /// Keeps an empty subsegment as the spare one, or frees it.
    fn retire(&mut self, backend: &Backend, subsegment: Subsegment) {
        if self.spare == 0 {
            subsegment.reset(SubsegmentState::Spare);
            self.spare = subsegment.first;
        } else {
            self.release(backend, subsegment);
        }
    }

    fn release(&mut self, backend: &Backend, subsegment: Subsegment) {
        subsegment.end();
        self.subsegments -= 1;
        backend.free(subsegment.first);
    }

    pub(super) fn release_spare(&mut self, backend: &Backend, bucket: Bucket) {
        if self.spare != 0 {
            let spare = Subsegment::new(self.spare, bucket);
            self.spare = 0;
            self.release(backend, spare);
        }
    }

    /// The spare subsegment, or a new one: active.
    fn begin(
        &mut self,
        front_end: &LowFragmentation,
        backend: &Backend,
        bucket: Bucket,
    ) -> Option<UnitIndex> {
        if self.spare != 0 {
            let spare = core::mem::take(&mut self.spare);
            arena::unit(spare).remote.start();
            self.reused = self.reused.wrapping_add(1);
            return Some(spare);
        }
        let units = subsegment::units(bucket);
        let run = backend.take(units, units, UnitKind::Subsegment)?;
        let first = run.first;
        self.conversions = self.conversions.wrapping_add(u32::from(run.touched > 0));
        front_end.upkeep.begun.fetch_add(1, Ordering::Relaxed);
        if run.touched < units {
            front_end
                .upkeep
                .grown
                .fetch_add(units - run.touched, Ordering::Relaxed);
        }
        Subsegment::new(first, bucket).begin(front_end.hidden());
        self.subsegments += 1;
        self.begun = self.begun.wrapping_add(1);
        Some(first)
    }

    /// Takes the fullest of the first listed subsegments and makes it active: so the others become empty.
    fn fullest(&mut self) -> Option<UnitIndex> {
        loop {
            let mut best = None;
            let mut at = self.first;
            for _ in 0..LOOKS {
                if at == 0 {
                    break;
                }
                let unit = arena::unit(at);
                let word = unit.remote.load();
                let free = word.chained + word.unchained;
                if word.state == SubsegmentState::Listed && best.is_none_or(|(least, _)| free < least) {
                    best = Some((free, at));
                }
                at = unit.next.load(Ordering::Relaxed);
            }
            let (_, found) = best?;
            if self.activate(found) {
                return Some(found);
            }
        }
    }

    /// Takes a subsegment that was found without the lock, if it is listed here: it is active then, and the caller's.
    pub(super) fn take_listed(&mut self, subsegment: Subsegment) -> bool {
        let unit = subsegment.unit();
        // It may be another bucket's by now; no more so while the lock is held, if it is this one's.
        unit.bucket.load(Ordering::Relaxed) == subsegment.bucket.number() && self.activate(subsegment.first)
    }

    /// Makes a listed subsegment of the bucket active. Returns false if it is not listed: if its last block became free
    /// just now, the thread that freed it waits for the lock.
    fn activate(&mut self, first: UnitIndex) -> bool {
        let listed = arena::unit(first).remote.activate();
        if listed {
            self.remove(first);
        }
        listed
    }

    fn insert(&mut self, first: UnitIndex) {
        let unit = arena::unit(first);
        unit.previous.store(0, Ordering::Relaxed);
        unit.next.store(self.first, Ordering::Relaxed);
        if self.first != 0 {
            arena::unit(self.first).previous.store(first, Ordering::Relaxed);
        }
        self.first = first;
    }

    fn remove(&mut self, first: UnitIndex) {
        let unit = arena::unit(first);
        let next = unit.next.load(Ordering::Relaxed);
        let previous = unit.previous.load(Ordering::Relaxed);
        match previous {
            0 => self.first = next,
            previous => arena::unit(previous).next.store(next, Ordering::Relaxed),
        }
        if next != 0 {
            arena::unit(next).previous.store(previous, Ordering::Relaxed);
        }
    }

    /// Panics unless the invariant holds, while no thread uses the bucket. Returns the listed subsegments.
    #[cfg(test)]
    pub(super) fn check(&self, bucket: Bucket) -> std::vec::Vec<Subsegment> {
        let mut listed = std::vec::Vec::new();
        let (mut previous, mut at) = (0, self.first);
        while at != 0 {
            let subsegment = Subsegment::new(at, bucket);
            let unit = subsegment.unit();
            assert_eq!(unit.previous.load(Ordering::Relaxed), previous);
            assert_eq!(unit.remote.load().state, SubsegmentState::Listed);
            listed.push(subsegment);
            (previous, at) = (at, unit.next.load(Ordering::Relaxed));
        }
        if self.spare != 0 {
            let unit = arena::unit(self.spare);
            assert_eq!(unit.remote.load().state, SubsegmentState::Spare);
        }
        listed
    }

    #[cfg(test)]
    pub(super) fn spare(&self) -> UnitIndex {
        self.spare
    }
}
