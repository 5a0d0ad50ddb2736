//! The table of units, read from anywhere, as the runs that it describes.

use core::mem::offset_of;

use super::memory::{Memory, MemoryError};
use crate::unit::{Unit, UnitIndex, UnitKind};

/// Descriptions that are read at once.
const READ_AT_ONCE: usize = 64;
const DESCRIPTION: usize = size_of::<Unit>();

/// A copy of the description of a unit, as it was when it was read: every field may hold anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Description {
    /// Blocks freed and not yet taken back.
    pub remote: u64,
    /// Number of a [`UnitKind`].
    pub kind: u8,
    /// Number of a bucket.
    pub bucket: u8,
    /// Number of the heap.
    pub heap: u32,
    /// Units of the run.
    pub length: u32,
    /// First unit of the run.
    pub first: u32,
    /// The next run of its list.
    pub next: u32,
    /// The run before it in its list.
    pub previous: u32,
    /// Number + 1 of the first block of the local free list.
    pub local: u32,
    /// Blocks of the local free list.
    pub local_free: u32,
    /// Blocks split off so far.
    pub split: u32,
    /// The pages of a subsegment that are absent.
    pub absent: u32,
    /// Units from the start of a free extent that may have been written to.
    pub touched: u32,
    /// Bytes of the run of a large block beyond the requested ones.
    pub slack: u32,
}

impl Description {
    /// Takes the fields out of the bytes of a [`Unit`].
    pub(crate) fn decode(bytes: &[u8; DESCRIPTION]) -> Description {
        let u8_at = |at: usize| bytes[at];
        let u16_at = |at: usize| u16::from_ne_bytes(*bytes[at..].first_chunk().expect("a field is inside"));
        let u32_at = |at: usize| u32::from_ne_bytes(*bytes[at..].first_chunk().expect("a field is inside"));
        let u64_at = |at: usize| u64::from_ne_bytes(*bytes[at..].first_chunk().expect("a field is inside"));
        Description {
            remote: u64_at(offset_of!(Unit, remote)),
            kind: u8_at(offset_of!(Unit, kind)),
            bucket: u8_at(offset_of!(Unit, bucket)),
            heap: u32_at(offset_of!(Unit, heap)),
            length: u32_at(offset_of!(Unit, length)),
            first: u32_at(offset_of!(Unit, first)),
            next: u32_at(offset_of!(Unit, next)),
            previous: u32_at(offset_of!(Unit, previous)),
            local: u16_at(offset_of!(Unit, local)).into(),
            local_free: u16_at(offset_of!(Unit, local_free)).into(),
            split: u16_at(offset_of!(Unit, split)).into(),
            absent: u32_at(offset_of!(Unit, absent)),
            touched: u32_at(offset_of!(Unit, touched)),
            slack: u32_at(offset_of!(Unit, slack)),
        }
    }
}

/// A run of units that belong together, or one unit whose description makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Its first unit.
    pub first: UnitIndex,
    /// Its units, at least 1; [`UnitKind::Nothing`] and invalid descriptions count one by one.
    pub length: u32,
    /// Its kind; none if the description is invalid: it is damaged, or changed during the read.
    pub kind: Option<UnitKind>,
    /// The description of its first unit.
    pub description: Description,
}

/// Where the table of units is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Table {
    /// Address of the description of unit 0.
    pub(crate) address: usize,
    /// Units from here on are described.
    pub(crate) start: UnitIndex,
    /// Units before this one are described.
    pub(crate) end: UnitIndex,
}

impl Table {
    /// Reads the description of one unit.
    pub(crate) fn description(
        &self,
        memory: &impl Memory,
        unit: UnitIndex,
    ) -> Result<Description, MemoryError> {
        let mut bytes = [0; DESCRIPTION];
        memory.read(self.address.wrapping_add(unit as usize * DESCRIPTION), &mut bytes)?;
        Ok(Description::decode(&bytes))
    }

    /// The runs, from the first unit to the last. There are at most as many as units, for any contents of the table.
    pub(crate) fn runs<'m, M: Memory>(&self, memory: &'m M) -> Runs<'m, M> {
        Runs {
            memory,
            table: *self,
            at: self.start,
            read: [0; READ_AT_ONCE * DESCRIPTION],
            read_from: 0,
            read_to: 0,
        }
    }
}

/// The runs of a table, in the order of their addresses. Ends after the first error.
#[derive(Debug)]
pub struct Runs<'m, M> {
    memory: &'m M,
    table: Table,
    at: UnitIndex,
    /// The bytes of the units `read_from..read_to`.
    read: [u8; READ_AT_ONCE * DESCRIPTION],
    read_from: UnitIndex,
    read_to: UnitIndex,
}

impl<M: Memory> Runs<'_, M> {
    fn fill(&mut self) -> Result<(), MemoryError> {
        let units = ((self.table.end - self.at) as usize).min(READ_AT_ONCE);
        let address = self.table.address.wrapping_add(self.at as usize * DESCRIPTION);
        self.memory.read(address, &mut self.read[..units * DESCRIPTION])?;
        self.read_from = self.at;
        self.read_to = self.at + units as u32;
        Ok(())
    }
}

impl<M: Memory> Iterator for Runs<'_, M> {
    type Item = Result<Run, MemoryError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.table.end {
            return None;
        }
        if !(self.read_from..self.read_to).contains(&self.at)
            && let Err(error) = self.fill()
        {
            self.at = self.table.end;
            return Some(Err(error));
        }
        let offset = (self.at - self.read_from) as usize * DESCRIPTION;
        let bytes = self.read[offset..]
            .first_chunk()
            .expect("whole descriptions were read");
        let run = run_at(self.at, self.table.end, Description::decode(bytes));
        self.at += run.length;
        Some(Ok(run))
    }
}

/// The run that begins at a unit, by its description. Invariant: `1 <= length <= end - first`.
pub(super) fn run_at(first: UnitIndex, end: UnitIndex, description: Description) -> Run {
    let kind = UnitKind::of_number(description.kind);
    let (kind, length) = match kind {
        Some(UnitKind::Nothing) => (kind, 1),
        Some(_)
            if description.first == first
                && (1..=end - first).contains(&description.length)
                && description.heap != 0 =>
        {
            (kind, description.length)
        }
        _ => (None, 1),
    };
    Run {
        first,
        length,
        kind,
        description,
    }
}
