//! Growth: segments come from the window to heaps, and go back when a heap ends.
#![allow(unsafe_code)]

use core::ops::Range;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use plimsoll_os::Errno;

use super::begin::open;
use super::directory::Segment;
use super::{
    BLOCK_TABLE, BUCKET_TABLE, FIRST_UNIT, RECORD, RECORDS, SEGMENT, SEGMENT_UNITS, TABLE_STEP, UNIT_TABLE,
    UNITS, WINDOW, address_of, align_up, belongs, bucket_of_unit, directory, end, record_address, segment_of,
    unit, units_end, window,
};
use crate::bucket::SMALLEST_BLOCK;
use crate::guards;
use crate::lock::Lock;
use crate::memory::{self, Access};
use crate::pages;
use crate::unit::{UNIT, Unit, UnitIndex};

/// Guards the growth of the window. Last in the order of locks.
static GROWTH: Lock<Growth> = Lock::new(Growth {
    table_end: UNIT_TABLE + FIRST_UNIT as usize * size_of::<Unit>(),
    bucket_table_end: BUCKET_TABLE + FIRST_UNIT as usize / TABLE_STEP * TABLE_STEP,
    has_block_table: false,
    block_table_end: BLOCK_TABLE + FIRST_UNIT as usize * BLOCK_BYTES,
});

#[derive(Debug)]
struct Growth {
    /// Bytes of the unit table that are accessible, counted from the window's start.
    table_end: usize,
    /// Bytes of the bucket table that are writable, counted from the window's start.
    bucket_table_end: usize,
    /// Whether a heap is or was hardened.
    has_block_table: bool,
    /// Bytes of the table of blocks that are accessible, counted from the window's start.
    block_table_end: usize,
}

/// Set by [`set_on_limit`]; null before.
static ON_LIMIT: AtomicPtr<fn()> = AtomicPtr::new(ptr::null_mut());

/// Sets a function that unmaps memory that heaps reserved outside of the window, for a process whose address space becomes
/// limited. A thread that holds locks calls it: it waits for none.
pub(crate) fn set_on_limit(function: &'static fn()) {
    ON_LIMIT.store(ptr::from_ref(function).cast_mut(), Ordering::Release);
}

/// Bytes of the table of blocks for each unit.
const BLOCK_BYTES: usize = UNIT / SMALLEST_BLOCK;

/// Makes the table of blocks accessible, from now on as far as there are units. False if no memory is left.
pub(crate) fn open_block_table() -> bool {
    let mut growth = GROWTH.lock();
    let directory = directory();
    let only = directory.addresses_only.load(Ordering::Relaxed) != 0;
    let had = growth.has_block_table;
    growth.has_block_table = true;
    // If it fails, other heaps have to grow without it.
    growth.has_block_table = growth.describe(directory.end.load(Ordering::Relaxed), only) || had;
    HAS_BLOCK_TABLE.store(growth.has_block_table, Ordering::Release);
    growth.has_block_table
}

/// A copy of the lock's value for threads that do not hold the lock.
static HAS_BLOCK_TABLE: AtomicBool = AtomicBool::new(false);

/// Whether the table of blocks is accessible as far as there are units.
pub(crate) fn has_block_table() -> bool {
    HAS_BLOCK_TABLE.load(Ordering::Acquire)
}

/// Makes the record of heap `number` accessible; it is zero the first time. False if no memory is left.
pub(crate) fn open_record(number: u32) -> bool {
    let growth = GROWTH.lock();
    let directory = directory();
    if number <= directory.heaps.load(Ordering::Relaxed) {
        return true;
    }
    let only = directory.addresses_only.load(Ordering::Relaxed) != 0;
    // SAFETY: the record is of the control area, and no heap of that number ever was.
    let opened = unsafe { open(record_address(number), RECORD, only) }.is_ok();
    if opened {
        memory::keep(record_address(number), RECORD);
        directory.heaps.store(number, Ordering::Release);
    }
    drop(growth);
    opened
}

/// Takes every segment from a heap that ended. Of a hardened heap, some pages are inaccessible.
///
/// # Safety
/// No thread uses the heap or a block of it.
pub(crate) unsafe fn disown(heap: u32, hardened: bool) {
    let growth = GROWTH.lock();
    let end = end();
    let mut at = FIRST_UNIT;
    while at < end {
        let lost = is_lost(at);
        let mut last = at;
        while last < end && belongs(last, heap) && is_lost(last) == lost {
            last += SEGMENT_UNITS;
        }
        if last == at {
            at += SEGMENT_UNITS;
            continue;
        }
        match lost {
            // Memory of other code stays as it is, with its surroundings, and no heap has it again.
            true => forget(at, last, Segment::FOREIGN),
            // SAFETY: the caller's premise.
            false => unsafe { disown_range(at, last, hardened) },
        }
        at = last;
    }
    drop(growth);
}

/// Notes that other code mapped addresses of a run in use, which no heap may free.
pub(crate) fn lose(first: UnitIndex, units: u32) {
    for at in segments(first, first + units) {
        segment_of(at).lost.store(1, Ordering::Relaxed);
    }
}

fn is_lost(unit: UnitIndex) -> bool {
    segment_of(unit).lost.load(Ordering::Relaxed) != 0
}

/// The first units of the segments that hold the units up to `end`.
fn segments(first: UnitIndex, end: UnitIndex) -> impl Iterator<Item = UnitIndex> {
    (first & !(SEGMENT_UNITS - 1)..end).step_by(SEGMENT_UNITS as usize)
}

/// Clears the descriptions of whole segments, and sets the owner of each at once: a walk meanwhile finds no segment of
/// a heap without runs.
fn forget(first: UnitIndex, last: UnitIndex, owner: u16) {
    for segment in segments(first, last) {
        for at in segment..segment + SEGMENT_UNITS {
            bucket_of_unit(at).store(0, Ordering::Relaxed);
            if unit(at).guarded.load(Ordering::Relaxed) != 0 {
                guards::forget();
            }
            unit(at).clear();
        }
        segment_of(segment).heap.store(owner, Ordering::Release);
    }
}

/// # Safety
/// The units are of one heap, and no thread uses it.
unsafe fn disown_range(first: UnitIndex, last: UnitIndex, hardened: bool) {
    // The lock keeps others from having the segments before they are zero.
    forget(first, last, 0);
    let (start, length) = (address_of(first), (last - first) as usize * UNIT);
    // SAFETY: the caller's premise; the range was accessible before.
    let accessible = !hardened || unsafe { memory::set_access(start, length, Access::Write) }.is_ok();
    if accessible {
        // Reuse of segments relies on zeroes.
        // SAFETY: the caller's premise; the range is accessible.
        unsafe { pages::clear(start, length) };
    } else {
        // SAFETY: the caller's premise.
        let _ = unsafe { memory::discard(start, length) };
    }
    for at in segments(first, last) {
        if !accessible {
            // No heap has memory again that the system leaves inaccessible.
            segment_of(at).heap.store(Segment::FOREIGN, Ordering::Relaxed);
        }
        leave_huge_page(at);
    }
    if accessible {
        let segments = (last - first) / SEGMENT_UNITS;
        directory().unowned.fetch_add(segments, Ordering::Relaxed);
    }
}

/// Keeps the window from growing for the time of a fork.
pub(crate) fn hold() {
    GROWTH.hold();
}

/// Ends [`hold`] in the parent.
///
/// # Safety
/// This thread called `hold`.
pub(crate) unsafe fn release() {
    // SAFETY: the caller's premise.
    unsafe { GROWTH.release() };
}

/// Ends [`hold`] in the child.
///
/// # Safety
/// This thread is the only one, and its parent called `hold`.
pub(crate) unsafe fn free_after_fork() {
    // SAFETY: the caller's premise.
    unsafe { GROWTH.free_after_fork() };
}

/// Whole segments of a growing heap: units that are zero, described by zeroed units.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grown {
    pub(crate) first: UnitIndex,
    pub(crate) units: u32,
}

/// Assigns whole segments of at least `units` units at a multiple of `align` units to `heap`, and tries for `wanted`.
/// None if no memory is left.
pub(crate) fn grow(heap: u32, units: u32, align: u32, wanted: u32) -> Option<Grown> {
    let whole = |units: u32| units.checked_next_multiple_of(SEGMENT_UNITS);
    let (least, wanted) = (whole(units)?, whole(wanted.max(units))?);
    let mut growth = GROWTH.lock();
    let grown = growth.assign(heap, least, wanted, align);
    let directory = directory();
    let count = if grown.is_some() {
        &directory.growths
    } else {
        &directory.refusals
    };
    count.fetch_add(1, Ordering::Relaxed);
    grown
}

/// Requests huge pages under new segments of a heap.
pub(crate) fn use_huge_pages(grown: Grown) {
    let (start, length) = (address_of(grown.first), grown.units as usize * UNIT);
    if memory::use_huge_pages(start, length) {
        for at in segments(grown.first, grown.first + grown.units) {
            segment_of(at).huge.store(1, Ordering::Relaxed);
        }
    }
}

/// Uses base pages from now on under segments that the units fill only in part, as that part is about to return to the
/// kernel: a huge page would make it resident again. Back end's lock.
pub(crate) fn leave_huge_pages(first: UnitIndex, units: u32) {
    let end = first + units;
    for inside in [first, end - 1] {
        let segment = inside & !(SEGMENT_UNITS - 1);
        if !is_within(segment, &(first..end)) {
            leave_huge_page(segment);
        }
    }
}

/// Has base pages from now on under a run of other than small blocks that is taken from an extent, in segments of which
/// nothing else is in use: the huge page of any other one is resident already. Back end's lock.
pub(crate) fn use_base_pages(run: Range<UnitIndex>, extent: Range<UnitIndex>) {
    segments(run.start, run.end)
        .filter(|segment| is_within(*segment, &extent))
        .for_each(leave_huge_page);
}

/// Whether huge pages were requested under some of the units.
pub(crate) fn has_huge_pages(first: UnitIndex, units: u32) -> bool {
    segments(first, first + units).any(|segment| segment_of(segment).huge.load(Ordering::Relaxed) != 0)
}

fn is_within(segment: UnitIndex, units: &Range<UnitIndex>) -> bool {
    units.start <= segment && segment + SEGMENT_UNITS <= units.end
}

fn leave_huge_page(segment: UnitIndex) {
    if segment_of(segment).huge.swap(0, Ordering::Relaxed) != 0 {
        memory::use_base_pages(address_of(segment), SEGMENT);
    }
}

impl Growth {
    /// Segments of a heap which is no more, or else new ones: `wanted` units of them, or `least`.
    fn assign(&mut self, heap: u32, least: u32, wanted: u32, align: u32) -> Option<Grown> {
        #[cfg(test)]
        if !injection::may_grow() {
            return None;
        }
        self.reuse(heap, least, align)
            .or_else(|| self.extend(heap, wanted, align))
            .or_else(|| {
                (wanted > least)
                    .then(|| self.extend(heap, least, align))
                    .flatten()
            })
    }

    /// Segments that belonged to a heap which is no more.
    fn reuse(&mut self, heap: u32, units: u32, align: u32) -> Option<Grown> {
        let directory = directory();
        if directory.unowned.load(Ordering::Relaxed) < units / SEGMENT_UNITS {
            return None;
        }
        let end = directory.end.load(Ordering::Relaxed);
        let align = align.max(SEGMENT_UNITS);
        let mut first = align_up(FIRST_UNIT, align)?;
        let mut at = FIRST_UNIT;
        while at < end {
            if segment_of(at).heap.load(Ordering::Relaxed) != 0 {
                first = align_up(at + SEGMENT_UNITS, align)?;
            }
            at += SEGMENT_UNITS;
            if at >= first && at - first >= units {
                directory
                    .unowned
                    .fetch_sub(units / SEGMENT_UNITS, Ordering::Relaxed);
                return Some(self.own(heap, first, units));
            }
        }
        None
    }

    /// Segments that no heap had before.
    fn extend(&mut self, heap: u32, units: u32, align: u32) -> Option<Grown> {
        if !self.may_grow() {
            return None;
        }
        let directory = directory();
        let only = directory.addresses_only.load(Ordering::Relaxed) != 0;
        let end = directory.end.load(Ordering::Relaxed);
        let align = align.max(SEGMENT_UNITS);
        let mut first = align_up(end, align)?;
        loop {
            let last = first.checked_add(units).filter(|last| *last <= units_end())?;
            let (start, length) = (address_of(first), units as usize * UNIT);
            // SAFETY: the range is past every unit that a heap ever had.
            match unsafe { open(start, length, only) } {
                Ok(()) => {}
                Err(Errno::EXIST) if only => {
                    first = first.checked_add(align)?;
                    continue;
                }
                Err(_) => return None,
            }
            // After the units, so that no table takes memory of which nothing comes.
            if !self.describe(last, only) {
                if only {
                    // SAFETY: the units were mapped a moment ago, and no other thread knows them.
                    unsafe { memory::release(start, length) };
                }
                return None;
            }
            self.skip(end, first, only);
            let grown = self.own(heap, first, units);
            directory.end.store(last, Ordering::Release);
            return Some(grown);
        }
    }

    /// If a limit on address space was set after the window was reserved, unmaps the rest of the reservation, so that
    /// it does not count against the limit.
    ///
    /// Each growth reads the limit (`prlimit(2)`), beside the call by which it grows; in a sandbox that refuses this
    /// call there counts as no limit.
    fn may_grow(&mut self) -> bool {
        let directory = directory();
        if directory.addresses_only.load(Ordering::Relaxed) != 0 || !memory::is_limited() {
            return true;
        }
        let end = directory.end.load(Ordering::Relaxed) as usize * UNIT;
        let records = RECORDS + directory.heaps.load(Ordering::Relaxed) as usize * RECORD;
        directory.addresses_only.store(1, Ordering::Relaxed);
        // SAFETY: `set_on_limit` stores references to statics alone.
        if let Some(on_limit) = unsafe { ON_LIMIT.load(Ordering::Acquire).as_ref() } {
            on_limit();
        }
        for (from, to) in [
            (end, WINDOW),
            (self.table_end, BLOCK_TABLE + FIRST_UNIT as usize * BLOCK_BYTES),
            (self.block_table_end, FIRST_UNIT as usize * UNIT),
            (records, BUCKET_TABLE),
            (
                BUCKET_TABLE + UNITS,
                UNIT_TABLE + FIRST_UNIT as usize * size_of::<Unit>(),
            ),
        ] {
            // SAFETY: no page of the range was ever accessible, so no thread uses it.
            unsafe { memory::release(window() + from, to - from) };
        }
        true
    }

    /// Makes the tables accessible up to unit `last`.
    fn describe(&mut self, last: UnitIndex, only: bool) -> bool {
        let last = last as usize;
        // The bucket table is mapped as a whole, also where the window is only addresses.
        lengthen(&mut self.bucket_table_end, BUCKET_TABLE + last, false)
            && lengthen(&mut self.table_end, UNIT_TABLE + last * size_of::<Unit>(), only)
            && (!self.has_block_table
                || lengthen(&mut self.block_table_end, BLOCK_TABLE + last * BLOCK_BYTES, only))
    }

    /// The segments from `end` to `first` belong to no heap: for good if other mappings use their addresses.
    fn skip(&mut self, end: UnitIndex, first: UnitIndex, only: bool) {
        for at in segments(end, first) {
            // SAFETY: the range is past every unit that a heap ever had, and below the next.
            let usable = unsafe { open(address_of(at), SEGMENT, only) }.is_ok();
            let owner = if usable { 0 } else { Segment::FOREIGN };
            segment_of(at).heap.store(owner, Ordering::Relaxed);
            directory()
                .unowned
                .fetch_add(u32::from(usable), Ordering::Relaxed);
        }
    }

    fn own(&mut self, heap: u32, first: UnitIndex, units: u32) -> Grown {
        for at in segments(first, first + units) {
            segment_of(at).heap.store(heap as u16, Ordering::Relaxed);
        }
        Grown { first, units }
    }
}

/// Makes a table that ends at `end` accessible up to `needed`, both counted from the window's start.
fn lengthen(end: &mut usize, needed: usize, only: bool) -> bool {
    let step = needed.saturating_sub(*end).next_multiple_of(TABLE_STEP);
    // SAFETY: the table is the arena's, and no other thread knows this part of it yet.
    if step != 0 && unsafe { open(window() + *end, step, only) }.is_err() {
        return false;
    }
    *end += step;
    true
}

/// Growth that fails at a test's request, also if the heap of another test left suitable segments.
#[cfg(test)]
pub(crate) mod injection {
    extern crate std;

    use core::cell::Cell;

    std::thread_local! {
        static GROWTHS_LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    }

    /// Lets this thread's heaps have segments so many times more; none is without end.
    pub(crate) fn set(left: Option<u32>) {
        GROWTHS_LEFT.set(left);
    }

    pub(super) fn may_grow() -> bool {
        let left = GROWTHS_LEFT.get();
        GROWTHS_LEFT.set(left.map(|left| left.saturating_sub(1)));
        left != Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::HEAPS;
    use crate::unit::UnitKind;
    use crate::{Heap, HeapOptions};

    /// Refusals that tests requested were none if a heap of another test had left as much.
    #[test]
    fn growth_refusals_hold_for_segments_of_other_tests() {
        let heaps = [(); 2].map(|()| Heap::new(HeapOptions::default()).expect("there is memory"));
        let [gone, heap] = heaps;
        assert!(!gone.allocate(64 * SEGMENT).is_null());
        drop(gone);
        injection::set(Some(0));
        assert!(heap.allocate(64 * SEGMENT).is_null());
        injection::set(None);
        assert!(!heap.allocate(64 * SEGMENT).is_null());
    }

    /// Clearing the memory of a large heap takes longer than a walk waits: all the time the walk found units of a heap
    /// without a run.
    #[test]
    fn segments_have_no_owner_once_their_runs_are_gone() {
        let _window = Heap::new(HeapOptions::default()).expect("there is memory");
        let grown = grow(HEAPS, 2 * SEGMENT_UNITS, 1, 0).expect("there is memory");
        let all = grown.first..grown.first + grown.units;
        for at in all.clone() {
            unit(at).kind.store(UnitKind::Standard as u8, Ordering::Relaxed);
            bucket_of_unit(at).store(1, Ordering::Relaxed);
        }
        let held = GROWTH.lock();
        forget(all.start, all.end, 0);
        for at in all.clone() {
            assert_eq!(unit(at).kind(), UnitKind::Nothing);
            assert_eq!(bucket_of_unit(at).load(Ordering::Relaxed), 0);
            assert!(belongs(at, 0));
        }
        // Nothing was written there: others may have it.
        directory().unowned.fetch_add(2, Ordering::Relaxed);
        drop(held);
    }
}
