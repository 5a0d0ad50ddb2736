//! What a report shows, as plain values: the nouns that analysis fills in and that the page draws.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::recording::model::{Manifest, Results};

/// Everything that the page shows of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Page {
    /// The verdict in a sentence ([`super::verdict::sentence`]).
    pub verdict: String,
    /// What was asked, of which machine.
    pub manifest: Manifest,
    /// The numbers of every trial.
    pub results: Results,
    /// The trials that differ in nothing but the repeat, together.
    pub groups: Vec<Group>,
    /// The whole run.
    pub overview: Timeline,
    /// One per trial that has samples, in the order in which they ran.
    pub trials: Vec<Timeline>,
    /// The numbered events, by time.
    pub marks: Vec<Mark>,
}

/// Trials that differ in nothing but the repeat.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// What tells it from the other groups: subject, class and the swept keys.
    pub label: String,
    /// The subject as text.
    pub subject: String,
    /// The class as text.
    pub class: String,
    /// Identifiers of its trials, in the order in which they ran.
    pub trials: Vec<String>,
    /// Estimates by name; the units are in the names (`_bytes`, `_gb_per_s`, `_ratio`, `_s`).
    pub metrics: BTreeMap<String, Estimate>,
}

/// A metric over the repeats of a group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// Median of the runs.
    pub median: f64,
    /// 95% interval of the median, low and high; `None` where there are too few runs for one.
    pub interval: Option<(f64, f64)>,
    /// Every run: trial and value.
    pub runs: Vec<(String, f64)>,
}

/// A stretch of time, in buckets.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Timeline {
    /// The trial it shows; `None` for the whole run.
    pub trial: Option<String>,
    /// Seconds since the start of the recording, of each bucket.
    pub t: Vec<f64>,
    /// Bytes in each category, mean of the bucket, bottom to top: in every bucket they sum to MemTotal.
    pub layers: Vec<Series>,
    /// Bytes used of each swap device.
    pub swap: Vec<Series>,
    /// Bytes a second into and out of swap and block devices.
    pub io: Vec<Series>,
    /// Faults a second by kind.
    pub faults: Vec<Series>,
    /// Pressure stall, percent of time.
    pub pressure: Vec<Series>,
    /// CPU by use, percent of all CPUs; idle left out.
    pub cpu: Vec<Series>,
}

/// One quantity over the buckets of a [`Timeline`].
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Series {
    /// Stable name.
    pub key: String,
    /// Words for people.
    pub label: String,
    /// A value a bucket; `None` where no sample was taken: a gap, never interpolated.
    pub values: Vec<Option<f64>>,
}

/// A numbered event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mark {
    /// Seconds since the start of the recording.
    pub t: f64,
    /// Number for people: 1 fill, 2 trim, 3 restore, 4 release.
    pub number: u32,
    /// What began.
    pub label: String,
    /// Trial it belongs to.
    pub trial: Option<String>,
}

impl Page {
    /// The group that a trial belongs to.
    pub fn group_of(&self, trial: &str) -> Option<&Group> {
        self.groups
            .iter()
            .find(|group| group.trials.iter().any(|id| id == trial))
    }

    /// The marks of one trial, by time.
    pub fn marks_of<'a>(&'a self, trial: &'a str) -> impl Iterator<Item = &'a Mark> {
        self.marks
            .iter()
            .filter(move |mark| mark.trial.as_deref() == Some(trial))
    }
}

impl Group {
    /// Seconds to fill.
    pub const FILL_TIME: &str = "fill_s";
    /// Seconds to trim.
    pub const TRIM_TIME: &str = "trim_s";
    /// Seconds to read everything back.
    pub const RESTORE_TIME: &str = "restore_s";
    /// Speed of the fill.
    pub const FILL_SPEED: &str = "fill_gb_per_s";
    /// Speed of the trim.
    pub const TRIM_SPEED: &str = "trim_gb_per_s";
    /// Speed of the restore.
    pub const RESTORE_SPEED: &str = "restore_gb_per_s";
    /// Bytes in the compressed store (or on the swap device) after the trim.
    pub const STORED: &str = "stored_bytes";
    /// Bytes trimmed over bytes stored.
    pub const RATIO: &str = "compression_ratio";
    /// Speed of the trim over the calibrated memset.
    pub const TRIM_TO_MEMSET: &str = "trim_to_memset_ratio";
    /// Speed of the restore over the calibrated read with checksum.
    pub const RESTORE_TO_READ: &str = "restore_to_read_ratio";
    /// Working set before and after the trim.
    pub const WORKING_SET: [&str; 2] = ["working_set_before_trim_bytes", "working_set_after_trim_bytes"];
    /// Compressed store before and after the trim.
    pub const COMPRESSED: [&str; 2] = ["compressed_before_trim_bytes", "compressed_after_trim_bytes"];
    /// Swap used before and after the trim.
    pub const SWAP_USED: [&str; 2] = ["swap_used_before_trim_bytes", "swap_used_after_trim_bytes"];

    /// Median of a metric, where the group has it.
    pub fn median(&self, metric: &str) -> Option<f64> {
        self.metrics.get(metric).map(|estimate| estimate.median)
    }
}

impl Estimate {
    /// The highest of the runs, the median and the interval.
    pub fn highest(&self) -> f64 {
        let interval = self.interval.map_or(self.median, |(_, high)| high);
        self.runs
            .iter()
            .map(|(_, value)| *value)
            .fold(interval.max(self.median), f64::max)
    }

    /// The lowest of the runs.
    pub fn lowest(&self) -> f64 {
        self.runs
            .iter()
            .map(|(_, value)| *value)
            .fold(self.median, f64::min)
    }
}
