//! The slots of a heap, read from anywhere.

use core::mem::offset_of;

use plimsoll_os::MOST_PROCESSORS;

use super::memory::{Memory, MemoryError};
use crate::affinity::{LOCK, MOST_POINTERS, QUARANTINE_HEADER, SHARED, SLOT, STEP};
use crate::bucket::Bucket;
use crate::lock::Lock;

/// The most slots that a heap can have: as many as kernels know processors, and the shared ones.
pub(super) const MOST_SLOTS: u32 = (MOST_PROCESSORS + SHARED) as u32;

/// Where the slots of a heap are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slots {
    pub(super) address: usize,
    /// At most [`MOST_SLOTS`].
    pub(super) count: u32,
}

/// The header of a bucket's array, in steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Array {
    pub(super) begin: u16,
    pub(super) end: u16,
    pub(super) current: u16,
}

impl Array {
    /// Whether blocks may be in it.
    pub(super) fn in_use(&self) -> bool {
        self.begin < self.end
    }

    /// Whether none may be: it was never used, or is stopped.
    pub(super) fn out_of_use(&self) -> bool {
        matches!((self.begin, self.end), (0, 0) | (u16::MAX, 0))
    }

    /// Blocks in it, at most as many as an array can hold.
    pub(super) fn filled(&self) -> usize {
        match self.in_use() {
            true => (self.current.saturating_sub(self.begin) as usize).min(MOST_POINTERS),
            false => 0,
        }
    }
}

impl Slots {
    pub(super) fn address(&self, slot: u32) -> usize {
        self.address.wrapping_add(slot as usize * SLOT)
    }

    /// Times that a thread had to wait for a slot's lock; 0 if sections serve it.
    pub(super) fn contended(&self, memory: &impl Memory, slot: u32) -> Result<u64, MemoryError> {
        let at = self
            .address(slot)
            .wrapping_add(LOCK + offset_of!(Lock<()>, contended));
        let mut bytes = [0; 4];
        memory.read(at, &mut bytes)?;
        Ok(u32::from_ne_bytes(bytes).into())
    }

    pub(super) fn array(
        &self,
        memory: &impl Memory,
        slot: u32,
        bucket: Bucket,
    ) -> Result<Array, MemoryError> {
        self.array_at(memory, slot, bucket.index())
    }

    /// The array of a hardened heap's quarantine.
    pub(super) fn quarantine(&self, memory: &impl Memory, slot: u32) -> Result<Array, MemoryError> {
        self.array_at(memory, slot, QUARANTINE_HEADER)
    }

    fn array_at(&self, memory: &impl Memory, slot: u32, header: usize) -> Result<Array, MemoryError> {
        let mut bytes = [0; 8];
        memory.read(self.address(slot).wrapping_add(header * 8), &mut bytes)?;
        let step = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Ok(Array {
            begin: step(0),
            end: step(2),
            current: step(4),
        })
    }

    /// The blocks in an array, from its start.
    pub(super) fn pointers<'p>(
        &self,
        memory: &impl Memory,
        slot: u32,
        array: &Array,
        pointers: &'p mut [usize; MOST_POINTERS],
    ) -> Result<&'p [usize], MemoryError> {
        let filled = array.filled();
        let mut bytes = [0; MOST_POINTERS * STEP];
        let bytes = &mut bytes[..filled * STEP];
        let at = self.address(slot).wrapping_add(array.begin as usize * STEP);
        memory.read(at, bytes)?;
        for (pointer, bytes) in pointers.iter_mut().zip(bytes.chunks_exact(STEP)) {
            *pointer = usize::from_ne_bytes(*bytes.first_chunk().expect("a step"));
        }
        Ok(&pointers[..filled])
    }

    /// The block at a position of an array; none if it holds fewer.
    pub(super) fn pointer(
        &self,
        memory: &impl Memory,
        slot: u32,
        array: &Array,
        position: u16,
    ) -> Result<Option<usize>, MemoryError> {
        if !array.in_use() || position >= array.current {
            return Ok(None);
        }
        let mut bytes = [0; STEP];
        memory.read(
            self.address(slot).wrapping_add(position as usize * STEP),
            &mut bytes,
        )?;
        Ok(Some(usize::from_ne_bytes(bytes)))
    }
}
