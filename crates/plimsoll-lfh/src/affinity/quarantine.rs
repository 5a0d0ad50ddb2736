//! The quarantine of a hardened heap: an array of each slot, in which freed blocks wait before they are free.
//!
//! Its header takes the place of bucket 0, which does not exist. Slots serve it like a bucket, without a lock if
//! sections serve the slot; no thread flushes it.
use core::ptr;

use super::layout::{QUARANTINE_HEADER, QUARANTINED};
use super::{Header, SlotSet};

impl SlotSet {
    /// Puts a block into the quarantine of the slot that serves this thread. Returns false if there is no room.
    #[inline(always)]
    pub(crate) fn quarantine(&self, block: *mut u8) -> bool {
        match self.uses_sections() {
            true => self.sections().push_at(QUARANTINE_HEADER, block),
            false => self.push_to(QUARANTINE_HEADER, &[block]) == 1,
        }
    }

    /// Makes room in the quarantine of the slot that serves this thread, and puts a block there: the oldest blocks
    /// leave it, into `leaving`. Returns their number; the new block may be among them.
    #[cold]
    #[inline(never)]
    pub(crate) fn make_room(&self, block: *mut u8, leaving: &mut [*mut u8; QUARANTINED + 1]) -> usize {
        self.prepare_at(QUARANTINE_HEADER, Header::prepared_for_quarantine());
        let mut blocks = [ptr::null_mut(); QUARANTINED + 1];
        let taken = self.pop_from(QUARANTINE_HEADER, &mut blocks[..QUARANTINED]);
        blocks[taken] = block;
        let oldest = taken / 2;
        leaving[..oldest].copy_from_slice(&blocks[..oldest]);
        let staying = &blocks[oldest..=taken];
        // On another processor meanwhile, or where there was no memory for the array, there may be less room.
        let stayed = self.push_to(QUARANTINE_HEADER, staying);
        let others = &staying[stayed..];
        leaving[oldest..oldest + others.len()].copy_from_slice(others);
        oldest + others.len()
    }
}
