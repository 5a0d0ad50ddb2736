//! The heaps' address space as it is found from outside, checked before anything of it is followed.

use core::cell::Cell;
use core::fmt;
use core::mem::offset_of;
use core::ops::Range;

use super::memory::{Memory, MemoryError};
use super::runs::{Run, Runs, Table, run_at};
use crate::arena::{
    Directory, FIRST_UNIT, HEAPS, LAYOUT, MAGIC, RECORD, SEGMENT_UNITS, Segment, UNITS, WINDOW,
};
use crate::unit::{UNIT, Unit, UnitIndex};

/// Why a control block cannot be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names of the fields describe them")]
pub enum SpaceError {
    /// It cannot be read.
    Memory(MemoryError),
    /// The address holds no control block.
    NotAHeap,
    /// It is that of another version.
    OtherLayout { found: u32 },
    /// A field of it makes no sense.
    Damaged { field: &'static str, value: u64 },
}

impl fmt::Display for SpaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpaceError::Memory(error) => error.fmt(f),
            SpaceError::NotAHeap => f.write_str("there is no control block of a heap"),
            SpaceError::OtherLayout { found } => {
                write!(
                    f,
                    "the heap's layout is version {found}, this program reads version {LAYOUT}"
                )
            }
            SpaceError::Damaged { field, value } => write!(f, "`{field}` holds {value:#x}, which cannot be"),
        }
    }
}

impl core::error::Error for SpaceError {}

impl From<MemoryError> for SpaceError {
    fn from(error: MemoryError) -> SpaceError {
        SpaceError::Memory(error)
    }
}

/// All heaps of a process, in its memory or in that of another.
///
/// Invariants, for any contents of the memory: every unit of `table` is in the window, and so is every record.
#[derive(Debug)]
pub struct Space<'m, M> {
    pub(super) memory: &'m M,
    pub(super) window: usize,
    pub(super) table: Table,
    pub(super) key: u64,
    pub(super) records: usize,
    segments: usize,
    heaps: u32,
    counts: WindowCounts,
    /// Times that a reader dropped its copies to look at something again.
    again: Cell<u64>,
}

/// Counts over all heaps of a process, since its first call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WindowCounts {
    /// Times that a heap took segments.
    pub growths: u64,
    /// Times that it was not: no memory was left for it, or no addresses.
    pub refusals: u64,
    /// Times that pages returned to the kernel.
    pub purges: u64,
    /// Bytes that returned to the kernel, as addresses: not every page was resident.
    pub purged_bytes: u64,
}

/// The bytes of a directory, by field.
struct Fields([u8; size_of::<Directory>()]);

impl Fields {
    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(*self.0[at..].first_chunk().expect("a field is inside"))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(*self.0[at..].first_chunk().expect("a field is inside"))
    }
}

impl<'m, M: Memory> Space<'m, M> {
    /// Reads the control block at `address` and checks it.
    ///
    /// # Errors
    /// [`SpaceError`] if it cannot be read, is none, is of another version or holds an impossible value.
    pub fn open(memory: &'m M, address: usize) -> Result<Space<'m, M>, SpaceError> {
        // The start alone first: another version's may be shorter.
        let mut magic = [0; MAGIC.len()];
        memory.read(address, &mut magic)?;
        if magic != MAGIC {
            return Err(SpaceError::NotAHeap);
        }
        let mut fields = Fields([0; size_of::<Directory>()]);
        let layout = offset_of!(Directory, layout);
        memory.read(address, &mut fields.0[..layout + 4])?;
        if fields.u32(layout) != LAYOUT {
            return Err(SpaceError::OtherLayout {
                found: fields.u32(layout),
            });
        }
        memory.read(address, &mut fields.0)?;
        Space::of_fields(memory, address, &fields)
    }

    fn of_fields(memory: &'m M, address: usize, fields: &Fields) -> Result<Space<'m, M>, SpaceError> {
        let start = address as u64;
        let check = |field, value: u64, sound: bool| match sound {
            true => Ok(value),
            false => Err(SpaceError::Damaged { field, value }),
        };
        let equal = |field, value: u64, must: u64| check(field, value, value == must);
        // Tables are in front of the first unit that a heap may have.
        let inside = |field, value: u64, bytes: usize| {
            let control = FIRST_UNIT as u64 * UNIT as u64;
            let offset = value.wrapping_sub(start);
            check(
                field,
                value,
                offset <= control && offset + bytes as u64 <= control && value.is_multiple_of(64),
            )
            .map(|value| value as usize)
        };
        check(
            "window",
            start,
            start.checked_add(WINDOW as u64).is_some() && start.is_multiple_of(UNIT as u64),
        )?;
        equal(
            "unit",
            fields.u32(offset_of!(Directory, unit)).into(),
            UNIT as u64,
        )?;
        equal("window", fields.u64(offset_of!(Directory, window)), start)?;
        equal(
            "window_bytes",
            fields.u64(offset_of!(Directory, window_bytes)),
            WINDOW as u64,
        )?;
        let end = fields.u32(offset_of!(Directory, end));
        check(
            "end",
            end.into(),
            (FIRST_UNIT..=UNITS as u32).contains(&end) && end.is_multiple_of(SEGMENT_UNITS),
        )?;
        let heaps = fields.u32(offset_of!(Directory, heaps));
        check("heaps", heaps.into(), heaps <= HEAPS)?;
        let units = fields.u64(offset_of!(Directory, units));
        let segments = fields.u64(offset_of!(Directory, segments));
        let records = fields.u64(offset_of!(Directory, records));
        Ok(Space {
            memory,
            window: address,
            table: Table {
                address: inside("units", units, UNITS * size_of::<Unit>())?,
                start: FIRST_UNIT,
                end,
            },
            key: fields.u64(offset_of!(Directory, key)),
            records: inside("records", records, HEAPS as usize * RECORD)?,
            segments: inside(
                "segments",
                segments,
                UNITS / SEGMENT_UNITS as usize * size_of::<Segment>(),
            )?,
            heaps,
            counts: WindowCounts {
                growths: fields.u64(offset_of!(Directory, growths)),
                refusals: fields.u64(offset_of!(Directory, refusals)),
                purges: fields.u64(offset_of!(Directory, purges)),
                purged_bytes: fields.u64(offset_of!(Directory, purged_bytes)),
            },
            again: Cell::new(0),
        })
    }

    /// Drops copies of the memory, to look at something again: [`Memory::refresh`], counted.
    pub(super) fn refresh(&self) {
        self.again.set(self.again.get() + 1);
        self.memory.refresh();
    }

    /// Times that something was looked at again.
    pub(super) fn looks_again(&self) -> u64 {
        self.again.get()
    }

    /// Units that the table describes.
    pub(super) fn units(&self) -> u64 {
        u64::from(self.table.end - self.table.start)
    }

    /// Address of unit 0.
    pub fn window(&self) -> usize {
        self.window
    }

    /// The highest number that a heap ever had.
    pub fn highest_heap(&self) -> u32 {
        self.heaps
    }

    /// The counts over all heaps, when the space was opened.
    pub fn counts(&self) -> WindowCounts {
        self.counts
    }

    /// Every run of units, by address. There are at most as many as units, for any contents of the memory.
    pub fn runs(&self) -> Runs<'m, M> {
        self.table.runs(self.memory)
    }

    /// The run that begins at a unit of the table, by its description now.
    pub(super) fn run(&self, first: UnitIndex) -> Result<Run, MemoryError> {
        let description = self.table.description(self.memory, first)?;
        let end = if description.length > self.table.end - first {
            // The heap may have grown since it was opened, and the run with it.
            self.units_now()?.end
        } else {
            self.table.end
        };
        Ok(run_at(first, end, description))
    }

    /// The units that heaps ever had, now: heaps grow while they are looked at.
    pub(super) fn units_now(&self) -> Result<Range<UnitIndex>, MemoryError> {
        let mut bytes = [0; 4];
        self.memory
            .read(self.window + offset_of!(Directory, end), &mut bytes)?;
        let end = u32::from_ne_bytes(bytes).clamp(self.table.end, UNITS as u32);
        Ok(self.table.start..end)
    }

    /// Whether a run that begins before the unit reaches over it, by a walk from where the heap's units without a gap
    /// begin.
    pub(super) fn is_covered(&self, unit: UnitIndex) -> Result<bool, MemoryError> {
        let heap = self.owner(unit)?;
        let mut at = unit / SEGMENT_UNITS * SEGMENT_UNITS;
        while at > self.table.start && self.owner(at - 1)? == heap {
            at -= SEGMENT_UNITS;
        }
        while at < unit {
            at += self.run(at)?.length;
        }
        Ok(at > unit)
    }

    /// Address of a unit's first byte.
    pub fn address_of(&self, unit: UnitIndex) -> usize {
        self.window + unit as usize * UNIT
    }

    /// The number of the heap that the segment of a unit belongs to, 0 for none.
    pub(super) fn owner(&self, unit: UnitIndex) -> Result<u32, MemoryError> {
        let number = (unit / SEGMENT_UNITS) as usize;
        let at = self.segments + number * size_of::<Segment>() + offset_of!(Segment, heap);
        let mut bytes = [0; 2];
        self.memory.read(at, &mut bytes)?;
        Ok(match u16::from_ne_bytes(bytes) {
            Segment::FOREIGN => 0,
            heap => heap.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::{self, SEGMENT};
    use crate::inspect::ThisProcess;
    use crate::{Heap, HeapOptions};

    /// A heap that grows in place during a walk joins the free extent at its end with the new units.
    #[test]
    fn a_run_over_the_end_that_was_is_one() {
        let block = Heap::process().allocate(5 * UNIT);
        let mut space = Space::open(&ThisProcess, arena::window()).expect("there is a heap");
        let first = arena::unit_of(block as usize).expect("it is the heap's");
        let run = space.run(first).unwrap();
        assert!(run.kind.is_some() && run.length >= 5, "{run:?}");
        space.table.end = first + 2;
        assert_eq!(space.run(first).unwrap(), run);
        // SAFETY: the block is this test's.
        #[allow(unsafe_code)]
        unsafe {
            Heap::process().free(block);
        }
    }

    #[test]
    fn growth_refusals_and_purges_are_counted() {
        let counts = || {
            Space::open(&ThisProcess, arena::window())
                .expect("a heap was made")
                .counts()
        };
        let heap = Heap::new(HeapOptions::default()).expect("there is memory");
        let before = counts();
        let block = heap.allocate(4 * SEGMENT);
        let grown = counts();
        assert!(grown.growths > before.growths);
        crate::arena::injection::set(Some(0));
        assert!(heap.allocate(64 * SEGMENT).is_null());
        crate::arena::injection::set(None);
        assert!(counts().refusals > grown.refusals);
        // SAFETY: the block is this test's.
        #[allow(unsafe_code)]
        unsafe {
            block.write_bytes(1, 4 * SEGMENT);
            heap.free(block);
        }
        heap.trim();
        let after = counts();
        assert!(after.purges > grown.purges);
        assert!(after.purged_bytes >= grown.purged_bytes + 4 * SEGMENT as u64);
    }
}
