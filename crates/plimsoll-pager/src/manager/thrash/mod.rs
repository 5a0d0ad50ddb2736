//! Thrash control: its observations, its decisions, and the step in force.

mod census;
mod controller;
mod step;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::pool::Counts;

pub(crate) use census::FaultCounts;
pub(crate) use controller::{Controller, Decision, Interval, MOST_DELAY_US};
pub(crate) use step::Measures;
pub use step::{ThrashControl, ThrashStep};

/// The shortest interval between two decisions.
pub(crate) const INTERVAL: Duration = Duration::from_millis(250);

/// The counters at the start of an interval.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Totals {
    pub(crate) stall: Duration,
    pub(crate) throttled: Duration,
    pub(crate) soft_faults: u64,
    pub(crate) hard_faults: u64,
    pub(crate) stream_pages: u64,
    /// Refaults by distance.
    pub(crate) distances: Counts,
}

/// The part that the balance-set manager alone uses.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) controller: Controller,
    /// The start of the interval, as a time since the pager was built, and the counters then.
    pub(crate) since: Duration,
    pub(crate) totals: Option<Totals>,
    /// Work of the balance-set manager in the interval.
    pub(crate) worked: Duration,
}

/// Statistics of thrash control since the pager was built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ThrashStats {
    pub(crate) step: ThrashStep,
    /// Microseconds in each step.
    pub(crate) step_us: [u64; ThrashStep::ALL.len()],
    pub(crate) throttled_us: u64,
    pub(crate) worst_percent: u64,
    pub(crate) trials: u64,
    pub(crate) kept: u64,
}

/// The measures in force, for faults and trims, and statistics.
///
/// The balance-set manager alone changes the measures. A fault may see the thread of one throttle and the delay of
/// another: each delay is bounded.
#[derive(Debug, Default)]
pub(crate) struct Thrash {
    pub(crate) faults: FaultCounts,
    /// Parts of all frames that are standby beyond the stock.
    standby: AtomicU8,
    /// The token of the throttled thread; 0 for none.
    throttled: AtomicUsize,
    delay_us: AtomicU32,
    throttled_ns: AtomicU64,
    /// Whether decisions are due more often than once a second.
    is_at_work: AtomicBool,
    /// The statistics, each one atomic: a child of a fork reads them without the lock of a thread that it does not have.
    step: AtomicU8,
    step_us: [AtomicU64; ThrashStep::ALL.len()],
    worst_percent: AtomicU64,
    trials: AtomicU64,
    kept: AtomicU64,
    plan: Mutex<Plan>,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            controller: Controller::new(ThrashControl::Off),
            since: Duration::ZERO,
            totals: None,
            worked: Duration::ZERO,
        }
    }
}

impl Thrash {
    pub(crate) fn set_rule(&self, rule: ThrashControl) {
        self.plan().controller = Controller::new(rule);
    }

    /// The state of decisions. No fault takes this lock.
    pub(crate) fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stats(&self) -> ThrashStats {
        ThrashStats {
            step: ThrashStep::of_number(self.step.load(Ordering::Relaxed).into()),
            step_us: std::array::from_fn(|step| self.step_us[step].load(Ordering::Relaxed)),
            throttled_us: u64::try_from(self.throttled().as_micros()).unwrap_or(u64::MAX),
            worst_percent: self.worst_percent.load(Ordering::Relaxed),
            trials: self.trials.load(Ordering::Relaxed),
            kept: self.kept.load(Ordering::Relaxed),
        }
    }

    /// Has the measures of a decision in force from now on, after `interval`.
    pub(crate) fn apply(&self, decision: &Decision, interval: &Interval) {
        let measures = &decision.measures;
        self.standby.store(measures.standby, Ordering::Relaxed);
        if let Some(throttle) = measures.throttle {
            self.delay_us.store(throttle.delay_us, Ordering::Relaxed);
        }
        let throttled = measures.throttle.map_or(0, |throttle| throttle.thread);
        self.throttled.store(throttled, Ordering::Relaxed);
        // The interval passed in the step that was in force until now.
        let before = self.step.swap(decision.step as u8, Ordering::Relaxed);
        self.step_us[usize::from(before)].fetch_add(interval.us, Ordering::Relaxed);
        self.worst_percent
            .store(interval.census.worst_percent(), Ordering::Relaxed);
        self.trials.store(decision.trials, Ordering::Relaxed);
        self.kept.store(decision.kept, Ordering::Relaxed);
        self.is_at_work.store(decision.is_at_work, Ordering::Relaxed);
    }

    /// Whether the next decision is due soon.
    pub(crate) fn is_at_work(&self) -> bool {
        self.is_at_work.load(Ordering::Relaxed)
    }

    /// Frames that are to be standby beyond the stock, of `frames`.
    pub(crate) fn standby_frames(&self, frames: u64) -> u64 {
        frames * u64::from(self.standby.load(Ordering::Relaxed)) / Measures::STANDBY_PARTS
    }

    /// Notes a fault of a thread on an evicted page. Returns the time that the thread has to wait first. A token of 0 is no
    /// thread's.
    pub(crate) fn note_fault(&self, thread: usize) -> Duration {
        if thread == 0 {
            return Duration::ZERO;
        }
        self.faults.note(thread);
        if self.throttled.load(Ordering::Relaxed) != thread {
            return Duration::ZERO;
        }
        let delay = self.delay_us.load(Ordering::Relaxed).min(MOST_DELAY_US);
        Duration::from_micros(delay.into())
    }

    /// Adds the time that a throttled thread waited.
    pub(crate) fn add_throttled(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.throttled_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// The time that throttled threads waited.
    pub(crate) fn throttled(&self) -> Duration {
        Duration::from_nanos(self.throttled_ns.load(Ordering::Relaxed))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::step::{Measures, Throttle};
    use super::{Decision, Interval, MOST_DELAY_US, Thrash};

    fn apply(thrash: &Thrash, measures: Measures) {
        let decision = Decision {
            measures,
            step: measures.step(),
            ..Decision::default()
        };
        let interval = Interval {
            us: 1000,
            ..Interval::default()
        };
        thrash.apply(&decision, &interval);
    }

    #[test]
    fn the_throttled_thread_alone_waits_and_never_longer_than_the_bound() {
        let thrash = Thrash::default();
        assert_eq!(thrash.note_fault(5), Duration::ZERO);
        for (asked, waits) in [(300, 300), (u32::MAX, MOST_DELAY_US)] {
            let throttle = Some(Throttle {
                thread: 5,
                delay_us: asked,
            });
            let measures = Measures {
                throttle,
                ..Measures::default()
            };
            apply(&thrash, measures);
            assert_eq!(thrash.note_fault(5), Duration::from_micros(waits.into()));
            assert_eq!(thrash.note_fault(6), Duration::ZERO);
        }
        apply(&thrash, Measures::default());
        assert_eq!(thrash.note_fault(5), Duration::ZERO);
        // Calm at first, twice in the last step, which was left a moment ago.
        assert_eq!(thrash.stats().step_us, [1000, 0, 0, 0, 2000]);
    }

    #[test]
    fn standby_frames_are_a_part_of_the_frames_and_leave_most_of_them() {
        let thrash = Thrash::default();
        assert_eq!(thrash.standby_frames(1600), 0);
        let measures = Measures {
            standby: 6,
            ..Measures::default()
        };
        apply(&thrash, measures);
        assert_eq!(thrash.standby_frames(1600), 600);
    }
}
