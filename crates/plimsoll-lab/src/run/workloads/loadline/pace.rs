//! The pace of visits: each begins when the one before has ended (closed loop), or when it is due (open loop).
//!
//! In an open loop the visits of all threads are due at equal distances. A visit that begins late, because the one before
//! it took longer, is measured from the time at which it was due.

use std::thread;
use std::time::{Duration, Instant};

use super::tally::Tally;

/// Waits below this spin: a sleep takes longer to wake up from.
const SPIN: Duration = Duration::from_micros(50);
/// Most latencies that the visits without a turn are counted in.
const MOST_UNSERVED_STEPS: u64 = 10_000;

/// The times at which the visits of one thread are due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Schedule {
    /// Seconds from one to the next.
    interval: f64,
    /// Seconds of the first.
    first: f64,
}

impl Schedule {
    /// The schedule of one of `threads` threads that share `rate` visits a second in turn.
    pub(super) fn of_thread(rate: f64, thread: u32, threads: u32) -> Schedule {
        Schedule {
            interval: f64::from(threads) / rate,
            first: f64::from(thread) / rate,
        }
    }

    /// The time at which the visit of that number is due, from the start of the stretch.
    pub(super) fn due(&self, number: u64) -> Duration {
        Duration::from_secs_f64(self.first + number as f64 * self.interval)
    }

    /// How many visits are due before a time.
    pub(super) fn due_before(&self, time: Duration) -> u64 {
        let estimate = ((time.as_secs_f64() - self.first) / self.interval).max(0.0) as u64;
        // The estimate is off by one at most; the times themselves decide.
        let mut count = estimate.saturating_sub(1);
        while self.due(count) < time {
            count += 1;
        }
        count
    }

    /// Counts the visits that were due before `end` and not begun by `now`, the first of them number `next`: with the
    /// time that they have waited so far. Returns how many they are.
    pub(super) fn count_unserved(&self, next: u64, end: Duration, now: Duration, tally: &mut Tally) -> u64 {
        let unserved = self.due_before(end).saturating_sub(next);
        // If there are very many, one stands for some of its neighbours: their latencies are almost the same.
        let step = unserved.div_ceil(MOST_UNSERVED_STEPS).max(1);
        let mut at = 0;
        while at < unserved {
            let count = step.min(unserved - at);
            let waited = now.saturating_sub(self.due(next + at));
            tally.unserved(nanoseconds(waited), count);
            at += count;
        }
        unserved
    }
}

pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Waits until `due` from `start`; at once if that has passed.
pub(super) fn wait_until(start: Instant, due: Duration) {
    let left = due.saturating_sub(start.elapsed());
    if left > SPIN {
        thread::sleep(left);
    }
    while start.elapsed() < due {
        std::hint::spin_loop();
    }
}

/// Has the kernel wake this thread at the end of a sleep, and not up to 50 microseconds later. Where it cannot, visits
/// begin later, which counts.
pub(super) fn wake_exactly() {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    proptest! {
        #[test]
        fn threads_share_the_rate_in_turn(rate in 1.0f64..1e6, threads in 1u32..9, number in 0u64..1000) {
            let (thread, turn) = ((number % u64::from(threads)) as u32, number / u64::from(threads));
            let due = Schedule::of_thread(rate, thread, threads).due(turn);
            prop_assert!((due.as_secs_f64() - number as f64 / rate).abs() < 1e-8);
        }

        #[test]
        fn due_visits_are_those_with_an_earlier_time(rate in 1.0f64..1e5, thread in 0u32..4, time in 0.0f64..0.1) {
            let schedule = Schedule::of_thread(rate, thread, 4);
            let count = schedule.due_before(seconds(time));
            prop_assert!(schedule.due(count) >= seconds(time));
            prop_assert!(count == 0 || schedule.due(count - 1) < seconds(time));
        }

        #[test]
        fn every_visit_without_a_turn_is_counted(rate in 1.0f64..1e6, next in 0u64..100_000, end in 0.0f64..1.0) {
            let schedule = Schedule::of_thread(rate, 0, 1);
            let mut tally = Tally::new();
            let unserved = schedule.count_unserved(next, seconds(end), seconds(end), &mut tally);
            prop_assert_eq!(unserved, schedule.due_before(seconds(end)).saturating_sub(next));
            prop_assert_eq!(tally.all().count(), unserved);
        }
    }

    /// A stall of the server: every visit that it delays counts with its delay, the ones without a turn too.
    #[test]
    fn a_queue_is_measured_from_the_due_times() {
        let schedule = Schedule::of_thread(1000.0, 0, 1);
        let mut tally = Tally::new();
        // From 0.5 s on nothing was served for half a second: 500 visits waited 500, 499, ... ms.
        schedule.count_unserved(500, seconds(1.0), seconds(1.0), &mut tally);
        let all = tally.all();
        assert_eq!(all.count(), 500);
        let median = all.percentile(50.0).unwrap() as f64 / 1e9;
        assert!((0.24..0.26).contains(&median), "{median}");
        assert!((0.495..0.51).contains(&(all.max().unwrap() as f64 / 1e9)));
    }

    #[test]
    fn waiting_never_ends_early() {
        let start = Instant::now();
        for due in [0.0, 0.000_02, 0.000_5, 0.002] {
            wait_until(start, seconds(due));
            assert!(start.elapsed() >= seconds(due));
        }
    }
}
