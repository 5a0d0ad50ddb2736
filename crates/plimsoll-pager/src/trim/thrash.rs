//! Thrash control in the tick of the balance-set manager: from counters to measures.

use std::time::Duration;

use crate::backing::Backing;
use crate::driver::Driver;
use crate::manager::{Event, INTERVAL, Interval, Manager, Totals, TrimMode};
use crate::page::PageIndex;
use crate::pool::within;

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl<D: Driver, B: Backing> Manager<D, B> {
    /// Decides on the measures against thrashing if an interval is over. `now` is the time since the pager was built, and
    /// `worked` that for which the caller worked since the last call. Bounded work.
    pub(crate) fn control_thrash(&self, now: Duration, worked: Duration) {
        let mut plan = self.thrash.plan();
        plan.worked += worked;
        let length = now.saturating_sub(plan.since);
        if length < INTERVAL {
            return;
        }
        let totals = Totals {
            stall: self.refaults.stall(),
            throttled: self.thrash.throttled(),
            soft_faults: self.counters.of(Event::SoftFault),
            hard_faults: self.counters.of(Event::HardFault),
            stream_pages: self.counters.of(Event::StreamPage),
            distances: self.refaults.distances().counts(),
        };
        let before = plan.totals.replace(totals).unwrap_or(totals);
        let by_distance =
            std::array::from_fn(|class| totals.distances[class].saturating_sub(before.distances[class]));
        let interval = Interval {
            us: us(length),
            stall_us: us(totals.stall.saturating_sub(before.stall)),
            throttled_us: us(totals.throttled.saturating_sub(before.throttled)),
            balancer_us: us(std::mem::take(&mut plan.worked)),
            soft_faults: totals.soft_faults.saturating_sub(before.soft_faults),
            hard_faults: totals.hard_faults.saturating_sub(before.hard_faults),
            stream_pages: totals.stream_pages.saturating_sub(before.stream_pages),
            refaults: within(&by_distance, u64::MAX),
            near: within(&by_distance, self.budget.frames()),
            census: self.thrash.faults.take(),
            // In the per-fault mode faults keep no stock, and restore nothing ahead.
            can_act: self.trim_mode() == TrimMode::BalanceSet,
        };
        plan.since = now;
        let decision = plan.controller.tick(&interval);
        self.streams.set_stopped(decision.measures.no_read_ahead);
        self.thrash.apply(&decision, &interval);
    }

    /// Notes that `thread` is to resolve a fault on `page`, before it locks any page. Returns the time that it has to wait
    /// first.
    pub(crate) fn pace(&self, page: PageIndex, thread: usize) -> Duration {
        match self.table.word(page).load().state().is_evicted() {
            true => self.thrash.note_fault(thread),
            false => Duration::ZERO,
        }
    }
}
