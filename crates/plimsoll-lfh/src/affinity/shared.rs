//! Shared slots: blocks on their way from one processor's slot to another's, or back to the same.
//!
//! They are the first of the set and no processor's: their headers belong to the holder of the bucket's lock. A batch
//! moves through them as pointers; no thread reads the blocks, or the descriptions of their subsegments.
#![allow(unsafe_code)]

use super::SlotSet;
use super::header::Header;
use crate::bucket::Bucket;

/// How many slots are shared: for each bucket, room for so many full arrays.
pub(crate) const SHARED: usize = 2;

impl SlotSet {
    /// Puts as many of the blocks there as there is room for, from the first; makes more room if `grows`. Returns how
    /// many. The caller holds the bucket's lock.
    pub(crate) fn share(&self, bucket: Bucket, blocks: &[*mut u8], grows: bool) -> usize {
        let mut shared = 0;
        for slot in 0..SHARED {
            let header = self.header(slot, bucket);
            if grows {
                header.prepare(Header::prepared(bucket));
            }
            let left = &blocks[shared..];
            while grows && (header.room(left.len() as u16).1 as usize) < left.len() && header.grow(bucket) {}
            // SAFETY: the bucket's lock is held.
            shared += unsafe { self.put_alone(slot, bucket.index(), left) };
        }
        shared
    }

    /// Takes up to `blocks.len()` blocks from there, the last that came. Returns how many. The bucket's lock is held.
    pub(crate) fn take_shared(&self, bucket: Bucket, blocks: &mut [*mut u8]) -> usize {
        let mut taken = 0;
        for slot in (0..SHARED).rev() {
            // SAFETY: the bucket's lock is held.
            taken += unsafe { self.take_alone(slot, bucket.index(), &mut blocks[taken..]) };
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_slots_are_last_in_first_out_and_bounded() {
        let set = SlotSet::unstarted();
        assert!(set.start());
        let bucket = Bucket::new(8).unwrap();
        let most = super::super::most_pointers(bucket) as usize;
        let blocks: std::vec::Vec<*mut u8> = (1..=SHARED * most + 5)
            .map(core::ptr::without_provenance_mut)
            .collect();
        assert_eq!(
            set.share(bucket, &blocks, false),
            0,
            "an unused array has no room"
        );
        assert_eq!(set.share(bucket, &blocks[..5], true), 5);
        assert_eq!(set.share(bucket, &blocks[5..], true), SHARED * most - 5);
        let mut taken = std::vec![core::ptr::null_mut(); 3];
        assert_eq!(set.take_shared(bucket, &mut taken), 3);
        assert_eq!(taken, blocks[SHARED * most - 3..SHARED * most]);
        let mut rest = std::vec![core::ptr::null_mut(); SHARED * most];
        assert_eq!(set.take_shared(bucket, &mut rest), SHARED * most - 3);
        assert_eq!(set.pop_batch(bucket, &mut taken), 0, "no processor has them");
        rest.truncate(SHARED * most - 3);
        rest.sort_unstable();
        assert_eq!(rest, blocks[..SHARED * most - 3]);
        // SAFETY: no other thread knows the set.
        unsafe { set.end() };
    }
}
