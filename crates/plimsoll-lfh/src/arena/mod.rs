//! The address space of all heaps of a process: one window, divided into units and segments.
//!
//! ```text
//! window  0        64 KiB    256 KiB   1 MiB   64 MiB       1088 MiB        17472 MiB           256 GiB
//!         Directory | (helper) | segments | heaps | unit table | block table | segments of units ... |
//!                                                 bucket table
//! ```
//!
//! No unit lies in front of the first segment, so the unit table describes none there: the bucket table is in that part
//! of it.
//!
//! The first call reserves the window; its pages become accessible as they are needed. If the address space itself is
//! limited (`ulimit -v`), the window is only addresses: the heap maps pieces there one by one, past other mappings.
//!
//! Premises of the unsafe code: the window's address is set once, before any access to the window; the tables are
//! atomics, for which zeroed memory is valid; their accessible part only grows.
#![allow(unsafe_code)]

mod begin;
mod directory;
mod growth;

use core::ops::ControlFlow;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

pub(crate) use self::begin::{is_ready, map_piece, prepare};
pub use self::directory::{Directory, LAYOUT, MAGIC, Segment};
pub(crate) use self::growth::{
    disown, free_after_fork, grow, has_block_table, has_huge_pages, hold, leave_huge_pages, lose,
    open_block_table, open_record, release, set_on_limit, use_base_pages, use_huge_pages,
};
use crate::bucket::SMALLEST_BLOCK;
use crate::set_once::{NO_WINDOW, SET_ONCE};
use crate::unit::{UNIT, Unit, UnitIndex, UnitKind};

/// Bytes of the window, in which units are counted. Over a [`Memory`](crate::Memory) fewer may be reserved: no heap has the
/// units past them.
pub const WINDOW: usize = 256 << 30;
/// Units of the window.
pub const UNITS: usize = WINDOW / UNIT;
/// Bytes of a segment, which belongs to one heap or to none.
pub const SEGMENT: usize = 2 << 20;
/// Units of a segment.
pub const SEGMENT_UNITS: u32 = (SEGMENT / UNIT) as u32;
/// As many heaps as there may be at a time.
pub const HEAPS: u32 = 1008;
/// Number of the process's heap.
pub(crate) const PROCESS: u32 = 1;
/// Bytes from one heap's record to the next.
pub const RECORD: usize = 64 << 10;

/// Where the helper's stack ends, see `purge`.
pub(crate) const HELPER_END: usize = 192 << 10;
/// Bytes of the helper's stack, under which nothing is accessible.
const HELPER_STACK: usize = 64 << 10;
/// Where the table of segments starts.
const SEGMENTS: usize = 256 << 10;
/// Where the heaps' records start.
const RECORDS: usize = 1 << 20;
/// Where the unit table starts.
const UNIT_TABLE: usize = 64 << 20;
/// Where the table of hardened heaps' blocks starts: a byte for each [`SMALLEST_BLOCK`] bytes of the window.
pub(crate) const BLOCK_TABLE: usize = UNIT_TABLE + UNITS * size_of::<Unit>();
/// Where the bucket table starts, a byte for each unit of the window: the bucket's number of each unit of a subsegment,
/// of any heap; 0 for every other unit. All that `free` needs. It is readable from the first call on for every unit, and
/// becomes writable with the descriptions of units: memory that a process may write is charged to it, used or not.
const BUCKET_TABLE: usize = UNIT_TABLE;
/// The first unit that a heap may have.
pub const FIRST_UNIT: UnitIndex = ((BLOCK_TABLE + WINDOW / SMALLEST_BLOCK) / UNIT) as UnitIndex;
/// The smallest window: its tables, and a segment.
pub const LEAST_WINDOW: usize = FIRST_UNIT as usize * UNIT + SEGMENT;
/// The tables become accessible in steps of this many bytes.
const TABLE_STEP: usize = 64 << 10;

/// The first unit that no heap may have, as the window is not reserved there. Set with the window.
static UNITS_END: AtomicU32 = AtomicU32::new(UNITS as UnitIndex);

/// The first unit that no heap may have.
fn units_end() -> UnitIndex {
    UNITS_END.load(Ordering::Acquire)
}

const _: () = assert!(RECORDS + HEAPS as usize * RECORD <= UNIT_TABLE);
const _: () = assert!(SEGMENTS + WINDOW / SEGMENT * size_of::<Segment>() <= RECORDS);
const _: () = assert!((FIRST_UNIT as usize * UNIT).is_multiple_of(SEGMENT));
const _: () = assert!(BUCKET_TABLE + UNITS <= UNIT_TABLE + FIRST_UNIT as usize * size_of::<Unit>());
const _: () = assert!(size_of::<Directory>() <= 4096);

/// Address of the window; [`NO_WINDOW`] before the first call.
#[inline(always)]
pub(crate) fn window() -> usize {
    SET_ONCE.window.load(Ordering::Relaxed)
}

/// The unit of an address; none outside of the window.
#[inline(always)]
pub(crate) fn unit_of(address: usize) -> Option<UnitIndex> {
    let offset = address.wrapping_sub(window());
    (offset < WINDOW).then_some((offset / UNIT) as UnitIndex)
}

/// The byte of the bucket table for a unit. Units of no segment have a byte that is 0 and read-only.
#[inline(always)]
pub(crate) fn bucket_of_unit(unit: UnitIndex) -> &'static AtomicU8 {
    debug_assert!((unit as usize) < UNITS);
    // SAFETY: the unit is in the window.
    unsafe { bucket_of_unit_in(window(), unit as usize) }
}

/// The same for a caller that knows the window's address.
///
/// # Safety
/// `window` is the window's address, and `unit` is below [`UNITS`].
#[inline(always)]
pub(crate) unsafe fn bucket_of_unit_in(window: usize, unit: usize) -> &'static AtomicU8 {
    // SAFETY: the table is readable for every unit of the window, and stays so; it is made of atomics.
    unsafe { &*((window + BUCKET_TABLE) as *const AtomicU8).add(unit) }
}

/// The unit of an address of the window.
#[inline(always)]
pub(crate) fn unit_within(address: usize) -> UnitIndex {
    debug_assert!(unit_of(address).is_some());
    ((address - window()) / UNIT) as UnitIndex
}

/// Address of a unit's first byte.
#[inline(always)]
pub(crate) fn address_of(unit: UnitIndex) -> usize {
    window() + unit as usize * UNIT
}

/// The description of a unit of [`FIRST_UNIT`]`..end()`.
#[inline(always)]
pub(crate) fn unit(index: UnitIndex) -> &'static Unit {
    debug_assert!((FIRST_UNIT..end()).contains(&index), "unit {index}");
    // SAFETY: the table is accessible up to `end` and stays so; it is made of atomics.
    unsafe { &*((window() + UNIT_TABLE) as *const Unit).add(index as usize) }
}

/// The byte of the block table for an address of a unit of [`FIRST_UNIT`]`..end()`, once [`open_block_table`] returned
/// true.
#[inline(always)]
pub(crate) fn block_byte(address: usize) -> &'static AtomicU8 {
    let at = (address - window()) / SMALLEST_BLOCK;
    // SAFETY: the table is accessible up to `end` and stays so; it is made of atomics.
    unsafe { &*((window() + BLOCK_TABLE) as *const AtomicU8).add(at) }
}

#[inline(always)]
pub(crate) fn segment_of(unit: UnitIndex) -> &'static Segment {
    debug_assert!((unit as usize) < UNITS);
    // SAFETY: the table is accessible for every unit of the window, and stays so; it is made of atomics.
    unsafe { &*((window() + SEGMENTS) as *const Segment).add((unit / SEGMENT_UNITS) as usize) }
}

/// Whether the unit is in a segment of that heap.
#[inline]
pub(crate) fn belongs(unit: UnitIndex, heap: u32) -> bool {
    (FIRST_UNIT..UNITS as u32).contains(&unit)
        && u32::from(segment_of(unit).heap.load(Ordering::Relaxed)) == heap
}

/// The first unit that no heap ever had.
#[inline]
pub(crate) fn end() -> UnitIndex {
    directory().end.load(Ordering::Acquire)
}

/// The head of the window, which [`prepare`] made.
#[inline(always)]
pub(crate) fn directory() -> &'static Directory {
    debug_assert_ne!(window(), NO_WINDOW);
    // SAFETY: the window starts with it, and it is made of atomics.
    unsafe { &*(window() as *const Directory) }
}

/// Whether an address is of a unit, and a hardened heap may have made pages of units inaccessible.
pub(crate) fn may_be_inaccessible(address: usize) -> bool {
    has_block_table() && unit_of(address).is_some_and(|unit| unit >= FIRST_UNIT)
}

/// Whether a range of the window can be read: of the directory, the segments' table, the records of heaps, the
/// descriptions of units, the table of blocks, or units.
pub(crate) fn is_readable(start: usize, length: usize) -> bool {
    let Some(from) = start.checked_sub(window()).filter(|from| *from < WINDOW) else {
        return false;
    };
    let Some(to) = from.checked_add(length).filter(|to| *to <= end() as usize * UNIT) else {
        return false;
    };
    let heaps = directory().heaps.load(Ordering::Acquire) as usize;
    let block_table_end = match has_block_table() {
        true => end() as usize * UNIT / SMALLEST_BLOCK,
        false => 0,
    };
    let readable = [
        (0, size_of::<Directory>()),
        (SEGMENTS, RECORDS + heaps * RECORD),
        (
            UNIT_TABLE + FIRST_UNIT as usize * size_of::<Unit>(),
            UNIT_TABLE + end() as usize * size_of::<Unit>(),
        ),
        (
            BLOCK_TABLE + FIRST_UNIT as usize * UNIT / SMALLEST_BLOCK,
            BLOCK_TABLE + block_table_end,
        ),
    ];
    if readable.iter().any(|(start, end)| *start <= from && to <= *end) {
        return true;
    }
    let units = (from / UNIT) as UnitIndex..to.div_ceil(UNIT) as UnitIndex;
    units.start >= FIRST_UNIT
        && units
            .into_iter()
            .all(|unit| segment_of(unit).heap.load(Ordering::Relaxed) != Segment::FOREIGN)
}

/// Address of the record of heap `number`, from 1.
#[inline(always)]
pub(crate) fn record_address(number: u32) -> usize {
    window() + RECORDS + (number as usize - 1) * RECORD
}

/// `unit` or the first one after it whose address is a multiple of `align` units, a power of two.
pub(crate) fn align_up(unit: UnitIndex, align: u32) -> Option<UnitIndex> {
    let before = window() / UNIT;
    let aligned = (before + unit as usize).checked_next_multiple_of(align as usize)? - before;
    (aligned < UNITS).then_some(aligned as UnitIndex)
}

/// Visits the first unit of each run of a heap, with the kind of the run. While others change the heap, runs may be
/// missed.
///
/// # Errors
/// The first error of `visit`.
pub(crate) fn for_each_run<E>(
    heap: u32,
    mut visit: impl FnMut(UnitIndex, UnitKind) -> Result<(), E>,
) -> Result<(), E> {
    let visited = for_each_run_from(FIRST_UNIT, heap, |first, kind| match visit(first, kind) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    });
    match visited {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// As [`for_each_run`], of the runs that begin at a unit or after it, and until `visit` breaks it off.
pub(crate) fn for_each_run_from<B>(
    from: UnitIndex,
    heap: u32,
    mut visit: impl FnMut(UnitIndex, UnitKind) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let end = end();
    let mut at = from;
    while at < end {
        if !belongs(at, heap) {
            at = (at + 1).next_multiple_of(SEGMENT_UNITS);
            continue;
        }
        let unit = unit(at);
        // Inside of a run that begins before `from`, or one that was just changed.
        if unit.first.load(Ordering::Relaxed) != at || unit.kind() == UnitKind::Nothing {
            at += 1;
            continue;
        }
        visit(at, unit.kind())?;
        at += unit.length.load(Ordering::Relaxed).max(1);
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
pub(crate) use self::growth::injection;
