//! The balance-set manager: keeps a stock of spare frames, so that faults find one without trimming themselves.

use std::sync::atomic::Ordering;

use crate::backing::Backing;
use crate::driver::Driver;
use crate::manager::{BLOCK, Manager, TrimMode};
use crate::page::{PAGE_SIZE, PageState};

/// Pages that one tick trims at most.
const MOST_A_TICK: u32 = 4096;
/// Bytes of copies that one tick moves at most, and for each page that was saved. At 1 MiB, half of the budget of a program
/// with scattered accesses went to a store that was 70 to 78 % in use; a copy costs a tenth of a fault.
const MOST_CLEANED: u64 = 1 << 20;
const CLEANED_PER_SAVED: u64 = 6 << 10;
/// Pages that a thread which faults alone trims at a time.
const RESTOCKED: u32 = 2 * BLOCK;

impl<D: Driver, B: Backing> Manager<D, B> {
    /// Frames that a fault gets without trimming: free ones of the budget, and those of standby pages.
    pub(crate) fn spare_frames(&self) -> u64 {
        self.budget.spare(self.overhead_bytes()) + self.counters.pages_in(PageState::Standby)
    }

    /// The stock of spare frames below which the balance-set manager works, and up to which. Thrash control may add a part
    /// of all frames: not of the budget, most of which may be the store's.
    pub(crate) fn watermarks(&self) -> (u64, u64) {
        // Pages of the parent need no stock: the process has few of its own at first.
        let own =
            (self.budget.ram() / PAGE_SIZE as u64).saturating_sub(self.inherited.load(Ordering::Relaxed));
        let more = self.thrash.standby_frames(self.budget.frames());
        ((own / 64).max(16) + more, (own / 24).max(64) + more)
    }

    /// Whether the pool of the budget has free pages: a fault takes those, and no page is trimmed for it.
    pub(crate) fn has_free_pages(&self) -> bool {
        self.need.is_free(plimsoll_os::coarse_milliseconds)
    }

    /// Restocks spare frames that run low on this thread if it alone faults; else, or if the store runs out of room, wakes
    /// the balance-set manager. Called by faults.
    pub(crate) fn keep_stock(&self) {
        let is_alone = self.faulters.note(plimsoll_os::thread_token());
        let is_low = self.spare_frames() < self.watermarks().0;
        if self.wants_spill() || (is_low && !(is_alone && self.restock())) {
            self.wake_balancer();
        }
    }

    /// Makes standby pages of a batch of active or modified ones, and cleans the store as much as that needs. Returns whether
    /// it made any.
    fn restock(&self) -> bool {
        if self.counters.pages_in(PageState::Modified) < u64::from(RESTOCKED) {
            self.trim_active(RESTOCKED);
        }
        let saved = self.save_modified(RESTOCKED).pages;
        self.clean_store(u64::from(saved) * CLEANED_PER_SAVED);
        saved > 0
    }

    /// One tick of the balance-set manager: brings the spare frames from below the low watermark up to the high one, and
    /// the resident bytes down to the budget, after making room in the store; then cleans the store. Bounded work.
    pub(crate) fn balance(&self) {
        if !self.shrink() {
            // The next tick goes on at once.
            self.wake_balancer();
        }
        self.spill_idle();
        self.settle();
        self.ageing.restart();
        let (low, high) = self.watermarks();
        // In the per-fault mode faults keep no stock.
        let mut saved = 0;
        if self.trim_mode() == TrimMode::BalanceSet && self.spare_frames() < low && !self.has_free_pages() {
            let mut left = MOST_A_TICK;
            while left > 0 && self.spare_frames() < high {
                let trimmed = match self.counters.pages_in(PageState::Modified) {
                    0..=15 => self.trim_active(BLOCK),
                    _ => 0,
                };
                let pages = self.save_modified(BLOCK).pages;
                if pages == 0 && trimmed == 0 {
                    break;
                }
                saved += u64::from(pages);
                left = left.saturating_sub(BLOCK);
            }
        }
        self.clean_store(MOST_CLEANED.max(saved * CLEANED_PER_SAVED));
    }

    /// The work of each second: copies become older, and native chunks that are not used go if others may need their pages.
    pub(crate) fn age(&self) {
        self.backing.age(self);
        self.settle();
        self.give_up_unused();
    }

    /// Has the store move copies together. Returns whether that freed anything.
    pub(crate) fn clean_store(&self, bytes: u64) -> bool {
        self.backing
            .clean(bytes, &mut |owner, old, new| self.relocate(owner, old, new))
    }
}
