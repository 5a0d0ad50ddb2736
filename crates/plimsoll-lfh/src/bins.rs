//! Free extents by size, and those that were touched by age. All of it is the back end's, under its lock.

use core::sync::atomic::Ordering;

use crate::arena;
use crate::unit::UnitIndex;

/// Extents of fewer units than this have a bin for each length.
const EXACT: u32 = 16;
/// Bins a doubling from there on, as a power of two.
const STEPS: u32 = 3;
/// A length is below 2^24 units, the window.
const BINS: usize = (EXACT + (24 - EXACT.ilog2()) * (1 << STEPS)) as usize;
/// How many extents of a bin are looked at.
const LOOKS: usize = 16;

/// Free extents.
///
/// Invariants, checked by `check` of the back end:
/// 1. A free extent is in the bin of its length, and in no other.
/// 2. A bin's bit is set exactly if it has an extent.
/// 3. The touched extents, and no others, are in the queue, the oldest first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Bins {
    /// The first extent of each bin, 0 for none.
    heads: [UnitIndex; BINS],
    occupied: [u64; BINS.div_ceil(64)],
    /// The touched extent that is free for longest, 0 for none.
    pub(crate) oldest: UnitIndex,
    newest: UnitIndex,
    /// The time of the last look at the clock, in milliseconds.
    pub(crate) now: u32,
}

/// The earlier of two times, which wrap.
pub(crate) fn earlier(one: u32, other: u32) -> u32 {
    if one.wrapping_sub(other) as i32 <= 0 {
        one
    } else {
        other
    }
}

/// The bin of a length.
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
            oldest: 0,
            newest: 0,
            now: 0,
        }
    }

    pub(crate) fn now(&self) -> u32 {
        self.now
    }

    /// An extent that holds `units` units from a multiple of `align` on: of the smallest bin that has one, the
    /// shortest of those that are looked at, rather a resident one, rather one at a low address.
    pub(crate) fn find(&self, units: u32, align: u32) -> Option<UnitIndex> {
        let mut bin = bin_of(units);
        while let Some(occupied) = self.occupied_from(bin) {
            let mut best = None;
            let mut at = self.heads[occupied];
            for _ in 0..LOOKS {
                if at == 0 {
                    break;
                }
                let extent = arena::unit(at);
                let length = extent.length.load(Ordering::Relaxed);
                let fits = arena::align_up(at, align).is_some_and(|start| start - at + units <= length);
                let rank = (length, extent.touched.load(Ordering::Relaxed) == 0, at);
                if fits && best.is_none_or(|best| rank < best) {
                    best = Some(rank);
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

    /// Queues a touched extent by its age. Most are the newest; what was part of an older one is nearer to the front.
    fn queue(&mut self, first: UnitIndex, since: u32) {
        let mut older = self.newest;
        while older != 0 {
            let of_older = arena::unit(older).since.load(Ordering::Relaxed);
            if earlier(of_older, since) == of_older {
                break;
            }
            older = arena::unit(older).older.load(Ordering::Relaxed);
        }
        let newer = match older {
            0 => self.oldest,
            older => arena::unit(older).newer.load(Ordering::Relaxed),
        };
        arena::unit(first).older.store(older, Ordering::Relaxed);
        arena::unit(first).newer.store(newer, Ordering::Relaxed);
        match older {
            0 => self.oldest = first,
            older => arena::unit(older).newer.store(first, Ordering::Relaxed),
        }
        match newer {
            0 => self.newest = first,
            newer => arena::unit(newer).older.store(first, Ordering::Relaxed),
        }
    }

    fn unqueue(&mut self, first: UnitIndex) {
        let unit = arena::unit(first);
        let (older, newer) = (
            unit.older.load(Ordering::Relaxed),
            unit.newer.load(Ordering::Relaxed),
        );
        match older {
            0 => self.oldest = newer,
            older => arena::unit(older).newer.store(newer, Ordering::Relaxed),
        }
        match newer {
            0 => self.newest = older,
            newer => arena::unit(newer).older.store(older, Ordering::Relaxed),
        }
    }
}
