//! Refaults: faults on evicted pages, those whose frame was taken or released; their distances, and the time that they
//! took.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::page::{PAGE_SIZE, Word};
use crate::pool::RefaultDistances;

/// Longest distance that is counted by itself, in budgets.
const BUDGETS: u64 = 64;

/// The eviction clock, and the refaults so far.
///
/// An evicted page keeps the clock of its eviction in 12 bits of its word, so the clock counts in units of several
/// evictions: its period is [`BUDGETS`] times the largest budget. A page that refaults later than that counts with a
/// distance that is wrong, one of 64 times within one budget.
#[derive(Debug)]
pub(crate) struct Refaults {
    /// Evictions so far.
    evicted: AtomicU64,
    /// Evictions of a unit of the clock, as a power of two.
    shift: u32,
    distances: RefaultDistances,
    stall_ns: AtomicU64,
}

impl Refaults {
    /// No refaults, under a budget of at most `most` bytes.
    pub(crate) fn new(most: u64) -> Refaults {
        let unit = most / PAGE_SIZE as u64 * BUDGETS / u64::from(Word::CLOCK_PERIOD);
        Refaults {
            evicted: AtomicU64::new(0),
            shift: unit.max(1).next_power_of_two().trailing_zeros(),
            distances: RefaultDistances::new(),
            stall_ns: AtomicU64::new(0),
        }
    }

    /// Counts an eviction. Returns the clock, for the word of the page.
    pub(crate) fn evict(&self) -> u16 {
        self.clock(self.evicted.fetch_add(1, Ordering::Relaxed))
    }

    /// Counts a refault of a page that was evicted at `clock`.
    pub(crate) fn note(&self, clock: u16) {
        self.distances.record(self.distance(clock));
    }

    /// Adds the time that a thread waited for an evicted page.
    pub(crate) fn add_stall(&self, stall: Duration) {
        let ns = u64::try_from(stall.as_nanos()).unwrap_or(u64::MAX);
        self.stall_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// The refaults so far, by distance.
    pub(crate) fn distances(&self) -> &RefaultDistances {
        &self.distances
    }

    /// The refaults so far.
    pub(crate) fn count(&self) -> u64 {
        self.distances.counts().iter().sum()
    }

    /// The time that all threads together waited for evicted pages.
    pub(crate) fn stall(&self) -> Duration {
        Duration::from_nanos(self.stall_ns.load(Ordering::Relaxed))
    }

    fn clock(&self, evicted: u64) -> u16 {
        (evicted >> self.shift) as u16 % Word::CLOCK_PERIOD
    }

    /// Evictions since `clock`, rounded up to a unit.
    fn distance(&self, clock: u16) -> u64 {
        let now = self.clock(self.evicted.load(Ordering::Relaxed));
        let units = now.wrapping_sub(clock) % Word::CLOCK_PERIOD;
        (u64::from(units) + 1) << self.shift
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{PAGE_SIZE, Refaults};

    fn of_pages(pages: u64) -> Refaults {
        Refaults::new(pages * PAGE_SIZE as u64)
    }

    #[test]
    fn a_distance_counts_the_evictions_between() {
        let refaults = of_pages(64);
        let clock = refaults.evict();
        for evictions in 1..4095 {
            assert_eq!(refaults.distance(clock), evictions + 1);
            refaults.evict();
        }
    }

    #[test]
    fn a_large_budget_counts_in_units_and_reaches_many_budgets() {
        let pages = 1 << 18;
        let refaults = of_pages(pages);
        let clock = refaults.evict();
        let mut before = 0;
        for evictions in [1, pages / 64, pages, 10 * pages, 63 * pages] {
            for _ in before..evictions {
                refaults.evict();
            }
            before = evictions;
            let distance = refaults.distance(clock);
            assert!(
                (evictions..=evictions + pages / 32).contains(&distance),
                "{distance} after {evictions}"
            );
        }
    }
}
