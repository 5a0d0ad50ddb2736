//! Changes of the budget while the pager works.

use std::sync::atomic::Ordering;

use crate::backing::Backing;
use crate::driver::{Area, Driver};
use crate::manager::{BLOCK, Manager};
use crate::page::{PAGE_SIZE, PageRange};

/// Bytes by which the budget shrinks at once: few, so that a thread that faults meanwhile finds little to trim itself.
const STEP: u64 = 1 << 20;
/// Steps of one call.
const MOST_STEPS: u32 = 8;

impl<D: Driver, B: Backing> Manager<D, B> {
    /// Changes the budget: it grows at once; the balance-set manager shrinks it ([`Manager::shrink`]).
    pub(crate) fn set_ram(&self, bytes: u64) {
        self.set_ram_beside(bytes, 0, self.copies.load(Ordering::Relaxed));
    }

    /// As [`Manager::set_ram`], of a budget with `inherited` bytes more for pages that this process shares with its parent, which
    /// pays for them: the pages that a look found after `copies` copies.
    pub(crate) fn set_ram_beside(&self, bytes: u64, inherited: u64, copies: u64) {
        let since = self.copies.load(Ordering::Relaxed).wrapping_sub(copies);
        let inherited = (inherited / PAGE_SIZE as u64).saturating_sub(since);
        self.inherited.store(inherited, Ordering::Relaxed);
        let bytes = bytes + inherited * PAGE_SIZE as u64;
        self.backing.set_limit(bytes);
        self.budget.set_target(bytes);
        self.wake_balancer();
    }

    /// Pages of `pages` that this process shares, to be noted by [`Manager::note_unshared`] once it shares them no more. 0 if its budget
    /// has no inherited pages.
    pub(crate) fn shared_in(&self, area: Area, pages: PageRange) -> u64 {
        match self.inherited.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.driver.shared(area, pages),
        }
    }

    /// Notes that this process does not share `pages` pages any more: it has copies of them, or has released them. If its parent pays
    /// for them, the budget is smaller at once: else faults would take their room before the next look at the shared pages.
    pub(crate) fn note_unshared(&self, pages: u64) {
        if pages == 0 || self.inherited.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.copies.fetch_add(pages, Ordering::Relaxed);
        let less = |inherited: u64| Some(inherited.saturating_sub(pages));
        let before = self
            .inherited
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        let lost = before.unwrap_or_default().min(pages);
        self.budget.lose(lost * PAGE_SIZE as u64);
    }

    /// Shrinks the budget towards its target, in steps, and trims as much before the next step. Returns whether it is
    /// there. Bounded work. Pages that cannot be saved stay resident above the budget.
    pub(crate) fn shrink(&self) -> bool {
        let mut step = STEP;
        for _ in 0..MOST_STEPS {
            if self.budget.ram() <= self.budget.target() {
                // The budget of inherited pages falls without a step.
                self.release_excess();
                return true;
            }
            // Frames that are not used need no steps.
            let spare = self.budget.spare(self.overhead_bytes()) * PAGE_SIZE as u64;
            self.budget.approach_target(step.saturating_add(spare));
            if !self.release_excess() {
                // Nothing more can be trimmed, whatever the budget is.
                step = u64::MAX;
            }
        }
        self.budget.ram() <= self.budget.target()
    }

    /// Releases pages of those above `bytes`: bounded work. Returns whether there may be more.
    pub(crate) fn release_above(&self, bytes: u64) -> bool {
        let above = self.resident_bytes().saturating_sub(bytes);
        let pages = above.div_ceil(PAGE_SIZE as u64).min(u64::from(BLOCK));
        pages > 0 && self.release_some(pages as u32)
    }

    /// Releases frames until the budget holds. Returns false if too little can be trimmed: bounded work.
    fn release_excess(&self) -> bool {
        let batch = u64::from(BLOCK);
        let excess = || self.budget.excess(self.overhead_bytes());
        // Other threads restore pages meanwhile.
        // So does the budget, with each inherited page.
        let inherited = self.inherited.load(Ordering::Relaxed);
        let tries = 4 * ((excess() + inherited) / batch) + 16;
        for _ in 0..tries {
            let now = excess();
            if now == 0 {
                return true;
            }
            if !self.release_some(now.min(batch) as u32) {
                return excess() == 0;
            }
        }
        excess() == 0
    }

    /// Releases about `want` frames: of standby pages, else of pages that it saves. Returns whether anything changed.
    fn release_some(&self, want: u32) -> bool {
        if self.release_standby(want) > 0 {
            return true;
        }
        let mut saves = self.save_modified(want);
        if saves.pages == 0 && !saves.is_full {
            let native = self.budget.native();
            let present = || self.budget.frames() + self.budget.native();
            let before = present();
            // That may be enough: of a child of a fork, whose pages cannot be moved, a trim would try each.
            self.give_up_some();
            if present() < before {
                return true;
            }
            let trimmed = self.trim_active(BLOCK);
            // A chunk without present pages reserves none any more.
            if trimmed == 0 {
                return self.budget.native() < native;
            }
            saves = self.save_modified(want);
        }
        saves.pages > 0 || (saves.is_full && self.make_room_or_clean())
    }

    /// Bytes of RAM that the pager occupies.
    pub(crate) fn resident_bytes(&self) -> u64 {
        (self.budget.frames() + self.budget.native()) * PAGE_SIZE as u64 + self.overhead_bytes()
    }
}
