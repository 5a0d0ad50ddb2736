//! Limits of working sets: regions that the trimmer passes, and regions that replace their own pages.

use std::sync::atomic::Ordering;

use super::Urgency;
use crate::backing::Backing;
use crate::driver::Driver;
use crate::manager::{BLOCK, Manager, WorkingSet, WorkingSetError, WorkingSets};
use crate::page::{CHUNK_PAGES, ChunkMode, PAGE_SIZE, PageIndex, PageRange, PageState};

/// Pages below its maximum to which a working set is trimmed, so that not each fault trims.
const BELOW_MAXIMUM: u64 = 16;

impl<D: Driver, B: Backing> Manager<D, B> {
    /// Limits the working set of the region on `pages`, whose set has that `number`, 0 for none. Returns the number of its
    /// set.
    pub(crate) fn limit_working_set(
        &self,
        pages: PageRange,
        number: u8,
        minimum: u64,
        maximum: u64,
    ) -> Result<u8, WorkingSetError> {
        if maximum < minimum || maximum < WorkingSets::LEAST_MAXIMUM {
            return Err(WorkingSetError::OutOfOrder { minimum, maximum });
        }
        let page = PAGE_SIZE as u64;
        let left = (self.budget.ram() / 2).saturating_sub(self.working_sets.minima_without(number) * page);
        if minimum > left {
            return Err(WorkingSetError::MinimumTooLarge { minimum, left });
        }
        let number = match number {
            0 => self.working_sets.take(pages).ok_or(WorkingSetError::TooMany)?,
            number => number,
        };
        if let Some(set) = self.working_sets.get(number) {
            let limit = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
            set.set_limits(limit(minimum.div_ceil(page)), limit(maximum / page));
            for piece in pages.pieces(CHUNK_PAGES) {
                let chunk = piece.first.number() / CHUNK_PAGES;
                self.chunks.with_record(chunk).set_working_set(number);
            }
            // Its pages are above the maximum for the first time.
            let mut left = pages.count / BELOW_MAXIMUM as u32 + 1;
            while self.hold_maximum_of(set) && left > 0 {
                left -= 1;
            }
        }
        Ok(number)
    }

    /// Ends the limits of the region on `pages`.
    pub(crate) fn end_working_set(&self, pages: PageRange, number: u8) {
        for piece in self.chunks.pieces(pages) {
            self.chunks.of(piece).set_working_set(0);
        }
        self.working_sets.put(number);
    }

    /// After a fault on `page`: trims pages of its region if that has more than its maximum.
    pub(crate) fn hold_maximum(&self, page: PageIndex) {
        if let Some(set) = self.working_sets.get(self.chunk(page).working_set()) {
            self.hold_maximum_of(set);
        }
    }

    /// Trims a batch of a working set above its maximum. Returns whether it trimmed any.
    fn hold_maximum_of(&self, set: &WorkingSet) -> bool {
        let active = self.active_pages_of(set);
        let maximum = u64::from(set.maximum());
        if active <= maximum {
            return false;
        }
        let want = (active - maximum + BELOW_MAXIMUM).min(u64::from(BLOCK)) as u32;
        self.trim_set(set, want) > 0
    }

    /// The working sets that have their minimum or less, a bit each, by number.
    pub(crate) fn sets_at_minimum(&self) -> u64 {
        let sets = self.working_sets.used();
        sets.filter(|(_, set)| set.minimum() > 0 && self.active_pages_of(set) <= u64::from(set.minimum()))
            .fold(0, |bits, (number, _)| bits | 1 << number)
    }

    /// Pages of the working set of a region; those of native chunks all count.
    pub(crate) fn active_pages_of(&self, set: &WorkingSet) -> u64 {
        let chunks = self.chunks.pieces(set.pages()).map(|piece| self.chunks.of(piece));
        let active = chunks.map(|chunk| match chunk.mode() {
            ChunkMode::Native | ChunkMode::Converting | ChunkMode::Changing => chunk.pages(),
            ChunkMode::Managed | ChunkMode::Unused => chunk.pages_in(PageState::Active),
        });
        active.map(u64::from).sum()
    }

    /// Moves up to `want` active pages of a region to the modified list, in the order of its own hand: one lap at most.
    fn trim_set(&self, set: &WorkingSet, want: u32) -> u32 {
        let pages = set.pages();
        let (mut moved, mut passed) = (0, 0);
        while moved < want && passed < pages.count {
            let at = set.hand.load(Ordering::Relaxed) % pages.count;
            let first = pages.first.plus(at);
            let count = (BLOCK - first.number() % BLOCK).min(pages.count - at);
            moved += self.trim_block(PageRange::new(first, count), Urgency::Local, want - moved);
            // The rest of a block waits for the next lap.
            set.hand.store(at + count, Ordering::Relaxed);
            passed += count;
        }
        moved
    }
}
