//! The header of a bucket's array of pointers in a slot.
use core::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use super::layout::{FEWEST_POINTERS, QUARANTINE, QUARANTINED, begin, most_pointers};
use crate::bucket::Bucket;

/// `begin` of a stopped header is behind any `current`, so that nothing can be taken.
const STOPPED: u32 = 0xFFFF;

/// The bounds of a bucket's array, and its fill level, in steps from the start of the slot.
///
/// States, by `limits`: *unused* (all zero), *in use* (`begin <= end`), *stopped* (`begin` is 0xFFFF, `end` is 0).
/// [`Header::prepare`]: unused -> in use. [`Header::stop`]: in use -> stopped. [`Header::resume`]: stopped -> in use.
/// In the unused and in the stopped state sections neither take nor put.
///
/// Invariant: in use, `begin <= current`, and the pointers from `begin` up to `current` are free blocks of the bucket,
/// each of them there only; a pointer is taken once, also while the slot is flushed. Executable form: `check`. Checked
/// by `slots_hold_what_a_model_holds` and `tokens_are_neither_doubled_nor_lost`.
#[derive(Debug)]
#[repr(C, align(8))]
pub(crate) struct Header {
    /// `begin` in the low half, `end` in the high: `bucket`'s lock.
    limits: AtomicU32,
    /// Position of the next pointer. Written by sections, and by the thread that stopped the header.
    current: AtomicU16,
    /// `current` at the last look of a flush. Flush lock.
    seen: AtomicU16,
}

const _: () = assert!(size_of::<Header>() == 8);

const fn limits(begin: u16, end: u16) -> u32 {
    begin as u32 | (end as u32) << 16
}

impl Header {
    /// Pointers that fit into the array now: 0 if it is unused or stopped.
    pub(crate) fn capacity(&self) -> u16 {
        let limits = self.limits.load(Ordering::Relaxed);
        ((limits >> 16) as u16).saturating_sub(limits as u16)
    }

    /// Pointers in the array, at some moment; 0 if it is unused or stopped.
    pub(crate) fn filled(&self) -> u16 {
        let limits = self.limits.load(Ordering::Relaxed);
        self.current().saturating_sub(limits as u16)
    }

    pub(crate) fn current(&self) -> u16 {
        self.current.load(Ordering::Relaxed)
    }

    /// The prepared value of the unused header of the quarantine, as one number.
    pub(super) const fn prepared_for_quarantine() -> u64 {
        limits(QUARANTINE, QUARANTINE + QUARANTINED as u16) as u64 | (QUARANTINE as u64) << 32
    }

    /// Whether the array holds as many pointers as at the last look, in a slot that others may use meanwhile. The
    /// caller holds the flush lock. An unchanged header is not written: the slot's processor keeps the line, and a page
    /// of unused slots stays absent.
    pub(crate) fn rests(&self) -> bool {
        let current = self.current();
        let rests = self.seen.load(Ordering::Relaxed) == current;
        if !rests {
            self.seen.store(current, Ordering::Relaxed);
        }
        rests
    }

    /// The prepared value of an unused header, as one number.
    pub(super) fn prepared(bucket: Bucket) -> u64 {
        Header::prepared_to_hold(begin(bucket), FEWEST_POINTERS as u16)
    }

    /// The same for an array of `room` pointers from `begin` on.
    pub(super) fn prepared_to_hold(begin: u16, room: u16) -> u64 {
        u64::from(limits(begin, begin + room)) | u64::from(begin) << 32
    }

    /// Makes an unused header that value; the caller alone uses the slot.
    pub(super) fn prepare(&self, prepared: u64) -> bool {
        let unused = self.limits.load(Ordering::Relaxed) == 0;
        if unused {
            self.current.store((prepared >> 32) as u16, Ordering::Relaxed);
            self.limits.store(prepared as u32, Ordering::Release);
        }
        unused
    }

    /// Doubles the capacity of an array in use, up to its maximum; returns false at the maximum. The caller holds the
    /// bucket's lock.
    pub(crate) fn grow(&self, bucket: Bucket) -> bool {
        let capacity = self.capacity();
        let most = most_pointers(bucket);
        let grows = (1..most).contains(&capacity);
        if grows {
            let begin = begin(bucket);
            let end = begin + (capacity * 2).min(most);
            self.limits.store(limits(begin, end), Ordering::Relaxed);
        }
        grows
    }

    /// Keeps sections from beginning to take or put; those under way may still commit until they were restarted. No
    /// where the header is not in use. The bucket's lock is held.
    pub(crate) fn stop(&self) -> bool {
        let in_use = self.capacity() > 0;
        if in_use {
            self.limits.store(STOPPED, Ordering::SeqCst);
        }
        in_use
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.limits.load(Ordering::Relaxed) == STOPPED
    }

    /// Forgets all pointers of a stopped header. The bucket's lock is held, and all sections were restarted since it
    /// was stopped.
    pub(crate) fn set_empty(&self, bucket: Bucket) {
        let begin = begin(bucket);
        self.current.store(begin, Ordering::SeqCst);
        self.seen.store(begin, Ordering::Relaxed);
    }

    /// Makes a stopped header whose pointers were taken one that was never used: stopped -> unused.
    pub(super) fn set_unused(&self) {
        self.seen.store(0, Ordering::Relaxed);
        self.current.store(0, Ordering::SeqCst);
        self.limits.store(0, Ordering::Release);
    }

    /// Makes a stopped header usable again, with the smallest array that holds its pointers. The bucket's lock is held.
    pub(crate) fn resume(&self, bucket: Bucket) {
        let begin = begin(bucket);
        let filled = self.current().saturating_sub(begin);
        self.resume_to_hold(begin, filled.clamp(FEWEST_POINTERS as u16, most_pointers(bucket)));
    }

    /// The same for an array of `room` pointers from `begin` on, under any lock.
    pub(super) fn resume_to_hold(&self, begin: u16, room: u16) {
        self.limits.store(limits(begin, begin + room), Ordering::Release);
    }

    /// Takes up to `most` pointers, for a caller that alone uses the slot: [`pop_batch`](super::SlotSet::pop_batch)
    /// without a section. Returns their first position and their number, in steps.
    pub(super) fn take(&self, most: u16) -> (u16, u16) {
        let current = self.current();
        let count = self.filled().min(most);
        if count > 0 {
            self.current.store(current - count, Ordering::Relaxed);
        }
        (current - count, count)
    }

    /// Room for up to `count` pointers from `current` on, in the same way: its first position and the number that fits.
    /// Pointers written there count after [`Header::put`].
    pub(super) fn room(&self, count: u16) -> (u16, u16) {
        let end = (self.limits.load(Ordering::Relaxed) >> 16) as u16;
        let current = self.current();
        (current, end.saturating_sub(current).min(count))
    }

    /// Counts pointers written to the room. A stopped header has none, and its `current` belongs to the thread that
    /// stopped it.
    pub(super) fn put(&self, count: u16) {
        if count > 0 {
            self.current.store(self.current() + count, Ordering::Relaxed);
        }
    }

    /// Sets the bounds of the array, with any contents.
    #[cfg(test)]
    pub(crate) fn set_limits(&self, begin: u16, end: u16) {
        self.limits.store(limits(begin, end), Ordering::Relaxed);
    }

    /// Panics unless the invariant holds, for a slot that no thread uses.
    #[cfg(test)]
    pub(crate) fn check(&self, bucket: Bucket) {
        let limits = self.limits.load(Ordering::Relaxed);
        if limits == 0 {
            assert_eq!(self.current(), 0);
            return;
        }
        assert_ne!(limits, STOPPED, "a header was left stopped");
        assert_eq!(limits as u16, begin(bucket));
        assert!(self.capacity() <= most_pointers(bucket) && self.capacity() as usize >= FEWEST_POINTERS);
        assert!(self.current() >= begin(bucket));
        assert!(self.filled() <= most_pointers(bucket));
    }
}
