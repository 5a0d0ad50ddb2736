//! Blocks larger than any bucket's, and those aligned to more than a unit: runs of their own.
//!
//! Short ones come from the run cache, and long ones from free extents, so most come and go without a system call.
//! Memory that is zero already is not cleared again; a growing block extends into its right neighbour if that is free,
//! or moves by its pages instead of its bytes if it is long.
//!
//! Premises of the unsafe code: a run belongs to the caller that took it, from its first to its last byte.
#![allow(unsafe_code)]

use core::ptr;
use core::sync::atomic::Ordering;

use plimsoll_os::{Errno, read_other, this_process};

use crate::arena::{self, SEGMENT, UNITS};
use crate::backend::{Backend, Run};
use crate::front_end::{Idle, LowFragmentation};
use crate::integrity;
use crate::memory;
use crate::moves::MOVES;
use crate::pages;
use crate::purge;
use crate::run_cache::RunCache;
use crate::unit::{UNIT, UnitIndex, UnitKind};

/// Blocks of so many bytes move by their pages. Below that, copying costs less than the page faults of the place that
/// is left behind: a block grown to 4 MiB by half of its size at a time took 20 us a step, and 50 with all from 1 MiB moved.
const MOVED_BY_PAGES: usize = 2 * SEGMENT;
/// A block of at least this size has a gap of at least one byte behind it, unless `realloc` grows the block into the
/// gap. NumPy treats arrays that touch as overlapping, and computes them element by element: `numpy.exp` of 1 MiB took
/// 730 us instead of 82. If the size is a multiple of a unit, the gap is a whole unit. For a shorter block, that
/// would be more than a sixteenth of the block.
const WITH_GAP: usize = 256 << 10;
/// To zero more bytes than this, their pages return to the kernel: only pages that the program writes to become
/// resident again.
const ZEROED_BY_DISCARD: usize = 256 << 10;

/// Where the runs of a heap's large blocks come from and go to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Runs<'r> {
    pub(crate) backend: &'r Backend,
    pub(crate) cache: &'r RunCache,
    pub(crate) front: &'r LowFragmentation,
}

impl Runs<'_> {
    fn take(self, units: u32, align: u32) -> Option<Run> {
        if align == 1
            && let Some(first) = self.cache.take(self.front, units)
        {
            return Some(Run {
                first,
                touched: units,
            });
        }
        let take = || self.backend.take(units, align, UnitKind::Large);
        take().or_else(|| {
            // Caches may hold the missing memory.
            self.flush_caches();
            take()
        })
    }

    /// Frees the free memory in slots, buckets and the run cache to the back end. This thread holds no lock.
    pub(crate) fn flush_caches(self) {
        // The first pass gives up active subsegments.
        for _ in 0..2 {
            self.front.flush_idle(self.backend, Idle::All);
        }
        self.cache.flush(self.backend, true);
    }

    fn free(self, first: UnitIndex) {
        if !self.cache.put(self.backend, self.front, first) {
            purge::count_slow_call();
            self.backend.free(first);
        }
    }
}

/// Units that hold `size` bytes; none if the window does not.
fn units_for(size: usize) -> Option<u32> {
    let units = size.div_ceil(UNIT).max(1);
    (units < UNITS).then_some(units as u32)
}

/// Units that hold `size` bytes and, for a long block, the gap behind them. A block aligned to more than a unit has no
/// gap: with one, the next such block would begin a whole alignment later.
fn units_with_gap(size: usize, align: usize) -> Option<u32> {
    let gap = size >= WITH_GAP && align <= UNIT;
    units_for(size.checked_add(usize::from(gap))?)
}

/// Units that `align` bytes, a power of two, are; none if the window is not that long.
fn units_of_align(align: usize) -> Option<u32> {
    let units = align.div_ceil(UNIT);
    (units < UNITS).then(|| units.max(1) as u32)
}

/// A block of `size` bytes at a multiple of `align`, a power of two; null if no memory is left.
pub(crate) fn allocate(runs: Runs<'_>, size: usize, align: usize) -> *mut u8 {
    take(runs, size, align).map_or(ptr::null_mut(), |(block, _)| block)
}

/// A block as of [`allocate`], of a run that was not cached, and with all bytes of the run requested until
/// [`note_requested`] sets another number.
pub(crate) fn allocate_uncached(backend: &Backend, size: usize, align: usize) -> *mut u8 {
    let run = units_for(size)
        .zip(units_of_align(align))
        .and_then(|(units, align)| Some((backend.take(units, align, UnitKind::Large)?, units)));
    run.map_or(ptr::null_mut(), |(run, units)| {
        block_of(run, units, units as usize * UNIT)
    })
}

/// A block of `size` bytes that are zero, at a multiple of `align`.
pub(crate) fn allocate_zeroed(runs: Runs<'_>, size: usize, align: usize) -> *mut u8 {
    let Some((block, touched)) = take(runs, size, align) else {
        return ptr::null_mut();
    };
    // SAFETY: the run was just taken, and is that long.
    unsafe { zero(block, touched.min(size)) };
    block
}

pub(crate) fn free(runs: Runs<'_>, first: UnitIndex) {
    runs.free(first);
}

/// A block, and the bytes from its start that may hold anything.
fn take(runs: Runs<'_>, size: usize, align: usize) -> Option<(*mut u8, usize)> {
    let align_units = units_of_align(align)?;
    let take = |units: u32| Some((runs.take(units, align_units)?, units));
    // The last free run may be long enough for the block alone.
    let (run, units) = units_with_gap(size, align)
        .and_then(take)
        .or_else(|| take(units_for(size)?))?;
    Some((block_of(run, units, size), run.touched as usize * UNIT))
}

/// The block of `size` bytes that a run becomes.
fn block_of(run: Run, units: u32, size: usize) -> *mut u8 {
    note_size(run.first, units, size);
    arena::address_of(run.first) as *mut u8
}

/// # Safety
/// The bytes are the caller's, from the start of a unit on, and in accessible units to the last one's end.
unsafe fn zero(block: *mut u8, bytes: usize) {
    let whole = bytes.next_multiple_of(UNIT);
    // SAFETY: the caller's premise.
    if bytes < ZEROED_BY_DISCARD || !unsafe { pages::make_zero(block as usize, whole) } {
        // SAFETY: the caller's premise.
        unsafe { ptr::write_bytes(block, 0, bytes) };
    }
}

/// Bytes of the run of a large block at an address.
pub(crate) fn run_bytes(block: usize) -> usize {
    arena::unit_of(block).map_or(0, usable_size)
}

/// Notes that `size` bytes were asked for of the large block at an address.
pub(crate) fn note_requested(block: usize, size: usize) {
    if let Some(first) = arena::unit_of(block) {
        let units = arena::unit(first).length.load(Ordering::Relaxed);
        note_size(first, units, size);
    }
}

/// Bytes that were asked for of the large block at an address.
pub(crate) fn requested(block: usize) -> usize {
    arena::unit_of(block).map_or(0, |first| {
        usable_size(first) - arena::unit(first).slack.load(Ordering::Relaxed) as usize
    })
}

fn note_size(first: UnitIndex, units: u32, size: usize) {
    let slack = (units as usize * UNIT).saturating_sub(size);
    // A reader from outside finds the canary that was written before.
    arena::unit(first).slack.store(slack as u32, Ordering::Release);
}

/// Bytes of the block that starts at the unit.
pub(crate) fn usable_size(first: UnitIndex) -> usize {
    arena::unit(first).length.load(Ordering::Relaxed) as usize * UNIT
}

/// Makes the block `size` bytes long, more than any bucket's. Null if no memory is left: the block stays as it was.
///
/// # Safety
/// A large block in use starts at the unit; the caller uses the returned block instead, unless it is null.
pub(crate) unsafe fn reallocate(runs: Runs<'_>, first: UnitIndex, size: usize) -> *mut u8 {
    let block = arena::address_of(first) as *mut u8;
    let length = arena::unit(first).length.load(Ordering::Relaxed);
    let Some(needed) = units_for(size) else {
        return ptr::null_mut();
    };
    let mut units = units_with_gap(size, UNIT).unwrap_or(needed);
    if needed <= length {
        // The run is long enough for the block, though perhaps not for its gap: the block stays. Only growth beyond the
        // run may move the block, or fail.
        units = units.min(length);
    }
    if units < length {
        runs.backend.shorten(first, units);
    }
    let extended = |units| (runs.backend.extend(first, units).is_some()).then_some(units);
    let in_place = match units <= length {
        true => Some(units),
        false => extended(units).or_else(|| extended(needed)),
    };
    if let Some(units) = in_place {
        note_size(first, units, size);
        return block;
    }
    let old = length as usize * UNIT;
    // SAFETY: the caller's premise.
    let moved = unsafe {
        match memory::is_managed() {
            true => move_in_pieces(runs, first, old, size),
            false => move_by_pages(runs, first, old, size),
        }
    };
    if !moved.is_null() {
        return moved;
    }
    let new = allocate(runs, size, UNIT);
    if !new.is_null() {
        // SAFETY: the old block has that many bytes, the new one more, and no other thread uses either.
        unsafe { ptr::copy_nonoverlapping(block, new, old) };
        runs.free(first);
    }
    new
}

/// Moves the block's pages to a new run of `size` bytes. Null if that cannot be: the block stays as it was.
///
/// # Safety
/// As for [`reallocate`].
unsafe fn move_by_pages(runs: Runs<'_>, first: UnitIndex, old: usize, size: usize) -> *mut u8 {
    if old < MOVED_BY_PAGES || pages::page_units() > 1 || !MOVES.take() {
        return ptr::null_mut();
    }
    let Some((new, _)) = take(runs, size, UNIT) else {
        return ptr::null_mut();
    };
    let mark = integrity::canary(new as usize);
    // SAFETY: both runs are whole units in the window, the caller's and the one just taken.
    let error = unsafe {
        new.cast::<u64>().write(mark);
        match memory::move_pages(arena::address_of(first), new as usize, old) {
            Ok(()) => {
                MOVES.note(true);
                let length = arena::unit(first).length.load(Ordering::Relaxed);
                if arena::has_huge_pages(first, length) {
                    // The advice for huge pages moved along.
                    memory::use_base_pages(new as usize, old);
                }
                runs.backend.free_untouched(first);
                return new;
            }
            Err(error) => error,
        }
    };
    // Parts of the block were moved before, from elsewhere, or the kernel cannot at all: not to be tried for long.
    MOVES.note(false);
    if error == Errno::INVAL || is_ours(new as usize, old, mark) {
        // SAFETY: the run was taken above, is mapped, and no other thread knows it.
        unsafe { ptr::copy_nonoverlapping(arena::address_of(first) as *const u8, new, old) };
        runs.free(first);
        return new;
    }
    let new = arena::unit_within(new as usize);
    arena::lose(new, arena::unit(new).length.load(Ordering::Relaxed));
    ptr::null_mut()
}

/// Moves the block to a new run of `size` bytes, a piece at a time that is discarded right after: the block takes no more
/// memory than before. Null if that cannot be: the block stays as it was.
///
/// # Safety
/// As for [`reallocate`].
unsafe fn move_in_pieces(runs: Runs<'_>, first: UnitIndex, old: usize, size: usize) -> *mut u8 {
    if old < MOVED_BY_PAGES || pages::page_units() > 1 {
        return ptr::null_mut();
    }
    let Some((new, _)) = take(runs, size, UNIT) else {
        return ptr::null_mut();
    };
    let start = arena::address_of(first);
    let mut untouched = true;
    for at in (0..old).step_by(SEGMENT) {
        let length = SEGMENT.min(old - at);
        // SAFETY: both runs are whole units in the window, the caller's and the one just taken, which is longer.
        unsafe {
            ptr::copy_nonoverlapping((start + at) as *const u8, new.add(at), length);
            untouched &= memory::discard(start + at, length).is_ok();
        }
    }
    match untouched {
        true => runs.backend.free_untouched(first),
        false => runs.free(first),
    }
    new
}

/// Whether a range is the heap's whose first word was `mark` before the kernel could not move others there: it may have
/// unmapped the range before it found that. Then another thread may have mapped something there since, which is as
/// readable and as long as it likes; otherwise the range is mapped again.
fn is_ours(start: usize, length: usize, mark: u64) -> bool {
    let mut word = [0; size_of::<u64>()];
    // Nothing may be there: so the kernel reads it.
    let read = read_other(this_process(), start, &mut word);
    (read == Ok(word.len()) && word == mark.to_ne_bytes()) || arena::map_piece(start, length).is_ok()
}

#[cfg(test)]
mod tests {
    use std::string::String;

    use plimsoll_os::address_space;

    use super::*;
    use crate::arena::{SEGMENT_UNITS, Segment, injection};
    use crate::backend::tests;
    use crate::record;
    use plimsoll_testkit::is_emulated_without;

    use crate::{Heap, HeapOptions};

    fn bytes_of<'b>(start: usize, length: usize) -> &'b mut [u8] {
        // SAFETY: the range is this test's, and accessible.
        unsafe { core::slice::from_raw_parts_mut(start as *mut u8, length) }
    }

    /// The kernel may unmap the target of moved pages and move none, and other code may map memory there before the
    /// heap looks: a mapping of the same length counted as the heap's own and was overwritten.
    #[test]
    fn foreign_mappings_are_not_taken_for_the_heaps() {
        if is_emulated_without("process_vm_readv(2)") {
            return;
        }
        let length = 2 * SEGMENT;
        let start = address_space::map(length).expect("there is memory");
        let mark = integrity::canary(start);
        bytes_of(start, 8).copy_from_slice(&mark.to_ne_bytes());
        assert!(is_ours(start, length, mark), "nothing happened");
        // SAFETY: mapped above.
        unsafe { address_space::unmap(start, length) }.expect("it is mapped");
        assert!(is_ours(start, length, mark), "no mapping came");
        assert!(bytes_of(start, length).iter().all(|byte| *byte == 0));
        bytes_of(start, length).fill(7);
        assert!(!is_ours(start, length, mark), "these are another's");
        // SAFETY: mapped by `is_ours`.
        unsafe { address_space::unmap(start, SEGMENT) }.expect("it is mapped");
        assert!(!is_ours(start, length, mark), "another has a part");
        // SAFETY: as above.
        unsafe { address_space::unmap(start + SEGMENT, SEGMENT) }.expect("it is mapped");
    }

    /// NumPy computed arrays in touching blocks element by element: `exp` was eight times slower.
    #[test]
    fn long_blocks_do_not_touch() {
        let heap = Heap::new(HeapOptions::default()).expect("there is memory");
        let size = |number: usize| WITH_GAP + number % 3 * UNIT;
        let mut blocks: std::vec::Vec<(usize, usize)> = (0..60)
            .map(|number| (heap.allocate(size(number)) as usize, size(number)))
            .collect();
        for (number, (block, size)) in blocks
            .iter_mut()
            .enumerate()
            .filter(|(number, _)| number % 2 == 0)
        {
            *size += (2 + number % 3) * UNIT;
            // SAFETY: the block is in use, and only this statement changes its address.
            *block = unsafe { heap.reallocate(*block as *mut u8, *size) } as usize;
        }
        blocks.sort_unstable();
        for pair in blocks.windows(2) {
            assert!(pair[0].0 + pair[0].1 < pair[1].0, "{pair:x?}");
        }
    }

    /// `realloc` moved a block without a gap, or failed without free memory, although the run was long enough.
    #[test]
    fn a_block_that_is_long_enough_stays_where_it_is() {
        let heap = Heap::new(HeapOptions::default()).expect("there is memory");
        let grown = heap.allocate(WITH_GAP) as usize;
        // SAFETY: the block is in use.
        let usable = unsafe { heap.usable_size(grown as *const u8) };
        let aligned = heap.allocate_aligned(SEGMENT, 2 * SEGMENT) as usize;
        let backend = record::of(heap.number()).expect("the heap lives").backend();
        injection::set(Some(0));
        while backend.take(1, 1, UnitKind::Large).is_some() {}
        for (block, size) in [(grown, usable), (aligned, 2 * SEGMENT)] {
            for _ in 0..3 {
                // SAFETY: the block is in use.
                let same = unsafe { heap.reallocate(block as *mut u8, size) };
                assert_eq!(same as usize, block, "{size}");
            }
        }
        injection::set(None);
    }

    /// A block, and growth in place, failed if the last free run had no unit for the gap.
    #[test]
    fn the_last_free_run_holds_a_block_without_a_gap() {
        let heap = Heap::new(HeapOptions::default()).expect("there is memory");
        let grown = heap.allocate(WITH_GAP - UNIT);
        let extent = heap.allocate_aligned(SEGMENT, SEGMENT);
        let backend = record::of(heap.number()).expect("the heap lives").backend();
        injection::set(Some(0));
        let mut last = ptr::null_mut();
        while let Some(run) = backend.take(1, 1, UnitKind::Large) {
            last = arena::address_of(run.first) as *mut u8;
        }
        assert!(!last.is_null());
        // SAFETY: the block is in use, and this is its last use.
        unsafe { heap.free(extent) };
        let again = heap.allocate(SEGMENT);
        assert_eq!(
            again, extent,
            "a segment is free, and the gap would need a unit more"
        );
        let first = arena::unit_of(grown as usize).expect("it is in the window");
        let behind = first + arena::unit(first).length.load(Ordering::Relaxed);
        assert_eq!(arena::unit(behind).kind(), UnitKind::Large, "taken above");
        backend.free(behind);
        // SAFETY: the block is in use.
        let same = unsafe { heap.reallocate(grown, WITH_GAP) };
        assert_eq!(
            same, grown,
            "a unit behind it is free, and the gap would need another one"
        );
        injection::set(None);
    }

    /// A heap that ends clears its segments and returns them to the kernel.
    #[test]
    fn foreign_mappings_outlive_the_heap() {
        let heap = Heap::new(HeapOptions::default()).expect("there is memory");
        let length = 3 * SEGMENT;
        let block = heap.allocate(length) as usize;
        let first = arena::unit_of(block).expect("it is in the window");
        arena::lose(first, 3 * SEGMENT_UNITS);
        bytes_of(block, length).fill(9);
        drop(heap);
        assert!(bytes_of(block, length).iter().all(|byte| *byte == 9));
        for unit in [first, first + 3 * SEGMENT_UNITS - 1] {
            assert_eq!(arena::unit(unit).kind(), UnitKind::Nothing);
            let owner = arena::segment_of(unit).heap.load(Ordering::Relaxed);
            assert_eq!(owner, Segment::FOREIGN);
        }
    }

    /// The flags of the mapping at an address, as the kernel names them.
    fn flags_of(address: usize) -> String {
        let text = std::fs::read_to_string("/proc/self/smaps").expect("there is /proc");
        let mut found = false;
        for line in text.lines() {
            let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
            let ends = range.and_then(|(start, end)| {
                Some((
                    usize::from_str_radix(start, 16).ok()?,
                    usize::from_str_radix(end, 16).ok()?,
                ))
            });
            if let Some((start, end)) = ends {
                found = (start..end).contains(&address);
            } else if let (true, Some(flags)) = (found, line.strip_prefix("VmFlags:")) {
                return flags.into();
            }
        }
        panic!("nothing is mapped at {address:#x}");
    }

    /// Resident pages of a range.
    fn resident(start: usize, length: usize) -> usize {
        use std::io::{Read, Seek, SeekFrom};

        let mut file = std::fs::File::open("/proc/self/pagemap").expect("there is /proc");
        file.seek(SeekFrom::Start((start / 4096 * 8) as u64))
            .expect("a place");
        let mut entries = std::vec![0; length / 4096 * 8];
        file.read_exact(&mut entries).expect("an entry for each page");
        let present = |entry: &&[u8]| entry[7] & 0x80 != 0;
        entries.chunks_exact(8).filter(present).count()
    }

    /// Leaves the heap one extent of `length` bytes as its free memory. Heaps of other tests take segments between those of
    /// a heap: then the next block may be in another extent, and a block grew in its place instead of moving.
    fn leave_one_extent(heap: &Heap, length: usize) {
        let extent = heap.allocate(length);
        assert!(!extent.is_null());
        let backend = record::of(heap.number()).expect("the heap lives").backend();
        injection::set(Some(0));
        while backend.take(1, 1, UnitKind::Large).is_some() {}
        injection::set(None);
        // SAFETY: the block is in use.
        unsafe { heap.free(extent) };
    }

    /// 8,192 moves were all that a process had in its life: from then on each realloc of a large block copied it.
    #[test]
    fn a_process_that_moved_many_blocks_moves_more() {
        if is_emulated_without("mremap(2) that leaves the old range mapped") || pages::page_units() > 1 {
            return;
        }
        const MOVED: usize = 9000;
        let heap = Heap::new(HeapOptions::default()).expect("there is memory");
        let length = MOVED_BY_PAGES;
        leave_one_extent(&heap, 4 * length);
        for number in 0..MOVED {
            let block = heap.allocate(length);
            // Behind it, so that the block cannot grow in its place.
            let wall = heap.allocate(300_000);
            // SAFETY: the blocks are in use, and that long.
            unsafe {
                block.write(1);
                block.add(length - 1).write(1);
                let moved = heap.reallocate(block, 2 * length);
                assert_ne!(moved, block);
                if number + 1 == MOVED {
                    assert_eq!(
                        resident(moved as usize, length),
                        2,
                        "a copy would have touched each page"
                    );
                }
                heap.free(moved);
                heap.free(wall);
            }
        }
    }

    /// Where huge pages were requested, the kernel takes that along with the pages, to where the heap does not know it.
    #[test]
    fn huge_pages_do_not_move_along() {
        if is_emulated_without("advice on huge pages") {
            return;
        }
        let heap = Heap::new(HeapOptions::default()).expect("there is memory");
        let record = record::of(heap.number()).expect("the heap lives");
        let backend = record.backend();
        let filled = backend.take(8 * SEGMENT_UNITS, 1, UnitKind::Large);
        assert!(filled.is_some());
        // Of the segments that small blocks leave, the last one still has one of them.
        let take = |units| {
            backend
                .take(units, 1, UnitKind::Subsegment)
                .expect("there is memory")
        };
        let length = 3 * SEGMENT_UNITS - 8;
        let (freed, small) = (take(length), take(8));
        backend.free(freed.first);
        if !tests::has_huge_pages(small.first) {
            return;
        }
        let bytes = length as usize * UNIT - 8; // as long as the free run, including the gap
        assert!(bytes >= MOVED_BY_PAGES);
        let block = heap.allocate(bytes);
        assert!(arena::has_huge_pages(arena::unit_within(block as usize), length));
        bytes_of(block as usize, bytes).fill(5);
        let moves = MOVES.left();
        // SAFETY: the block is in use.
        let moved = unsafe { heap.reallocate(block, 8 * SEGMENT) };
        assert_ne!(moved, block);
        assert!(MOVES.left() < moves, "it moved by its pages");
        assert!(bytes_of(moved as usize, bytes).iter().all(|byte| *byte == 5));
        let flags = flags_of(moved as usize + bytes - 1);
        assert!(flags.contains("nh") && !flags.contains("hg"), "{flags}");
        backend.free(small.first);
    }
}
