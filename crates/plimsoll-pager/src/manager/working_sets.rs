//! Limits of the working sets of regions.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::page::{PAGE_SIZE, PageIndex, PageRange};

/// Regions with limits at the same time: numbers are the bits of a word, without 0, which means none.
const MOST_SETS: usize = 63;

/// The limits of one region.
#[derive(Debug, Default)]
pub(crate) struct WorkingSet {
    first: AtomicU32,
    count: AtomicU32,
    minimum: AtomicU32,
    maximum: AtomicU32,
    /// The page, from the first one on, at which the next trim for the maximum begins.
    pub(crate) hand: AtomicU32,
}

/// The reason why the limits of a working set were not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names of the fields describe them")]
pub enum WorkingSetError {
    /// The limits are out of order, or the maximum is too small.
    #[error(
        "cannot limit a working set to {minimum} up to {maximum} bytes: the maximum must be at least {least} bytes and not \
         below the minimum; raise the maximum",
        least = WorkingSets::LEAST_MAXIMUM
    )]
    OutOfOrder { minimum: u64, maximum: u64 },
    /// The minima would leave too little of the budget for the rest.
    #[error(
        "cannot promise a working set of {minimum} bytes: the minima of all regions may have half of the budget, of which \
         {left} bytes are left; lower the minimum, or raise the budget"
    )]
    MinimumTooLarge {
        minimum: u64,
        /// The bytes that are not promised.
        left: u64,
    },
    /// All sets of the pager are in use.
    #[error("cannot limit a working set: 63 regions have limits; remove those of another one")]
    TooMany,
    /// This process is a child of the one that built the pager, and does not have its regions.
    #[error("cannot limit a working set in a child of a fork; build a pager of its own")]
    Forked,
}

/// The working sets with limits.
#[derive(Debug)]
pub(crate) struct WorkingSets {
    sets: [WorkingSet; MOST_SETS],
    /// A bit for each set in use, by number; that of 0 is always set.
    used: AtomicU64,
}

impl WorkingSets {
    /// The smallest maximum: an instruction uses several pages, and the trimmer works in batches.
    pub(crate) const LEAST_MAXIMUM: u64 = 64 * PAGE_SIZE as u64;

    pub(crate) fn new() -> WorkingSets {
        WorkingSets {
            sets: std::array::from_fn(|_| WorkingSet::default()),
            used: AtomicU64::new(1),
        }
    }

    /// The set of that number, from 1 on.
    pub(crate) fn get(&self, number: u8) -> Option<&WorkingSet> {
        self.sets.get(usize::from(number).checked_sub(1)?)
    }

    /// Takes a set for the region on `pages`. Returns its number.
    pub(crate) fn take(&self, pages: PageRange) -> Option<u8> {
        let mut used = self.used.load(Ordering::Relaxed);
        while used != u64::MAX {
            let free = (!used).trailing_zeros();
            let before = self.used.fetch_or(1 << free, Ordering::AcqRel);
            if before & 1 << free == 0 {
                let set = &self.sets[free as usize - 1];
                set.set_limits(0, u32::MAX);
                set.first.store(pages.first.number(), Ordering::Relaxed);
                set.count.store(pages.count, Ordering::Relaxed);
                set.hand.store(0, Ordering::Relaxed);
                return Some(free as u8);
            }
            used = before;
        }
        None
    }

    /// Returns a set that no chunk names any more.
    pub(crate) fn put(&self, number: u8) {
        if let Some(set) = self.get(number) {
            set.set_limits(0, u32::MAX);
            self.used.fetch_and(!(1 << number), Ordering::AcqRel);
        }
    }

    /// The sets in use, by number.
    pub(crate) fn used(&self) -> impl Iterator<Item = (u8, &WorkingSet)> {
        let used = self.used.load(Ordering::Relaxed);
        let sets = (1..).zip(&self.sets);
        sets.filter(move |(number, _)| used >> number & 1 == 1)
    }

    /// Pages of all minima, without that of `number`.
    pub(crate) fn minima_without(&self, number: u8) -> u64 {
        let others = self.used().filter(|(other, _)| *other != number);
        others.map(|(_, set)| u64::from(set.minimum())).sum()
    }
}

impl WorkingSet {
    pub(crate) fn pages(&self) -> PageRange {
        let first = PageIndex::new(self.first.load(Ordering::Relaxed));
        PageRange::new(first, self.count.load(Ordering::Relaxed))
    }

    pub(crate) fn minimum(&self) -> u32 {
        self.minimum.load(Ordering::Relaxed)
    }

    pub(crate) fn maximum(&self) -> u32 {
        self.maximum.load(Ordering::Relaxed)
    }

    pub(crate) fn set_limits(&self, minimum: u32, maximum: u32) {
        self.minimum.store(minimum, Ordering::Relaxed);
        self.maximum.store(maximum, Ordering::Relaxed);
    }
}
