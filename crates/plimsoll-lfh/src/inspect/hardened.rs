//! The out-of-line records of a hardened heap's blocks, read from anywhere.

use core::mem::offset_of;

use super::memory::{Memory, MemoryError};
use super::records::HeapRecord;
use super::runs::run_at;
use super::slots::{Array, Slots};
use super::space::Space;
use super::statistics::HeapStatistics;
use crate::affinity::{MOST_POINTERS, QUARANTINE, QUARANTINED};
use crate::arena::{BLOCK_TABLE, RECORD};
use crate::bucket::{Bucket, SMALLEST_BLOCK};
use crate::record::Record;
use crate::subsegment::capacity;
use crate::unit::{UNIT, UnitIndex, UnitKind};

/// The most bytes of the block table that describe a block.
pub(super) const STATE: usize = 3;

/// Bytes of the block table that describe a block of the bucket: short blocks have fewer than [`STATE`].
pub(super) fn state_bytes(bucket: Bucket) -> usize {
    (bucket.size() / SMALLEST_BLOCK).min(STATE)
}

impl<M: Memory> Space<'_, M> {
    pub(super) fn is_hardened(&self, heap: u32) -> Result<bool, MemoryError> {
        let mut flag = [0];
        if (1..=self.highest_heap()).contains(&heap) {
            let record = self.records + (heap as usize - 1) * RECORD;
            self.memory
                .read(record + offset_of!(Record, hardened), &mut flag)?;
        }
        Ok(flag != [0])
    }

    /// Reads the table of blocks, from the byte of an address of a unit on.
    pub(super) fn read_states(&self, address: usize, into: &mut [u8]) -> Result<(), MemoryError> {
        let at = self.window + BLOCK_TABLE + (address - self.window) / SMALLEST_BLOCK;
        self.memory.read(at, into)
    }

    /// The bucket of the block that starts at an address, if it is one of a heap's subsegment that begins at a unit.
    pub(super) fn bucket_in(
        &self,
        first: UnitIndex,
        heap: u32,
        address: usize,
    ) -> Result<Option<Bucket>, MemoryError> {
        let units = self.units_now()?;
        if !units.contains(&first) {
            return Ok(None);
        }
        let description = self.table.description(self.memory, first)?;
        let run = run_at(first, units.end, description);
        let offset = address.wrapping_sub(self.address_of(first));
        let is_block = |bucket: &Bucket| {
            run.kind == Some(UnitKind::Subsegment)
                && description.heap == heap
                && offset.is_multiple_of(bucket.size())
                && offset / bucket.size() < capacity(*bucket) as usize
        };
        Ok(Bucket::new(description.bucket).filter(is_block))
    }

    /// The bucket of a heap's block that starts at an address; none if none does.
    pub(super) fn bucket_of(&self, heap: u32, address: usize) -> Result<Option<Bucket>, MemoryError> {
        let unit = address.wrapping_sub(self.window) / UNIT;
        let units = self.units_now()?;
        match UnitIndex::try_from(unit).ok().filter(|unit| units.contains(unit)) {
            Some(unit) => {
                let first = self.table.description(self.memory, unit)?.first;
                self.bucket_in(first, heap, address)
            }
            None => Ok(None),
        }
    }
}

impl Array {
    /// Whether it is one of a quarantine, and its positions are possible.
    pub(super) fn is_quarantine(&self) -> bool {
        let end = QUARANTINE + QUARANTINED as u16;
        (self.begin, self.end) == (QUARANTINE, end) && (self.begin..=self.end).contains(&self.current)
    }
}

impl Slots {
    /// The numbers of those that may have a quarantine. Whether one is used is noted nowhere else.
    pub(super) fn with_quarantine(&self, record: &HeapRecord) -> core::ops::Range<u32> {
        match record.hardened {
            true => 0..self.count,
            false => 0..0,
        }
    }
}

impl HeapStatistics {
    pub(super) fn count_quarantine<M: Memory>(
        &mut self,
        space: &Space<'_, M>,
        record: &HeapRecord,
        slots: &Slots,
    ) -> Result<(), MemoryError> {
        for slot in slots.with_quarantine(record) {
            let array = slots.quarantine(space.memory, slot)?;
            if !array.is_quarantine() {
                continue;
            }
            let mut pointers = [0; MOST_POINTERS];
            for block in slots.pointers(space.memory, slot, &array, &mut pointers)? {
                if let Some(bucket) = space.bucket_of(record.number, *block)? {
                    let counts = &mut self.buckets[bucket.index()];
                    // As for blocks in slots.
                    counts.quarantined += u64::from(counts.busy() > 0);
                }
            }
        }
        Ok(())
    }
}
