//! Thrashing, found with hysteresis.

use std::time::Duration;

/// Reading of the gauge over the time since the one before.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Pressure {
    /// Share of time in which some task stalled for memory, 0 to 1.
    pub(super) stalled: f64,
    pub(super) refaults_per_s: f64,
}

/// Above both the machine thrashes.
const HIGH: Pressure = Pressure {
    stalled: 0.2,
    refaults_per_s: 200.0,
};
/// Below one of both it is calm.
const LOW: Pressure = Pressure {
    stalled: 0.1,
    refaults_per_s: 100.0,
};
/// Time above [`HIGH`] until it counts as thrashing: shorter bursts pass by themselves.
const RISE: Duration = Duration::from_secs(3);
/// Time below [`LOW`] until it counts as calm.
const FALL: Duration = Duration::from_secs(10);

impl Pressure {
    pub(super) fn is_high(self) -> bool {
        self.stalled >= HIGH.stalled && self.refaults_per_s >= HIGH.refaults_per_s
    }

    fn is_low(self) -> bool {
        self.stalled < LOW.stalled || self.refaults_per_s < LOW.refaults_per_s
    }
}

#[derive(Debug, Default)]
pub(super) struct Detector {
    thrashes: bool,
    /// When the readings in a row began that ask for the other state.
    since: Option<Duration>,
}

impl Detector {
    /// Takes in a reading. Returns the new state where it changes.
    pub(super) fn take(&mut self, at: Duration, pressure: Pressure) -> Option<bool> {
        let (asks, time) = match self.thrashes {
            false => (pressure.is_high(), RISE),
            true => (pressure.is_low(), FALL),
        };
        if !asks {
            self.since = None;
            return None;
        }
        let since = *self.since.get_or_insert(at);
        if at.saturating_sub(since) < time {
            return None;
        }
        self.since = None;
        self.thrashes = !self.thrashes;
        Some(self.thrashes)
    }

    /// Leaves a reading out: those around it are not in a row.
    pub(super) fn skip(&mut self) {
        self.since = None;
    }

    /// Whether a reading in a row asks for thrashing.
    pub(super) fn is_rising(&self) -> bool {
        !self.thrashes && self.since.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(readings: &[(f64, f64)]) -> Vec<(u64, bool)> {
        let mut detector = Detector::default();
        let readings = readings.iter().enumerate();
        let found = readings.filter_map(|(second, &(stalled, refaults_per_s))| {
            let at = Duration::from_secs(second as u64);
            let pressure = Pressure {
                stalled,
                refaults_per_s,
            };
            Some((second as u64, detector.take(at, pressure)?))
        });
        found.collect()
    }

    #[test]
    fn a_burst_is_no_thrashing_and_a_pause_is_no_calm() {
        let (high, low, between) = ((0.9, 9000.0), (0.0, 0.0), (0.15, 150.0));
        assert_eq!(changes(&[high, high, low, high, high, low]), []);
        assert_eq!(changes(&[high; 10]), [(3, true)]);
        let mut pauses = vec![high; 4];
        for _ in 0..5 {
            pauses.extend([low; 9]);
            pauses.push(between);
        }
        assert_eq!(changes(&pauses), [(3, true)]);
        pauses.extend([low; 11]);
        assert_eq!(changes(&pauses).last(), Some(&(64, false)));
    }

    /// Stalls of other cgroups, and refaults that stall no task, are no thrashing of the scope.
    #[test]
    fn thrashing_has_both_signs() {
        assert_eq!(changes(&[(0.9, 0.0); 10]), []);
        assert_eq!(changes(&[(0.0, 9000.0); 10]), []);
    }
}
