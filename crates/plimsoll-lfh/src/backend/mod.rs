//! A heap's back end: extents of whole units, coalesced, best fit, under one lock.
//!
//! A free extent may have been written to at its start (`touched`) and is zero from there on; the purge returns memory
//! that was touched long ago to the kernel. [`Unit`] describes runs and states their invariants.

mod bins;
mod check;
#[cfg(test)]
pub(crate) mod tests;

use core::sync::atomic::Ordering;

pub(crate) use self::bins::Bins;
use crate::arena::{self, SEGMENT_UNITS};
use crate::integrity::{self, Damage};
use crate::lock::{Held, Lock};
use crate::pages;
use crate::purge::{self, THRESHOLD};
use crate::settings;
use crate::unit::{UNIT, Unit, UnitIndex, UnitKind};

/// A growing heap takes this part of its size at once...
const GROWTH_SHARE: u32 = 8;
/// ... but at most so many units: 64 MiB.
const MOST_GROWTH: u32 = 32 * SEGMENT_UNITS;

/// A heap of so many units, 16 MiB, grows by huge pages...
const HUGE_FROM: u32 = 8 * SEGMENT_UNITS;
/// ... for small blocks, if this part of it at most is free.
const HUGE_SHARE: u32 = 8;

/// A growing heap purges free and touched units beyond this part of its size.
const CROWDED_SHARE: u32 = 32;

/// Units of one purge: 4 MiB. The rest of a longer extent stays free. A fork waits for one purge, of about half a
/// millisecond; the call itself is a hundredth of it.
pub(crate) const MOST_PURGED: u32 = 2 * SEGMENT_UNITS;

/// Units that were taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: UnitIndex,
    /// Units from its start that may hold anything; the others are zero.
    pub(crate) touched: u32,
}

/// The back end of a heap. Zeroed memory is none yet: [`Backend::begin`] makes it one without memory. Cache lines of
/// its own, as unrelated calls read its neighbours.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Backend {
    pub(crate) extents: Lock<Extents>,
}

/// The data under the lock. Counts are units unless noted.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Extents {
    heap: u32,
    /// Units of the heap's segments.
    pub(crate) owned: u32,
    /// Units of free extents.
    pub(crate) free: u32,
    pub(crate) free_extents: u32,
    /// Units of free extents that may be resident.
    pub(crate) touched: u32,
    /// Times the heap took segments.
    pub(crate) growths: u32,
    pub(crate) bins: Bins,
}

impl Backend {
    /// Makes a zeroed back end that of a heap, without memory.
    pub(crate) fn begin(&self, heap: u32) {
        let mut extents = self.extents.lock();
        *extents = Extents {
            heap,
            owned: 0,
            free: 0,
            free_extents: 0,
            touched: 0,
            growths: 0,
            bins: Bins::new(),
        };
    }

    /// The lock, whose contention is counted, and which a fork holds.
    pub(crate) fn lock(&self) -> &Lock<Extents> {
        &self.extents
    }

    pub(crate) fn extents(&self) -> Held<'_, Extents> {
        self.extents.lock()
    }

    /// Takes a run of `units` units that starts at a multiple of `align` units, a power of two. None if no memory
    /// is left. Fields of its description that are not the back end's are 0.
    pub(crate) fn take(&self, units: u32, align: u32, kind: UnitKind) -> Option<Run> {
        let mut extents = self.extents();
        if let Some(run) = extents.take_free(units, align, kind) {
            return Some(run);
        }
        extents.grow(units, align, kind)?;
        extents.take_free(units, align, kind)
    }

    /// Whether so many free units are touched that some return to the kernel when the heap takes others.
    pub(crate) fn is_crowded(&self) -> bool {
        self.extents().is_crowded()
    }

    /// Frees a whole run.
    pub(crate) fn free(&self, first: UnitIndex) {
        let mut extents = self.extents();
        extents.free_run(first);
        request_purge(extents);
    }

    /// Frees whole runs that were unused for so many periods of the purge.
    pub(crate) fn free_cached(&self, runs: &[UnitIndex], periods: u32) {
        if runs.is_empty() {
            return;
        }
        let mut extents = self.extents();
        let since = extents.bins.period() - periods;
        for first in runs {
            extents.check_own(*first, |kind| kind == UnitKind::Cached);
            let length = extents.forget(*first);
            extents.put(*first, length, length, since);
        }
        request_purge(extents);
    }

    /// Frees a whole run whose pages returned to the kernel already.
    pub(crate) fn free_untouched(&self, first: UnitIndex) {
        let mut extents = self.extents();
        extents.check_own(first, is_in_use);
        let length = extents.forget(first);
        extents.put(first, length, 0, 0);
    }

    /// Uses base pages from now on under units of a run in use, before a part of it returns to the kernel.
    pub(crate) fn leave_huge_pages(&self, first: UnitIndex, units: u32) {
        if arena::segment_of(first).huge.load(Ordering::Relaxed) != 0 {
            let _extents = self.extents();
            arena::leave_huge_pages(first, units);
        }
    }

    /// Lengthens a run in use to `units` units where its right neighbour is free. Returns its units that may hold
    /// anything, as [`Run::touched`] does.
    pub(crate) fn extend(&self, first: UnitIndex, units: u32) -> Option<u32> {
        self.extents().extend(first, units)
    }

    /// Purges an extent that is free for more than a period, or any if `all`; of a long one at most `most` units. Returns
    /// the purged units: 0 if there is nothing to purge, or all of it is locked.
    ///
    /// A fork in the middle of it would lose the extent to the child: the caller holds a lock that keeps one from beginning.
    #[allow(unsafe_code)]
    pub(crate) fn purge_one(&self, all: bool, most: u32) -> u32 {
        let Some((first, units)) = self.extents().begin_purge(all, most) else {
            return 0;
        };
        let length = units as usize * UNIT;
        // SAFETY: the run is free, and no thread takes it before `end_purge`.
        let goes_on = unsafe { purge::return_pages(arena::address_of(first), length) };
        self.extents().end_purge(first);
        if goes_on { units } else { 0 }
    }

    /// Shortens a run in use to its first `units` units.
    pub(crate) fn shorten(&self, first: UnitIndex, units: u32) {
        let mut extents = self.extents();
        extents.shorten(first, units);
        request_purge(extents);
    }
}

/// Has the purge look after extents, unlocked, of which much is touched now.
fn request_purge(extents: Held<'_, Extents>) {
    let much = extents.touched > THRESHOLD;
    drop(extents);
    if much {
        purge::request_helper();
    }
}

/// Whether a run of that kind is in use.
fn is_in_use(kind: UnitKind) -> bool {
    matches!(kind, UnitKind::Subsegment | UnitKind::Large | UnitKind::Standard)
}

impl Extents {
    fn is_crowded(&self) -> bool {
        self.touched > THRESHOLD.max(self.owned / CROWDED_SHARE)
    }

    fn take_free(&mut self, units: u32, align: u32, kind: UnitKind) -> Option<Run> {
        let extent = self.bins.find(units, align)?;
        let start = arena::align_up(extent, align)?;
        let (length, touched, since) = self.remove(extent);
        let before = start - extent;
        if before != 0 {
            self.insert(extent, before, touched.min(before), since);
        }
        let after = length - before - units;
        let touched = touched.saturating_sub(before);
        if after != 0 {
            self.insert(start + units, after, touched.saturating_sub(units), since);
        }
        if kind != UnitKind::Subsegment {
            arena::use_base_pages(start..start + units, extent..extent + length);
        }
        self.describe(start, units, kind);
        Some(Run {
            first: start,
            touched: touched.min(units),
        })
    }

    fn grow(&mut self, units: u32, align: u32, kind: UnitKind) -> Option<()> {
        let huge = kind == UnitKind::Subsegment && self.is_full_enough_for_huge_pages();
        let wanted = match huge {
            true => units,
            false => (self.owned / GROWTH_SHARE).min(MOST_GROWTH),
        };
        let grown = arena::grow(self.heap, units, align, wanted)?;
        if huge {
            arena::use_huge_pages(grown);
        }
        self.owned += grown.units;
        self.growths += 1;
        self.put(grown.first, grown.units, 0, 0);
        Some(())
    }

    /// Whether the heap is mostly in use, and so large that it will use one more huge page: each is resident as a whole
    /// after the first write to it.
    fn is_full_enough_for_huge_pages(&self) -> bool {
        self.owned >= HUGE_FROM && self.free <= self.owned / HUGE_SHARE && settings::huge_pages()
    }

    pub(crate) fn free_run(&mut self, first: UnitIndex) {
        self.check_own(first, is_in_use);
        let length = self.forget(first);
        self.put(first, length, length, self.bins.period());
    }

    fn extend(&mut self, first: UnitIndex, units: u32) -> Option<u32> {
        self.check_own(first, is_in_use);
        let unit = arena::unit(first);
        let length = unit.length.load(Ordering::Relaxed);
        let right = first + length;
        let missing = units - length;
        if !self.is_free(right) || arena::unit(right).length.load(Ordering::Relaxed) < missing {
            return None;
        }
        let (free, touched, since) = self.remove(right);
        if free > missing {
            self.insert(
                right + missing,
                free - missing,
                touched.saturating_sub(missing),
                since,
            );
        }
        arena::use_base_pages(right..right + missing, right..right + free);
        unit.length.store(units, Ordering::Relaxed);
        Some(length + touched.min(missing))
    }

    fn shorten(&mut self, first: UnitIndex, units: u32) {
        self.check_own(first, is_in_use);
        let unit = arena::unit(first);
        let length = unit.length.load(Ordering::Relaxed);
        unit.length.store(units, Ordering::Relaxed);
        self.put(first + units, length - units, length - units, self.bins.period());
    }

    /// Takes an extent to purge, or the last part of a long one, of at most `most` units: first unit and units. No
    /// other thread takes it before [`Extents::end_purge`], and the lock is free meanwhile.
    pub(crate) fn begin_purge(&mut self, all: bool, most: u32) -> Option<(UnitIndex, u32)> {
        let first = if all {
            self.bins.touched()
        } else {
            self.bins.oldest()
        }?;
        let (length, touched, since) = self.remove(first);
        // Of the last page the other units are free and zero: they go with it. A huge one became resident as a whole.
        let page = pages::page_units();
        let most = most.max(page);
        let end = first + length;
        let last_page = match arena::has_huge_pages(first + touched - 1, 1) {
            true => SEGMENT_UNITS,
            false => page,
        };
        let purged_end = end.min((first + touched).next_multiple_of(last_page));
        let purged = match purged_end - first > most {
            true => (purged_end - most).next_multiple_of(page),
            false => first,
        };
        let (before, units) = (purged - first, purged_end - purged);
        if before != 0 {
            self.insert(first, before, before, since);
        }
        if end != purged_end {
            self.insert(purged_end, end - purged_end, 0, 0);
        }
        arena::leave_huge_pages(first + before, units);
        self.describe(first + before, units, UnitKind::Busy);
        Some((first + before, units))
    }

    /// Frees the extent of [`Extents::begin_purge`], which is zero now.
    pub(crate) fn end_purge(&mut self, first: UnitIndex) {
        let length = self.forget(first);
        self.put(first, length, 0, 0);
    }

    /// Writes the description of a run in use.
    fn describe(&self, first: UnitIndex, length: u32, kind: UnitKind) {
        let unit = arena::unit(first);
        self.mark(unit, first, kind);
        unit.length.store(length, Ordering::Relaxed);
        if matches!(kind, UnitKind::Subsegment | UnitKind::Standard) {
            for inner in first + 1..first + length {
                self.mark(arena::unit(inner), first, kind);
            }
        }
    }

    fn mark(&self, unit: &Unit, first: UnitIndex, kind: UnitKind) {
        unit.heap.store(self.heap, Ordering::Relaxed);
        unit.first.store(first, Ordering::Relaxed);
        unit.kind.store(kind as u8, Ordering::Relaxed);
    }

    /// Ends the process if no run of this heap of such a kind begins at the unit: the program freed a block in another
    /// heap than its own, or freed it twice. Before this thread held the lock, another thread may have been about to do
    /// the same.
    fn check_own(&self, first: UnitIndex, is_due: impl Fn(UnitKind) -> bool) {
        let unit = arena::unit(first);
        let damage = if !is_due(unit.kind()) || unit.first.load(Ordering::Relaxed) != first {
            Damage::DoubleFree
        } else if unit.heap.load(Ordering::Relaxed) != self.heap {
            Damage::OtherHeap
        } else {
            return;
        };
        integrity::report(damage, arena::address_of(first), None);
    }

    /// Clears the description of a run that was in use, and returns its length.
    fn forget(&self, first: UnitIndex) -> u32 {
        let unit = arena::unit(first);
        let length = unit.length.load(Ordering::Relaxed);
        let described = match unit.kind() {
            UnitKind::Subsegment | UnitKind::Standard => length,
            _ => 1,
        };
        for unit in first..first + described {
            arena::unit(unit).clear();
        }
        length
    }

    /// Whether a free extent of this heap starts at the unit.
    fn is_free(&self, unit: UnitIndex) -> bool {
        arena::belongs(unit, self.heap) && {
            let description = arena::unit(unit);
            description.kind() == UnitKind::Free && description.first.load(Ordering::Relaxed) == unit
        }
    }

    /// The free extent of this heap that ends in front of the unit.
    fn left_of(&self, unit: UnitIndex) -> Option<UnitIndex> {
        let last = unit - 1;
        (arena::belongs(last, self.heap) && arena::unit(last).kind() == UnitKind::Free)
            .then(|| arena::unit(last).first.load(Ordering::Relaxed))
    }

    /// Makes units, which no description names, a free extent together with its free neighbours. The whole is as
    /// long free as the part that is so for longest.
    pub(crate) fn put(&mut self, first: UnitIndex, length: u32, touched: u32, since: u32) {
        let (mut first, mut length, mut touched, mut since) = (first, length, touched, since);
        if self.is_free(first + length) {
            let (right, right_touched, right_since) = self.remove(first + length);
            if right_touched != 0 {
                since = if touched == 0 {
                    right_since
                } else {
                    since.min(right_since)
                };
                touched = length + right_touched;
            }
            length += right;
        }
        if let Some(left) = self.left_of(first) {
            let (left_length, left_touched, left_since) = self.remove(left);
            if left_touched != 0 {
                since = if touched == 0 {
                    left_since
                } else {
                    since.min(left_since)
                };
            }
            touched = if touched == 0 {
                left_touched
            } else {
                left_length + touched
            };
            length += left_length;
            first = left;
        }
        self.insert(first, length, touched, since);
    }

    /// Makes units a free extent, whose neighbours are not free.
    fn insert(&mut self, first: UnitIndex, length: u32, touched: u32, since: u32) {
        for end in [first, first + length - 1] {
            let unit = arena::unit(end);
            self.mark(unit, first, UnitKind::Free);
            unit.length.store(length, Ordering::Relaxed);
        }
        let unit = arena::unit(first);
        unit.touched.store(touched, Ordering::Relaxed);
        unit.since.store(since, Ordering::Relaxed);
        self.free += length;
        self.free_extents += 1;
        self.touched += touched;
        self.bins.insert(first);
    }

    /// Takes a free extent out of the bins and clears its description. Returns its length, how much of it was
    /// touched, and since when it is free.
    pub(crate) fn remove(&mut self, first: UnitIndex) -> (u32, u32, u32) {
        self.bins.remove(first);
        let unit = arena::unit(first);
        let length = unit.length.load(Ordering::Relaxed);
        let touched = unit.touched.load(Ordering::Relaxed);
        let since = unit.since.load(Ordering::Relaxed);
        self.free -= length;
        self.free_extents -= 1;
        self.touched -= touched;
        for end in [first, first + length - 1] {
            arena::unit(end).clear();
        }
        (length, touched, since)
    }
}
