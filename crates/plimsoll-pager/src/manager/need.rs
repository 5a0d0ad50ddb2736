//! Faults that wait for a larger budget: those of a pager whose budget is its grant of a pool, while the pool has free pages,
//! and those that find nothing to trim or to save.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// After a wait that was for nothing, faults do not wait for this time.
const PAUSE_MS: u32 = 10_000;

/// After a vain wish, no other begins for this time, twice as long after each further one.
const WISH_PAUSE_MS: u32 = 1000;
const MOST_DOUBLED: u32 = 6;

/// A pool is ample while one in so many of its pages at most is in use, and scarce while not one in so many is in no use.
const AMPLE_PART: u64 = 2;
const SCARCE_PART: u64 = 8;

/// The need of more budget. A fault has it open while it waits.
#[derive(Debug, Default)]
pub(crate) struct Need {
    /// Whether the pool may grant more.
    can_be_met: AtomicBool,
    /// Whether pages that no member of the pool uses would meet it, so that no other member trims any.
    is_free: AtomicBool,
    /// Pages that no member of the pool is charged for.
    free: AtomicU64,
    /// Pages of the pool; 0 without one.
    total: AtomicU64,
    /// Pages that other members are charged for.
    others: AtomicU64,
    /// Faults that wait.
    waiting: AtomicU32,
    /// The time at which a wait ended without more budget, plus 1; 0 for none.
    gave_up: AtomicU32,
    /// Threads that wish for more: they are about to use memory, and go on without it.
    wishing: AtomicU32,
    /// The pages that the last one wishes for.
    wished: AtomicU64,
    /// As `gave_up`, of wishes.
    gave_up_wish: AtomicU32,
    /// Wishes one after another that were vain.
    vain_wishes: AtomicU32,
}

/// A wait; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Waiting<'n>(&'n Need);

/// A wish; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Wish<'n>(&'n Need);

impl Wish<'_> {
    /// Sets the number of pages wished for. To be called repeatedly: another thread's wish may overwrite it.
    pub(crate) fn set(&self, pages: u64) {
        self.0.wished.store(pages, Ordering::Relaxed);
    }

    /// The budget has grown enough.
    pub(crate) fn is_met(&self) {
        self.0.vain_wishes.store(0, Ordering::Relaxed);
    }

    /// It was vain until `now`.
    pub(crate) fn give_up(&self, now: u32) {
        // Wishes of several threads at one time count once.
        if !is_within(WISH_PAUSE_MS, self.0.gave_up_wish.load(Ordering::Relaxed), now) {
            self.0.vain_wishes.fetch_add(1, Ordering::Relaxed);
        }
        self.0.gave_up_wish.store(now.max(1), Ordering::Relaxed);
    }
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        self.0.wishing.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Need {
    /// States whether more budget may come. It may not at first.
    pub(crate) fn set_can_be_met(&self, can_be_met: bool) {
        self.can_be_met.store(can_be_met, Ordering::Relaxed);
    }

    /// Whether more budget may come.
    pub(crate) fn can_be_met(&self) -> bool {
        self.can_be_met.load(Ordering::Relaxed)
    }

    /// States whether pages that no member of the pool uses would meet the need, and the pages that no member is charged for. None
    /// at first.
    pub(crate) fn set_is_free(&self, is_free: bool, free: u64) {
        self.is_free.store(is_free, Ordering::Relaxed);
        self.free.store(free, Ordering::Relaxed);
    }

    /// States the pages of the pool, and those that other members are charged for. None at first.
    pub(crate) fn set_pool(&self, total: u64, others: u64) {
        self.total.store(total, Ordering::Relaxed);
        self.others.store(others, Ordering::Relaxed);
    }

    /// Whether at most half of a pool is in use while this member uses `own` pages. False without a pool.
    pub(crate) fn is_ample(&self, own: u64) -> bool {
        let (total, used) = self.in_use(own);
        total > 0 && used * AMPLE_PART <= total
    }

    /// Whether nearly all of a pool is in use while this member uses `own` pages. False without a pool.
    pub(crate) fn is_scarce(&self, own: u64) -> bool {
        let (total, used) = self.in_use(own);
        total.saturating_sub(used) * SCARCE_PART < total
    }

    /// The pages of the pool, and those in use: of other members what they are charged for, and `own` pages of this one. The rest of
    /// its grant is in no use: it goes to a member that needs it. A thread may also know a new grant before the free pages that are
    /// left.
    fn in_use(&self, own: u64) -> (u64, u64) {
        let others = self.others.load(Ordering::Relaxed);
        (self.total.load(Ordering::Relaxed), others + own)
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

    /// Begins a wish for `pages` more, which free pages of the pool may meet at `now`; none if it would be for nothing.
    pub(crate) fn wish(&self, pages: u64, now: u32) -> Option<Wish<'_>> {
        let vain = self.vain_wishes.load(Ordering::Relaxed);
        let pause = WISH_PAUSE_MS << vain.saturating_sub(1).min(MOST_DOUBLED);
        if is_within(pause, self.gave_up_wish.load(Ordering::Relaxed), now) || !self.has_free(pages) {
            return None;
        }
        self.wishing.fetch_add(1, Ordering::Relaxed);
        Some(Wish(self))
    }

    /// Whether the pool has so many free pages and may grant them.
    pub(crate) fn has_free(&self, pages: u64) -> bool {
        self.can_be_met() && self.free.load(Ordering::Relaxed) >= pages
    }

    /// Whether a thread wishes for more budget.
    pub(crate) fn is_wished(&self) -> bool {
        self.wishing.load(Ordering::Relaxed) > 0
    }

    /// The pages that threads wish for: none if none does.
    pub(crate) fn wished(&self) -> u64 {
        match self.is_wished() {
            true => self.wished.load(Ordering::Relaxed),
            false => 0,
        }
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
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
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
    fn a_wish_lasts_until_its_end_and_pauses_after_vain_ones() {
        let need = Need::default();
        need.set_can_be_met(true);
        need.set_is_free(true, 8);
        assert!(need.wish(9, 5).is_none(), "the pool has too few free pages");
        let (first, second) = (
            need.wish(8, 5).expect("free pages"),
            need.wish(4, 5).expect("free pages"),
        );
        first.set(9);
        drop(first);
        second.set(4);
        assert_eq!((need.wished(), need.is_open()), (4, false));
        second.give_up(7);
        drop(second);
        assert_eq!(need.wished(), 0);
        assert!(need.wish(4, 6 + WISH_PAUSE_MS).is_none());
        assert!(need.open(7).is_some(), "faults still wait");
        let third = need.wish(4, 7 + WISH_PAUSE_MS).expect("after the pause");
        let of_another_thread = need.wish(4, 7 + WISH_PAUSE_MS).expect("after the pause");
        of_another_thread.give_up(10_000);
        third.give_up(10_000);
        assert!(need.wish(4, 10_000 + 2 * WISH_PAUSE_MS - 1).is_none());
        let fourth = need
            .wish(4, 10_000 + 2 * WISH_PAUSE_MS)
            .expect("after twice the pause");
        fourth.is_met();
        fourth.give_up(20_000);
        assert!(need.wish(4, 20_000 + WISH_PAUSE_MS).is_some());
    }

    #[test]
    fn a_pool_is_ample_up_to_half_and_scarce_from_seven_eighths_of_it_in_use() {
        let need = Need::default();
        assert!(!need.is_ample(0) && !need.is_scarce(9), "there is no pool");
        need.set_pool(64, 20);
        assert!(need.is_ample(12) && !need.is_ample(13));
        // None is free: this member has a grant of all the rest.
        need.set_is_free(false, 0);
        assert!(!need.is_scarce(36) && need.is_scarce(37));
        assert!(
            need.is_scarce(1000),
            "more than the pool, as after the end of a parent"
        );
        need.set_pool(64, 40);
        assert!(!need.is_ample(0) && !need.is_scarce(16) && need.is_scarce(17));
    }

    #[test]
    fn free_pages_are_waited_for_while_they_come() {
        let need = Need::default();
        need.set_is_free(true, 0);
        assert!(!need.is_free(|| 5), "the limits allow no more");
        need.set_can_be_met(true);
        assert!(need.is_free(|| 5));
        need.give_up(7);
        assert!(!need.is_free(|| 7) && need.is_free(|| 7 + PAUSE_MS));
        need.is_met();
        need.set_is_free(false, 0);
        assert!(!need.is_free(|| 7));
    }
}
