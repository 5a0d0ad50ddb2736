//! The gain of a member: the stall that more memory would spare it.

use std::time::Duration;

use super::distances::{Counts, Period, RefaultDistances};

/// The shortest time over which refaults are counted to a rate.
const SHORTEST_PERIOD_MS: u32 = 200;

/// A member whose threads together stall for this part of the time asks for rounds more often.
const STALLED_PART: u64 = 16;

/// The gain of a member over time.
#[derive(Debug)]
pub(super) struct Meter {
    pub(super) counts: Counts,
    pub(super) stall_us: u64,
    /// Time of the last measurement; none before the first.
    measured_at: Option<u32>,
    pub(super) gain: u64,
    /// The gain by the last measurement alone.
    pub(super) gain_now: u64,
    /// Whether the stall of all threads together was at least a sixteenth of the last period.
    pub(super) is_stalled: bool,
}

impl Meter {
    pub(super) fn new() -> Meter {
        Meter {
            counts: RefaultDistances::new().counts(),
            stall_us: 0,
            measured_at: None,
            gain: 0,
            gain_now: 0,
            is_stalled: false,
        }
    }

    /// Updates the gain by the refaults since the last measurement, if that is long enough ago: half of it is the present
    /// one, half the one before.
    pub(super) fn measure(
        &mut self,
        distances: &RefaultDistances,
        stall: Duration,
        now: u32,
        least: u64,
        most: u64,
    ) {
        let elapsed = self.measured_at.map(|then| now.wrapping_sub(then));
        if elapsed.is_some_and(|elapsed| elapsed < SHORTEST_PERIOD_MS) {
            return;
        }
        let counts = distances.counts();
        let stall_us = u64::try_from(stall.as_micros()).unwrap_or(u64::MAX);
        if let Some(milliseconds) = elapsed {
            let period = Period {
                counts: std::array::from_fn(|class| counts[class].saturating_sub(self.counts[class])),
                stall_us: stall_us.saturating_sub(self.stall_us),
                milliseconds: u64::from(milliseconds),
            };
            self.is_stalled = period.stall_us >= period.milliseconds * 1000 / STALLED_PART;
            self.gain_now = period.gain(least, most);
            self.gain = self.gain / 2 + self.gain_now / 2;
        }
        (self.counts, self.stall_us, self.measured_at) = (counts, stall_us, Some(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gain_follows_the_refaults_of_each_period() {
        let distances = RefaultDistances::new();
        (0..500).for_each(|_| distances.record(1024));
        let mut meter = Meter::new();
        // Refaults before the member joined are of no known time.
        meter.measure(&distances, Duration::from_micros(5000), u32::MAX - 99, 1, 1 << 20);
        assert_eq!(meter.gain, 0);
        (0..100).for_each(|_| distances.record(1024));
        meter.measure(&distances, Duration::from_micros(6000), u32::MAX, 1, 1 << 20);
        assert_eq!(meter.gain, 0, "100 ms are too short");
        // 1000 us of stall in a second, whose clock wraps: 256,000 us for each GiB, of which half counts at first.
        meter.measure(&distances, Duration::from_micros(6000), 900, 1, 1 << 20);
        assert_eq!((meter.gain, meter.gain_now), (128_000, 256_000));
        meter.measure(&distances, Duration::from_micros(6000), 1900, 1, 1 << 20);
        assert_eq!((meter.gain, meter.gain_now), (64_000, 0), "no more refaults");
        assert!(!meter.is_stalled);
        meter.measure(&distances, Duration::from_micros(6000 + 62_500), 2900, 1, 1 << 20);
        assert!(meter.is_stalled);
    }
}
