//! Nonces and tags of the written slots.

use std::sync::atomic::Ordering;

use plimsoll_os::{AtomicWords, Errno};

use super::cipher::{Nonce, Tag};
use super::units::{BLOCKS_PER_SLOT, Block, Slot};

/// Words of a slot: the nonce of its first block, then the tags.
const WORDS: usize = 1 + 2 * BLOCKS_PER_SLOT;

/// The authentication of a slot. Block n has the nonce `first + n`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seal {
    pub(super) first: Nonce,
    pub(super) tags: [Tag; BLOCKS_PER_SLOT],
}

impl Seal {
    pub(super) const NONE: Seal = Seal {
        first: 0,
        tags: [[0; 2]; BLOCKS_PER_SLOT],
    };
}

/// The seals of all slots.
///
/// Invariant: a nonce of 0 says that the slot is not written. The writer stores the tags before the nonce. A reader
/// that meets a change sees parts of two seals, which match no block.
#[derive(Debug)]
pub(super) struct Seals(AtomicWords);

impl Seals {
    pub(super) fn new(slots: u32) -> Result<Seals, Errno> {
        AtomicWords::new(slots as usize * WORDS).map(Seals)
    }

    /// Bytes of the seals of the first `slots` slots.
    pub(super) fn bytes(slots: u64) -> u64 {
        slots * (WORDS * size_of::<u64>()) as u64
    }

    fn start(slot: Slot) -> usize {
        slot.number() as usize * WORDS
    }

    /// Marks a slot as written.
    pub(super) fn publish(&self, slot: Slot, seal: &Seal) {
        let start = Self::start(slot);
        for (place, word) in self.0[start + 1..start + WORDS]
            .iter()
            .zip(seal.tags.as_flattened())
        {
            place.store(*word, Ordering::Relaxed);
        }
        self.0[start].store(seal.first, Ordering::Release);
    }

    /// Marks a slot as not written; returns whether it was written.
    pub(super) fn withdraw(&self, slot: Slot) -> bool {
        let nonce = self.0.get(Self::start(slot));
        nonce.is_some_and(|nonce| nonce.swap(0, Ordering::AcqRel) != 0)
    }

    /// The nonce of the slot's first block; 0 if it is not written, or if the file has no such slot.
    pub(super) fn first_nonce(&self, slot: Slot) -> Nonce {
        let nonce = self.0.get(Self::start(slot));
        nonce.map_or(0, |nonce| nonce.load(Ordering::Acquire))
    }

    /// Nonce and tag of a block, if it is written.
    pub(super) fn get(&self, block: Block) -> Option<(Nonce, Tag)> {
        let first = self.first_nonce(block.slot());
        if first == 0 {
            return None;
        }
        let tag = Self::start(block.slot()) + 1 + 2 * block.in_slot();
        let word = |index: usize| self.0[index].load(Ordering::Relaxed);
        Some((first + block.in_slot() as u64, [word(tag), word(tag + 1)]))
    }
}
