//! Free extents by size, and those that were touched by the time since which they are free. All of it is the back end's,
//! under its lock.

use core::sync::atomic::Ordering;

use super::check::{DamagedRun, holds};
use crate::arena;
use crate::unit::{UnitIndex, UnitKind};

/// Extents of fewer units than this have a bin for each length.
const EXACT: u32 = 16;
/// Bins a doubling from there on, as a power of two.
const STEPS: u32 = 3;
/// A length is below 2^24 units, the window.
const BINS: usize = (EXACT + (24 - EXACT.ilog2()) * (1 << STEPS)) as usize;
/// How many extents of a bin are looked at where they differ in length, and where they do not.
const LOOKS: usize = 8;
const LOOKS_AT_EQUALS: usize = 2;
/// How many are looked at until one holds an aligned run.
const ALIGNED_LOOKS: usize = 16;

/// Free extents.
///
/// Invariants, checked by `check` of the back end:
/// 1. A free extent is in the bin of its length, and in no other.
/// 2. A bin's bit is set exactly if it has an extent.
/// 3. The touched extents, and no others, are in the list of the period since which they are free, one of the last
///    [`PERIODS`].
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Bins {
    /// The first extent of each bin, 0 for none.
    heads: [UnitIndex; BINS],
    occupied: [u64; BINS.div_ceil(64)],
    /// The first touched extent of each period since which they are free, 0 for none.
    touched: [UnitIndex; PERIODS as usize],
    /// The number of the purge's current period.
    period: u32,
}

/// Distinct periods of the purge: the current one, the one before it, and all before that.
const PERIODS: u32 = 3;

fn bin_of(length: u32) -> usize {
    if length < EXACT {
        return length as usize;
    }
    let log = length.ilog2();
    let step = (length >> (log - STEPS)) & ((1 << STEPS) - 1);
    (EXACT + ((log - EXACT.ilog2()) << STEPS) + step) as usize
}

impl Bins {
    pub(crate) const fn new() -> Bins {
        Bins {
            heads: [0; BINS],
            occupied: [0; BINS.div_ceil(64)],
            touched: [0; PERIODS as usize],
            period: PERIODS,
        }
    }

    /// The number of the purge's current period.
    pub(crate) fn period(&self) -> u32 {
        self.period
    }

    /// Begins the next period, unless extents wait for being purged since two periods ago.
    pub(crate) fn next_period(&mut self) {
        if self.oldest().is_none() {
            self.period += 1;
        }
    }

    /// An extent that is free for more than a whole period.
    pub(crate) fn oldest(&self) -> Option<UnitIndex> {
        let first = self.touched[((self.period - 2) % PERIODS) as usize];
        (first != 0).then_some(first)
    }

    /// An extent that may be resident.
    pub(crate) fn touched(&self) -> Option<UnitIndex> {
        self.touched.iter().copied().find(|first| *first != 0)
    }

    /// An extent that holds `units` units from a multiple of `align` on: of the smallest bin that has one, the
    /// shortest of those that are looked at, rather a resident one, rather one at a low address.
    pub(crate) fn find(&self, units: u32, align: u32) -> Option<UnitIndex> {
        let mut bin = bin_of(units);
        while let Some(occupied) = self.occupied_from(bin) {
            let looks = if occupied < EXACT as usize {
                LOOKS_AT_EQUALS
            } else {
                LOOKS
            };
            let mut best = None;
            let mut at = self.heads[occupied];
            let mut left = if align > 1 { ALIGNED_LOOKS } else { looks };
            while at != 0 && left != 0 {
                left -= 1;
                let extent = arena::unit(at);
                let length = extent.length.load(Ordering::Relaxed);
                let start = if align > 1 {
                    arena::align_up(at, align)
                } else {
                    Some(at)
                };
                let fits = start.is_some_and(|start| start - at + units <= length);
                let rank = (length, extent.touched.load(Ordering::Relaxed) == 0, at);
                if fits && best.is_none_or(|best| rank < best) {
                    best = Some(rank);
                    left = left.min(looks);
                }
                at = extent.next.load(Ordering::Relaxed);
            }
            if let Some((_, _, first)) = best {
                return Some(first);
            }
            bin = occupied + 1;
        }
        None
    }

    /// The first bin from `bin` on that has an extent.
    fn occupied_from(&self, bin: usize) -> Option<usize> {
        if bin >= BINS {
            return None;
        }
        let mut word = bin / 64;
        let mut bits = self.occupied[word] & (u64::MAX << (bin % 64));
        while bits == 0 {
            word += 1;
            bits = *self.occupied.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    /// Adds an extent that its description describes.
    pub(crate) fn insert(&mut self, first: UnitIndex) {
        let unit = arena::unit(first);
        let bin = bin_of(unit.length.load(Ordering::Relaxed));
        let head = self.heads[bin];
        unit.next.store(head, Ordering::Relaxed);
        unit.previous.store(0, Ordering::Relaxed);
        if head != 0 {
            arena::unit(head).previous.store(first, Ordering::Relaxed);
        }
        self.heads[bin] = first;
        self.occupied[bin / 64] |= 1 << (bin % 64);
        if unit.touched.load(Ordering::Relaxed) != 0 {
            self.queue(first, unit.since.load(Ordering::Relaxed));
        }
    }

    /// Takes an extent out that is in.
    pub(crate) fn remove(&mut self, first: UnitIndex) {
        let unit = arena::unit(first);
        let bin = bin_of(unit.length.load(Ordering::Relaxed));
        let (next, previous) = (
            unit.next.load(Ordering::Relaxed),
            unit.previous.load(Ordering::Relaxed),
        );
        match previous {
            0 => self.heads[bin] = next,
            previous => arena::unit(previous).next.store(next, Ordering::Relaxed),
        }
        if next != 0 {
            arena::unit(next).previous.store(previous, Ordering::Relaxed);
        }
        if self.heads[bin] == 0 {
            self.occupied[bin / 64] &= !(1 << (bin % 64));
        }
        if unit.touched.load(Ordering::Relaxed) != 0 {
            self.unqueue(first);
        }
    }

    fn queue(&mut self, first: UnitIndex, since: u32) {
        let since = since.max(self.period - 2);
        let head = &mut self.touched[(since % PERIODS) as usize];
        let unit = arena::unit(first);
        unit.since.store(since, Ordering::Relaxed);
        unit.purge_previous.store(0, Ordering::Relaxed);
        unit.purge_next.store(*head, Ordering::Relaxed);
        if *head != 0 {
            arena::unit(*head).purge_previous.store(first, Ordering::Relaxed);
        }
        *head = first;
    }

    fn unqueue(&mut self, first: UnitIndex) {
        let unit = arena::unit(first);
        let (previous, next) = (
            unit.purge_previous.load(Ordering::Relaxed),
            unit.purge_next.load(Ordering::Relaxed),
        );
        match previous {
            0 => self.touched[(unit.since.load(Ordering::Relaxed) % PERIODS) as usize] = next,
            previous => arena::unit(previous).purge_next.store(next, Ordering::Relaxed),
        }
        if next != 0 {
            arena::unit(next)
                .purge_previous
                .store(previous, Ordering::Relaxed);
        }
    }

    /// Checks the lists against their invariants; `extents` is how many extents `heap` has.
    ///
    /// # Errors
    /// [`DamagedRun`] at the first extent that breaks one.
    pub(super) fn check(&self, heap: u32, extents: u32) -> Result<(), DamagedRun> {
        let (mut listed, mut touched, mut aged) = (0, 0, 0);
        for (bin, head) in self.heads.iter().enumerate() {
            let occupied = self.occupied[bin / 64] >> (bin % 64) & 1 == 1;
            holds(
                occupied == (*head != 0),
                *head,
                "a bin's bit says whether it has an extent",
            )?;
            let (mut at, mut previous) = (*head, 0);
            while at != 0 {
                let extent = arena::unit(at);
                holds(
                    is_extent_of(heap, at) && extent.previous.load(Ordering::Relaxed) == previous,
                    at,
                    "the extents of a bin are the heap's, each after the one that it names",
                )?;
                previous = at;
                listed += 1;
                touched += u32::from(extent.touched.load(Ordering::Relaxed) != 0);
                let own = bin_of(extent.length.load(Ordering::Relaxed)) == bin;
                holds(
                    own && listed <= extents,
                    at,
                    "a free extent is in the bin of its length alone",
                )?;
                at = extent.next.load(Ordering::Relaxed);
            }
        }
        for (period, head) in (0..).zip(&self.touched) {
            let (mut at, mut previous) = (*head, 0);
            while at != 0 {
                let extent = arena::unit(at);
                holds(
                    is_extent_of(heap, at) && extent.purge_previous.load(Ordering::Relaxed) == previous,
                    at,
                    "the extents of a period are the heap's, each after the one that it names",
                )?;
                previous = at;
                aged += 1;
                let since = extent.since.load(Ordering::Relaxed);
                let own = since % PERIODS == period && self.period - since < PERIODS;
                let is_touched = extent.touched.load(Ordering::Relaxed) != 0;
                holds(
                    own && is_touched && aged <= extents,
                    at,
                    "a touched extent is in the list of its period",
                )?;
                at = extent.purge_next.load(Ordering::Relaxed);
            }
        }
        holds(
            (listed, aged) == (extents, touched),
            0,
            "every free extent is listed",
        )
    }
}

/// Whether a free extent of a heap begins at a unit.
fn is_extent_of(heap: u32, first: UnitIndex) -> bool {
    let extent = arena::unit(first);
    extent.kind() == UnitKind::Free
        && extent.first.load(Ordering::Relaxed) == first
        && extent.heap.load(Ordering::Relaxed) == heap
}
