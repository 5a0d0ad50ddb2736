//! The address space of all heaps of a process: one window, cut into units and segments.
//!
//! ```text
//! window  0        64 KiB    256 KiB   1 MiB      64 MiB        1088 MiB            256 GiB
//!         Directory | (helper) | segments | heaps   | unit table  | segments of units ... |
//! ```
//!
//! The window is reserved at the first call; its pages become accessible as they are needed. Where the address space
//! itself is limited (`ulimit -v`), the window is only addresses, at which pieces are mapped one by one, past whatever
//! else is there.
//!
//! Premises of the unsafe code: the window's address is set once, before anything in it is reached; the tables are
//! atomics, for which zeroed memory is valid; what of them is accessible only grows.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use plimsoll_os::{Advice, address_space, futex_wait, futex_wake, page_size, random_word};

use crate::LAYOUT;
use crate::lock::Lock;
use crate::settings;
use crate::unit::{UNIT, Unit, UnitIndex, UnitKind};

/// Bytes of the window.
pub const WINDOW: usize = 256 << 30;
/// Units of the window.
pub const UNITS: usize = WINDOW / UNIT;
/// Bytes of a segment: what belongs to one heap or to none.
pub const SEGMENT: usize = 2 << 20;
/// Units of a segment.
pub const SEGMENT_UNITS: u32 = (SEGMENT / UNIT) as u32;
/// As many heaps as there may be at a time.
pub const HEAPS: u32 = 1008;
/// Bytes from one heap's record to the next.
pub const RECORD: usize = 64 << 10;

/// Where the helper's stack ends, see `purge`.
pub(crate) const HELPER: usize = 192 << 10;
/// Bytes of the helper's stack, under which nothing is accessible.
const HELPER_STACK: usize = 64 << 10;
/// Where the table of segments starts.
const SEGMENTS: usize = 256 << 10;
/// Where the heaps' records start.
const RECORDS: usize = 1 << 20;
/// Where the unit table starts.
const UNIT_TABLE: usize = 64 << 20;
/// The first unit that a heap may have.
pub const FIRST_UNIT: UnitIndex = ((UNIT_TABLE + UNITS * size_of::<Unit>()) / UNIT) as UnitIndex;
/// The unit table becomes accessible in steps of this many bytes.
const TABLE_STEP: usize = 64 << 10;

const _: () = assert!(RECORDS + HEAPS as usize * RECORD <= UNIT_TABLE);
const _: () = assert!(SEGMENTS + WINDOW / SEGMENT * size_of::<Segment>() <= RECORDS);
const _: () = assert!((FIRST_UNIT as usize * UNIT).is_multiple_of(SEGMENT));
const _: () = assert!(size_of::<Directory>() <= 4096);

/// The bucket's number of each unit of a subsegment, of any heap; 0 for every other unit. All that `free` needs.
pub(crate) static BUCKET_OF_UNIT: [AtomicU8; UNITS] = [const { AtomicU8::new(0) }; UNITS];

/// What finds a heap in another process's memory: the first bytes of the window, at the start of a private anonymous
/// mapping.
pub const MAGIC: [u8; 16] = *b"PLIMSOLL-HEAP\0\0\x01";

/// The head of the window, with the way to everything else. Addresses are this process's.
///
/// Layout: version [`LAYOUT`] of it is read from outside by `plimsoll heap stat`.
#[derive(Debug)]
#[repr(C)]
pub struct Directory {
    /// [`MAGIC`], written last.
    magic: [AtomicU64; 2],
    /// [`LAYOUT`].
    pub layout: AtomicU32,
    /// Bytes of a unit, [`UNIT`].
    pub unit: AtomicU32,
    /// Address of the window: of this directory.
    pub window: AtomicU64,
    /// Bytes of the window.
    pub window_bytes: AtomicU64,
    /// Address of the unit table, [`Unit`]s by index.
    pub units: AtomicU64,
    /// Address of the table of [`Segment`]s, by number: that of a unit is its index / [`SEGMENT_UNITS`].
    pub segments: AtomicU64,
    /// Address of the first heap's record; that of heap `n` is `n - 1` times [`RECORD`] further.
    pub records: AtomicU64,
    /// The first unit that no heap ever had. The unit table is readable up to it.
    pub end: AtomicU32,
    /// The highest number that a heap ever had.
    pub heaps: AtomicU32,
    /// Segments that belong to no heap any more, below `end`.
    pub unowned: AtomicU32,
    /// 1 where the window is only addresses, as the address space is limited.
    pub addresses_only: AtomicU32,
    /// The process's key, with which in-block words are encoded.
    pub key: AtomicU64,
    /// How often the window grew.
    pub growths: AtomicU64,
    /// How often growth was refused by the kernel.
    pub refusals: AtomicU64,
    /// Times that pages were given back.
    pub purges: AtomicU64,
    /// Bytes that were given back, as addresses: not each page was resident.
    pub purged_bytes: AtomicU64,
}

/// What is known of a segment. Written under the arena's lock, or where said.
#[derive(Debug)]
#[repr(C)]
pub struct Segment {
    /// Number of the heap that it belongs to, 0 for none, [`Segment::FOREIGN`] where it is somebody else's memory.
    pub heap: AtomicU16,
    /// 1 where huge pages were asked for. Back end's lock.
    pub huge: AtomicU8,
    /// Nothing.
    pub spare: AtomicU8,
}

impl Segment {
    /// No heap's: something else is mapped there.
    pub const FOREIGN: u16 = u16::MAX;
}

/// Address of the window; 0 until the first call.
static START: AtomicUsize = AtomicUsize::new(0);

/// How far the first call is: the state machine is absent -> being made (by one thread) -> ready, or absent again
/// where there was no memory.
static STATE: AtomicU32 = AtomicU32::new(ABSENT);
const ABSENT: u32 = 0;
const BEING_MADE: u32 = 1;
const READY: u32 = 2;

/// Serves whoever needs more of the window. Last in the order of locks.
static GROWTH: Lock<Growth> = Lock::new(Growth { table_end: 0 });

#[derive(Debug)]
struct Growth {
    /// Bytes of the unit table that are accessible, counted from the window's start.
    table_end: usize,
}

/// Address of the window; 0 before the first call.
#[inline(always)]
pub(crate) fn window() -> usize {
    START.load(Ordering::Relaxed)
}

/// The unit of an address; none outside of the window.
#[inline(always)]
pub(crate) fn unit_of(address: usize) -> Option<UnitIndex> {
    let offset = address.wrapping_sub(window());
    (offset < WINDOW).then_some((offset / UNIT) as UnitIndex)
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

/// The segment of a unit.
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
    debug_assert_ne!(window(), 0);
    // SAFETY: the window starts with it, and it is made of atomics.
    unsafe { &*(window() as *const Directory) }
}

/// Whether a range of the window can be read: of the directory, the segments' table, the records of heaps, the
/// descriptions of units, or units.
pub(crate) fn is_readable(start: usize, length: usize) -> bool {
    let Some(from) = start
        .checked_sub(window())
        .filter(|from| *from < WINDOW && window() != 0)
    else {
        return false;
    };
    let Some(to) = from.checked_add(length).filter(|to| *to <= end() as usize * UNIT) else {
        return false;
    };
    let heaps = directory().heaps.load(Ordering::Acquire) as usize;
    let readable = [
        (0, size_of::<Directory>()),
        (SEGMENTS, RECORDS + heaps * RECORD),
        (UNIT_TABLE, UNIT_TABLE + end() as usize * size_of::<Unit>()),
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

/// Whether the window is there.
pub(crate) fn is_ready() -> bool {
    STATE.load(Ordering::Acquire) == READY
}

/// Makes the window if it is not there, and says whether it is. The thread that makes it runs `make_first` before
/// others see it.
#[inline]
pub(crate) fn prepare(make_first: fn() -> bool) -> bool {
    STATE.load(Ordering::Acquire) == READY || prepare_slowly(make_first)
}

#[cold]
fn prepare_slowly(make_first: fn() -> bool) -> bool {
    loop {
        match STATE.compare_exchange(ABSENT, BEING_MADE, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => {
                settings::read();
                let made = make() && make_first();
                STATE.store(if made { READY } else { ABSENT }, Ordering::Release);
                futex_wake(&STATE, i32::MAX as u32);
                return made;
            }
            Err(READY) => return true,
            Err(_) => futex_wait(&STATE, BEING_MADE, None),
        }
    }
}

/// Finds the window's address and makes the directory, unless an earlier call did and failed later.
fn make() -> bool {
    if window() != 0 {
        return true;
    }
    let limited = address_space::limit().is_some();
    let Some((start, addresses_only)) = (if limited { None } else { reserve() })
        .map(|start| (start, false))
        .or_else(|| find_addresses().map(|start| (start, true)))
    else {
        return false;
    };
    if !addresses_only {
        // Else a system that uses huge pages always would back each block with one.
        let _ = address_space::advise(start, WINDOW, Advice::NoHugePage);
    }
    // SAFETY: `reserve` or `find_addresses` gave the range to this function alone.
    let open = |from: usize, to: usize| unsafe { open(start + from, to - from, addresses_only) };
    // With addresses alone the directory is mapped already.
    if !(addresses_only || open(0, TABLE_STEP))
        || !open(HELPER - HELPER_STACK, HELPER)
        || !open(SEGMENTS, RECORDS)
    {
        return false;
    }
    // SAFETY: the directory's page is accessible, and nobody else knows it.
    let directory = unsafe { &*(start as *const Directory) };
    let word = |at: usize| u64::from_ne_bytes(*MAGIC[at * 8..].first_chunk().expect("16 bytes"));
    let clock = u64::from(plimsoll_os::coarse_milliseconds());
    let key = random_word().unwrap_or((start as u64 ^ clock).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    directory.layout.store(LAYOUT, Ordering::Relaxed);
    directory.unit.store(UNIT as u32, Ordering::Relaxed);
    directory.window.store(start as u64, Ordering::Relaxed);
    directory.window_bytes.store(WINDOW as u64, Ordering::Relaxed);
    directory
        .units
        .store((start + UNIT_TABLE) as u64, Ordering::Relaxed);
    directory
        .segments
        .store((start + SEGMENTS) as u64, Ordering::Relaxed);
    directory
        .records
        .store((start + RECORDS) as u64, Ordering::Relaxed);
    directory.end.store(FIRST_UNIT, Ordering::Relaxed);
    directory
        .addresses_only
        .store(u32::from(addresses_only), Ordering::Relaxed);
    directory.key.store(key, Ordering::Relaxed);
    directory.magic[0].store(word(0), Ordering::Relaxed);
    directory.magic[1].store(word(1), Ordering::Release);
    GROWTH.lock().table_end = UNIT_TABLE + FIRST_UNIT as usize * size_of::<Unit>();
    START.store(start, Ordering::Release);
    true
}

/// Reserves the window, with at least a page in front of it that stays inaccessible: the directory must be at the
/// start of its mapping.
fn reserve() -> Option<usize> {
    let start = address_space::reserve(WINDOW + 2 * SEGMENT).ok()?;
    Some((start + 1).next_multiple_of(SEGMENT))
}

/// Finds a stretch of addresses far below what the kernel hands out, and maps the directory there.
fn find_addresses() -> Option<usize> {
    let near = address_space::map(page_size()).ok()?;
    // SAFETY: the page was mapped a moment ago, only to see where the kernel maps.
    let _ = unsafe { address_space::unmap(near, page_size()) };
    (1..32usize).find_map(|distance| {
        let start = near.checked_sub(distance * 2 * WINDOW)? & !(SEGMENT - 1);
        address_space::map_unused(start, TABLE_STEP).ok().map(|()| start)
    })
}

/// Makes a range of the window readable and writable.
///
/// # Safety
/// The range is of the window, and nobody uses it yet.
unsafe fn open(start: usize, length: usize, addresses_only: bool) -> bool {
    if addresses_only {
        return address_space::map_unused(start, length).is_ok();
    }
    // SAFETY: the caller's premise; the window is mapped.
    unsafe { address_space::make_accessible(start, length) }.is_ok()
}

/// Makes the record of heap `number` accessible; it is zero the first time. False where no memory is left.
pub(crate) fn open_record(number: u32) -> bool {
    let growth = GROWTH.lock();
    let directory = directory();
    if number <= directory.heaps.load(Ordering::Relaxed) {
        return true;
    }
    let only = directory.addresses_only.load(Ordering::Relaxed) != 0;
    // SAFETY: the record is of the control area, and no heap of that number ever was.
    let opened = unsafe { open(record_address(number), RECORD, only) };
    if opened {
        directory.heaps.store(number, Ordering::Release);
    }
    drop(growth);
    opened
}

/// `unit` or the first one after it whose address is a multiple of `align` units, a power of two.
pub(crate) fn align_up(unit: UnitIndex, align: u32) -> Option<UnitIndex> {
    let before = window() / UNIT;
    let aligned = (before + unit as usize).checked_next_multiple_of(align as usize)? - before;
    (aligned < UNITS).then_some(aligned as UnitIndex)
}

/// Visits the first unit of each run of a heap, and what it is. While others change the heap, runs may be missed.
///
/// # Errors
/// What `visit` returns, at once.
pub(crate) fn for_each_run<E>(
    heap: u32,
    mut visit: impl FnMut(UnitIndex, UnitKind) -> Result<(), E>,
) -> Result<(), E> {
    let end = end();
    let mut at = FIRST_UNIT;
    while at < end {
        let length = match belongs(at, heap) {
            true => unit(at).length.load(Ordering::Relaxed),
            false => 0,
        };
        if length == 0 {
            at = (at + 1).next_multiple_of(SEGMENT_UNITS);
            continue;
        }
        visit(at, unit(at).kind())?;
        at += length;
    }
    Ok(())
}

/// Gives back every segment of a heap that is no more.
///
/// # Safety
/// Nobody uses the heap or a block of it.
pub(crate) unsafe fn disown(heap: u32) {
    let growth = GROWTH.lock();
    let end = end();
    let mut at = FIRST_UNIT;
    while at < end {
        let mut last = at;
        while last < end && belongs(last, heap) {
            last += SEGMENT_UNITS;
        }
        if last == at {
            at += SEGMENT_UNITS;
            continue;
        }
        // SAFETY: the caller's premise.
        unsafe { disown_range(at, last) };
        at = last;
    }
    drop(growth);
}

/// # Safety
/// The units are of one heap, and nobody uses it.
unsafe fn disown_range(first: UnitIndex, last: UnitIndex) {
    for at in first..last {
        BUCKET_OF_UNIT[at as usize].store(0, Ordering::Relaxed);
        unit(at).clear();
    }
    let (start, length) = (address_of(first), (last - first) as usize * UNIT);
    // SAFETY: the caller's premise.
    if unsafe { address_space::discard(start, length) }.is_err() {
        // The pages are locked in memory. What reuses segments relies on zeroes.
        // SAFETY: the caller's premise; the range is accessible.
        unsafe { core::ptr::write_bytes(start as *mut u8, 0, length) };
    }
    for at in (first..last).step_by(SEGMENT_UNITS as usize) {
        let segment = segment_of(at);
        segment.heap.store(0, Ordering::Relaxed);
        if segment.huge.swap(0, Ordering::Relaxed) != 0 {
            let _ = address_space::advise(address_of(at), SEGMENT, Advice::NoHugePage);
        }
    }
    let segments = (last - first) / SEGMENT_UNITS;
    directory().unowned.fetch_add(segments, Ordering::Relaxed);
}

/// Keeps the window from growing for the time of a fork.
pub(crate) fn hold() {
    GROWTH.hold();
}

/// Ends what [`hold`] began, in the parent.
///
/// # Safety
/// This thread called `hold`.
pub(crate) unsafe fn release() {
    // SAFETY: the caller's premise.
    unsafe { GROWTH.release() };
}

/// Ends what [`hold`] began, in the child.
///
/// # Safety
/// This thread is the only one, and its parent called `hold`.
pub(crate) unsafe fn free_after_fork() {
    // SAFETY: the caller's premise.
    unsafe { GROWTH.free_after_fork() };
}

/// Whole segments that a heap was given: units that are zero, described by zeroed units.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grown {
    pub(crate) first: UnitIndex,
    pub(crate) units: u32,
}

/// Gives `heap` whole segments of at least `units` units at a multiple of `align` units, and tries for `wanted`.
/// None where no memory is left.
pub(crate) fn grow(heap: u32, units: u32, align: u32, wanted: u32) -> Option<Grown> {
    let whole = |units: u32| units.checked_next_multiple_of(SEGMENT_UNITS);
    let (least, wanted) = (whole(units)?, whole(wanted.max(units))?);
    let mut growth = GROWTH.lock();
    let grown = growth
        .reuse(heap, least, align)
        .or_else(|| growth.extend(heap, wanted, align))
        .or_else(|| {
            (wanted > least)
                .then(|| growth.extend(heap, least, align))
                .flatten()
        });
    let directory = directory();
    let count = if grown.is_some() {
        &directory.growths
    } else {
        &directory.refusals
    };
    count.fetch_add(1, Ordering::Relaxed);
    grown
}

/// Asks for huge pages under segments that a heap was given.
pub(crate) fn use_huge_pages(grown: Grown) {
    let (start, length) = (address_of(grown.first), grown.units as usize * UNIT);
    if address_space::advise(start, length, Advice::HugePage).is_ok() {
        for at in (grown.first..grown.first + grown.units).step_by(SEGMENT_UNITS as usize) {
            segment_of(at).huge.store(1, Ordering::Relaxed);
        }
    }
}

/// Has base pages from now on under segments of which the units are a part only, as that part is about to be given
/// back: a huge page would make it resident again. Back end's lock.
pub(crate) fn leave_huge_pages(first: UnitIndex, units: u32) {
    let end = first + units;
    for inside in [first, end - 1] {
        let start = inside & !(SEGMENT_UNITS - 1);
        let whole = first <= start && start + SEGMENT_UNITS <= end;
        if !whole && segment_of(inside).huge.swap(0, Ordering::Relaxed) != 0 {
            let _ = address_space::advise(address_of(start), SEGMENT, Advice::NoHugePage);
        }
    }
}

impl Growth {
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

    /// Segments that nobody had before.
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
            let last = first.checked_add(units).filter(|last| *last as usize <= UNITS)?;
            if !self.describe(last, only) {
                return None;
            }
            let (start, length) = (address_of(first), units as usize * UNIT);
            // SAFETY: the range is past everything that was ever given out.
            if unsafe { open(start, length, only) } {
                self.skip(end, first, only);
                let grown = self.own(heap, first, units);
                directory.end.store(last, Ordering::Release);
                return Some(grown);
            }
            if !only || address_space::map_unused(start, SEGMENT).is_ok() {
                // It is memory that lacks, not addresses.
                if only {
                    // SAFETY: the segment was mapped a moment ago, and nobody knows of it.
                    let _ = unsafe { address_space::unmap(start, SEGMENT) };
                }
                return None;
            }
            first = first.checked_add(align)?;
        }
    }

    /// Where a limit on address space was set after the window had been reserved, the rest of the reservation is given
    /// up, so that the limit means what it says. False where that failed.
    fn may_grow(&mut self) -> bool {
        #[cfg(test)]
        if !injection::may_grow() {
            return false;
        }
        let directory = directory();
        if directory.addresses_only.load(Ordering::Relaxed) != 0 || address_space::limit().is_none() {
            return true;
        }
        let end = directory.end.load(Ordering::Relaxed) as usize * UNIT;
        let records = RECORDS + directory.heaps.load(Ordering::Relaxed) as usize * RECORD;
        let table = self.table_end;
        directory.addresses_only.store(1, Ordering::Relaxed);
        for (from, to) in [
            (end, WINDOW),
            (table, FIRST_UNIT as usize * UNIT),
            (records, UNIT_TABLE),
        ] {
            // SAFETY: nothing in the range was ever made accessible, so nobody uses it.
            let _ = unsafe { address_space::unmap(window() + from, to - from) };
        }
        true
    }

    /// Makes the unit table accessible up to unit `last`.
    fn describe(&mut self, last: UnitIndex, only: bool) -> bool {
        let needed = UNIT_TABLE + last as usize * size_of::<Unit>();
        let step = needed.saturating_sub(self.table_end).next_multiple_of(TABLE_STEP);
        // SAFETY: the table is the arena's, and nobody knows this part of it yet.
        if step != 0 && !unsafe { open(window() + self.table_end, step, only) } {
            return false;
        }
        self.table_end += step;
        true
    }

    /// The segments from `end` to `first` stay nobody's: for good where their addresses are in use by others.
    fn skip(&mut self, end: UnitIndex, first: UnitIndex, only: bool) {
        for at in (end..first).step_by(SEGMENT_UNITS as usize) {
            // SAFETY: the range is past everything that was ever given out, and below what will be.
            let usable = unsafe { open(address_of(at), SEGMENT, only) };
            let owner = if usable { 0 } else { Segment::FOREIGN };
            segment_of(at).heap.store(owner, Ordering::Relaxed);
            directory()
                .unowned
                .fetch_add(u32::from(usable), Ordering::Relaxed);
        }
    }

    fn own(&mut self, heap: u32, first: UnitIndex, units: u32) -> Grown {
        for at in (first..first + units).step_by(SEGMENT_UNITS as usize) {
            segment_of(at).heap.store(heap as u16, Ordering::Relaxed);
        }
        Grown { first, units }
    }
}

/// Growth that fails when a test says so.
#[cfg(test)]
pub(crate) mod injection {
    extern crate std;

    use core::cell::Cell;

    std::thread_local! {
        static GROWTHS_LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    }

    /// Lets this thread's calls grow the window so many times more; none is without end.
    pub(crate) fn set(left: Option<u32>) {
        GROWTHS_LEFT.set(left);
    }

    pub(super) fn may_grow() -> bool {
        let left = GROWTHS_LEFT.get();
        GROWTHS_LEFT.set(left.map(|left| left.saturating_sub(1)));
        left != Some(0)
    }
}
