//! The recording of `plimsoll hold`: the settings, the goal and the course of the level.

use serde::{Deserialize, Serialize};

/// Version of the document of `plimsoll hold --json`, and of `hold` in `results.json`.
pub const HOLD_SCHEMA: u32 = 1;
/// Name of the scenario in a recording of `plimsoll hold`.
pub const HOLD_SCENARIO: &str = "hold";
/// The phase until the level is first within its tolerance.
pub const APPROACH: &str = "approach";
/// The phase after that. The event at the end of the last phase has a [`HoldEnd`] as its text.
pub const HOLD: &str = "hold";

/// Tolerance of a level of memory, as a share of the goal.
pub const TOLERANCE: f64 = 0.02;
/// Tolerance of a pressure in percentage points; half of the goal for a goal below 10%.
pub const TOLERANCE_POINTS: f64 = 5.0;

/// The level to hold, in bytes or in percent of the time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldGoal {
    /// Bytes that stay available to other programs.
    AvailableBytes(u64),
    /// Bytes to hold, independent of other programs.
    HeldBytes(u64),
    /// Time in which some task waits for memory.
    SomePercent(f64),
    /// Time in which all tasks wait for memory.
    FullPercent(f64),
}

impl HoldGoal {
    /// The percentage of a pressure.
    pub fn percent(self) -> Option<f64> {
        match self {
            HoldGoal::SomePercent(percent) | HoldGoal::FullPercent(percent) => Some(percent),
            HoldGoal::AvailableBytes(_) | HoldGoal::HeldBytes(_) => None,
        }
    }

    /// Tolerance of the present goal, in bytes or in points. A ramp and a leak move the goal.
    pub fn tolerance(self, now: f64) -> f64 {
        match self.percent() {
            Some(percent) => TOLERANCE_POINTS.min(percent / 2.0),
            None => TOLERANCE * now,
        }
    }

    /// True for a level within the tolerance.
    pub fn is_within(self, level: f64, now: f64) -> bool {
        (level - now).abs() <= self.tolerance(now)
    }
}

/// The request of a hold, resolved for its scope; in the recording the text of its event `environment`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HoldSettings {
    pub goal: HoldGoal,
    /// Bytes a second of a leak; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leak_bytes_per_s: Option<u64>,
    /// Path of the cgroup of the level; null for the machine.
    pub cgroup: Option<String>,
    /// MemTotal or the limit of the cgroup; null for a cgroup without a limit.
    pub total_bytes: Option<u64>,
    /// Bytes that stay available to the rest of the machine.
    pub reserve_bytes: u64,
    pub ramp_s: f64,
    /// Seconds after which the memory is released; null for a hold until a signal.
    pub duration_s: Option<f64>,
    /// Class of the data in the memory; absent for a pressure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Seconds between two reads of a page; absent if the worker reads none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub touch_every_s: Option<f64>,
}

/// The reason for the end of a hold. The JSON name never changes its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum HoldEnd {
    Duration,
    Signal,
    /// The machine's reserve was reached.
    Reserve,
    /// An error: the worker was killed, the level could not be read.
    Failed,
    /// A reason of a later version.
    #[serde(other)]
    Other,
}

/// Least, mean and most of the looks at a level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread<T> {
    pub least: T,
    pub mean: f64,
    pub most: T,
    #[serde(skip)]
    count: u64,
}

impl<T: Copy + PartialOrd> Spread<T> {
    /// Adds a look; `number` is the value for the mean.
    pub fn add(&mut self, value: T, number: f64) {
        if self.count == 0 || value < self.least {
            self.least = value;
        }
        if self.count == 0 || value > self.most {
            self.most = value;
        }
        self.count += 1;
        self.mean += (number - self.mean) / self.count as f64;
    }

    /// The spread for a document, which has no number of looks; `None` without a look.
    pub fn known(self) -> Option<Spread<T>> {
        (self.count > 0).then_some(Spread { count: 0, ..self })
    }
}

/// The course of a hold: the document of `plimsoll hold --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeldLevel {
    /// [`HOLD_SCHEMA`].
    pub schema: u32,
    /// Null before the end, and for a killed hold.
    pub ended: Option<HoldEnd>,
    pub seconds: f64,
    #[serde(flatten)]
    pub settings: HoldSettings,
    /// Seconds until the level was first within its tolerance; null if it never was.
    pub reached_s: Option<f64>,
    /// Share of the looks since then at which the level was within the tolerance.
    pub within: Option<f64>,
    /// Bytes held since then; absent for a pressure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_bytes: Option<Spread<u64>>,
    /// Distance from the goal since then; absent for a pressure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_bytes: Option<Spread<u64>>,
    /// Percent of the time that was a stall, since then; absent for a level of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_percent: Option<Spread<f64>>,
    /// CPU time since then in percent of one CPU: of the command, with the recording if it makes one, and of its worker.
    pub cpu_percent: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_spread_has_least_mean_and_most() {
        let mut spread = Spread::default();
        assert_eq!(spread.known(), None);
        for value in [5_u64, 1, 9, 5] {
            spread.add(value, value as f64);
        }
        assert_eq!((spread.least, spread.most), (1, 9));
        assert!((spread.mean - 5.0).abs() < 1e-9);
    }

    #[test]
    fn a_level_is_held_within_two_percent_and_a_pressure_within_five_points() {
        let bytes = HoldGoal::AvailableBytes(100);
        assert!(bytes.is_within(102.0, 100.0) && bytes.is_within(98.0, 100.0));
        assert!(!bytes.is_within(103.0, 100.0));
        // A ramp is at half of its goal.
        assert!(!bytes.is_within(52.0, 50.0));
        let pressure = HoldGoal::SomePercent(50.0);
        assert!(pressure.is_within(55.0, 50.0) && !pressure.is_within(44.9, 50.0));
        let low = HoldGoal::FullPercent(4.0);
        assert!(low.is_within(2.0, 4.0) && !low.is_within(1.9, 4.0));
    }

    #[test]
    fn an_end_of_a_later_version_reads_as_other() {
        let end: HoldEnd = serde_json::from_str("\"of-a-later-version\"").unwrap();
        assert_eq!(end, HoldEnd::Other);
        assert_eq!(serde_json::to_string(&HoldEnd::Reserve).unwrap(), "\"reserve\"");
    }

    fn goals() -> impl Strategy<Value = HoldGoal> {
        prop_oneof![
            any::<u64>().prop_map(HoldGoal::AvailableBytes),
            any::<u64>().prop_map(HoldGoal::HeldBytes),
            (0.1..100.0).prop_map(HoldGoal::SomePercent),
            (0.1..100.0).prop_map(HoldGoal::FullPercent),
        ]
    }

    fn settings() -> impl Strategy<Value = HoldSettings> {
        let limits = (any::<Option<u64>>(), any::<u64>(), any::<Option<u64>>());
        let times = (0.0..1e6, prop::option::of(0.0..1e6), prop::option::of(0.1..1e6));
        let texts = (any::<Option<String>>(), any::<Option<String>>());
        (goals(), limits, times, texts).prop_map(
            |(goal, (total_bytes, reserve_bytes, leak_bytes_per_s), times, (cgroup, class))| HoldSettings {
                goal,
                leak_bytes_per_s,
                cgroup,
                total_bytes,
                reserve_bytes,
                ramp_s: times.0,
                duration_s: times.1,
                class,
                touch_every_s: times.2,
            },
        )
    }

    fn spread(values: &[u64]) -> Option<Spread<u64>> {
        let mut spread = Spread::default();
        values.iter().for_each(|value| spread.add(*value, *value as f64));
        spread.known()
    }

    proptest! {
        #[test]
        fn a_document_is_read_as_it_was_written(
            settings in settings(),
            numbers in prop::collection::vec(any::<u64>(), 0..4),
            reached_s in prop::option::of(0.0..1e6),
            within in prop::option::of(0.0..1.0),
        ) {
            let stalled_percent = spread(&numbers).map(|known| Spread {
                least: known.least as f64,
                mean: known.mean,
                most: known.most as f64,
                count: 0,
            });
            let level = HeldLevel {
                schema: HOLD_SCHEMA,
                ended: reached_s.map(|_| HoldEnd::Signal),
                seconds: 1.5,
                settings,
                reached_s,
                within,
                held_bytes: spread(&numbers),
                off_bytes: None,
                stalled_percent,
                cpu_percent: within,
            };
            let text = serde_json::to_string(&level).unwrap();
            prop_assert_eq!(serde_json::from_str::<HeldLevel>(&text).unwrap(), level.clone());
            // A field of a later version changes nothing.
            let later = text.replacen('{', "{\"of_a_later_version\": {\"x\": 1}, ", 1);
            prop_assert_eq!(serde_json::from_str::<HeldLevel>(&later).unwrap(), level);
        }
    }
}
