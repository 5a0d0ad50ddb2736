//! Faults that wait for a larger budget: those of a pager whose budget is its grant of a pool, while the pool has free pages,
//! and those that find nothing to trim or to save.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// After a wait that was for nothing, faults do not wait for this time.
const PAUSE_MS: u32 = 10_000;

/// The same of threads that wish for more.
const WISH_PAUSE_MS: u32 = 1000;

/// The need of more budget. A fault has it open while it waits.
#[derive(Debug, Default)]
pub(crate) struct Need {
    /// Whether the pool may grant more.
    can_be_met: AtomicBool,
    /// Whether free pages of the pool would meet it, so that no other member loses any.
    is_free: AtomicBool,
    /// Faults that wait.
    waiting: AtomicU32,
    /// The time at which a wait ended without more budget, plus 1; 0 for none.
    gave_up: AtomicU32,
    /// Pages that a thread is about to use, and for which it waits.
    wished: AtomicU64,
    /// As `gave_up`, of wishes.
    gave_up_wish: AtomicU32,
}

/// A wait; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Waiting<'n>(&'n Need);

impl Need {
    /// States whether more budget may come. It may not at first.
    pub(crate) fn set_can_be_met(&self, can_be_met: bool) {
        self.can_be_met.store(can_be_met, Ordering::Relaxed);
    }

    /// Whether more budget may come.
    pub(crate) fn can_be_met(&self) -> bool {
        self.can_be_met.load(Ordering::Relaxed)
    }

    /// States whether free pages of the pool would meet the need. They would not at first.
    pub(crate) fn set_is_free(&self, is_free: bool) {
        self.is_free.store(is_free, Ordering::Relaxed);
    }

    /// Whether free pages of the pool would meet the need at `now`, so that a wait costs less than a trim.
    pub(crate) fn is_free(&self, now: impl FnOnce() -> u32) -> bool {
        self.is_free.load(Ordering::Relaxed) && self.can_be_met() && !self.pauses(now())
    }

    fn pauses(&self, now: u32) -> bool {
        is_within(PAUSE_MS, self.gave_up.load(Ordering::Relaxed), now)
    }

    /// Whether a fault waits.
    pub(crate) fn is_open(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Begins a wait, at `now` in milliseconds; none if it would be for nothing.
    pub(crate) fn open(&self, now: u32) -> Option<Waiting<'_>> {
        if self.pauses(now) || !self.can_be_met() {
            return None;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Some(Waiting(self))
    }

    /// As [`Need::open`], of a thread that is about to use `pages` more than the budget has.
    pub(crate) fn wish(&self, pages: u64, now: u32) -> Option<Waiting<'_>> {
        if is_within(WISH_PAUSE_MS, self.gave_up_wish.load(Ordering::Relaxed), now) {
            return None;
        }
        let waiting = self.open(now);
        if waiting.is_some() {
            self.wished.fetch_max(pages, Ordering::Relaxed);
        }
        waiting
    }

    /// The pages that threads wish for.
    pub(crate) fn wished(&self) -> u64 {
        self.wished.load(Ordering::Relaxed)
    }

    /// A wish was for nothing until `now`.
    pub(crate) fn give_up_wish(&self, now: u32) {
        self.gave_up_wish.store(now.max(1), Ordering::Relaxed);
    }

    /// A wait was for nothing until `now`.
    pub(crate) fn give_up(&self, now: u32) {
        self.gave_up.store(now.max(1), Ordering::Relaxed);
    }

    /// The budget has grown.
    pub(crate) fn is_met(&self) {
        self.gave_up.store(0, Ordering::Relaxed);
    }
}

/// Whether less than `time` has passed since `then`, 0 for never.
fn is_within(time: u32, then: u32, now: u32) -> bool {
    then != 0 && now.wrapping_sub(then) < time
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.0.waiting.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.wished.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Need, PAUSE_MS, WISH_PAUSE_MS};

    #[test]
    fn faults_wait_while_more_may_come_and_not_soon_after_a_vain_wait() {
        let need = Need::default();
        assert!(need.open(5).is_none());
        need.set_can_be_met(true);
        let waiting = need.open(5);
        assert!(waiting.is_some() && need.is_open());
        drop(waiting);
        assert!(!need.is_open());
        need.give_up(u32::MAX - 1);
        assert!(need.open(u32::MAX - 1).is_none() && need.open(PAUSE_MS - 3).is_none());
        assert!(need.open(PAUSE_MS - 2).is_some());
        need.give_up(7);
        need.is_met();
        assert!(need.open(7).is_some());
        need.set_can_be_met(false);
        assert!(need.open(7).is_none());
    }

    #[test]
    fn a_wish_lasts_as_long_as_threads_wait_and_pauses_after_a_vain_one() {
        let need = Need::default();
        assert!(need.wish(9, 5).is_none() && need.wished() == 0);
        need.set_can_be_met(true);
        let first = need.wish(9, 5).expect("more may come");
        let second = need.wish(4, 5).expect("more may come");
        drop(first);
        assert_eq!(need.wished(), 9);
        drop(second);
        assert_eq!(need.wished(), 0);
        need.give_up_wish(7);
        assert!(need.wish(9, 6 + WISH_PAUSE_MS).is_none());
        assert!(need.open(7).is_some(), "faults still wait");
        assert!(need.wish(9, 7 + WISH_PAUSE_MS).is_some());
    }

    #[test]
    fn free_pages_are_waited_for_while_they_come() {
        let need = Need::default();
        need.set_is_free(true);
        assert!(!need.is_free(|| 5), "the limits allow no more");
        need.set_can_be_met(true);
        assert!(need.is_free(|| 5));
        need.give_up(7);
        assert!(!need.is_free(|| 7) && need.is_free(|| 7 + PAUSE_MS));
        need.is_met();
        need.set_is_free(false);
        assert!(!need.is_free(|| 7));
    }
}
