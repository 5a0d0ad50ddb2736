//! A trial of a recording, and its phases.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::failure::{FailureCode, TrialFailure};
use super::levels::Levels;
use super::renamed;

/// A line of `trials.jsonl` and an element of `results.json`'s `trials`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// [`crate::scenario::TrialPlan::id`].
    pub id: String,
    /// The workload, by its name in a scenario file.
    #[serde(default = "compression")]
    pub workload: String,
    pub subject: String,
    /// Swept and headline parameters by name: `size` is always there.
    #[serde(deserialize_with = "renamed::map")]
    pub params: BTreeMap<String, String>,
    /// Repeat, from 1.
    pub repeat: u32,
    pub status: TrialStatus,
    /// Why it is not ok. Empty exactly when `status` is ok.
    pub reasons: Vec<String>,
    /// The reasons of a failed trial with their codes, the one that ended it first. Their messages begin `reasons`, so
    /// that a reader of earlier versions finds them there. Earlier versions wrote none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<TrialFailure>,
    /// Metrics that confounders spoil, and times and speeds of phases (`trim.seconds`, `trim.gb_per_s`), each with the
    /// names of the confounders. `status` is ok if none of them is a main metric of the workload. In `results.json` only:
    /// the analysis adds it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub untrustworthy: BTreeMap<String, Vec<String>>,
    /// Programs outside of the run by CPU time in the trial, in percent of all CPUs, most first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_programs: Vec<(String, f64)>,
    /// Whether the verification of the workload ran and passed: for compression every byte read back, for other
    /// workloads the data, pages or counts that their documentation names.
    pub verified: bool,
    /// Start and end in nanoseconds since the start of the recording.
    pub span_ns: (u64, u64),
    /// The phases that ran, in order.
    pub phases: Vec<Phase>,
    /// Metrics by name; the units are in the names (`_bytes`, `_gb_per_s`, `_ratio`, `_s`).
    #[serde(deserialize_with = "renamed::map")]
    pub metrics: BTreeMap<String, f64>,
    /// Values with one entry for each of several things, by name; the documentation of the workload
    /// names them.
    #[serde(
        default,
        deserialize_with = "renamed::map",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub lists: BTreeMap<String, Vec<f64>>,
}

/// The workload of recordings without one.
fn compression() -> String {
    "compression".to_owned()
}

impl Trial {
    /// Whether the only problem is a phase that could not run here: the others passed their verification.
    pub fn lacks_only_a_phase(&self) -> bool {
        let all_not_run = match self.failures.as_slice() {
            // A trial of an earlier version.
            [] => !self.reasons.is_empty() && self.reasons.iter().all(|reason| reason.contains(NOT_RUN)),
            failures => failures.iter().all(|failure| failure.code == FailureCode::NotRun),
        };
        self.verified && all_not_run
    }

    /// The status of one metric, or of the time or speed of a phase (`trim.seconds`).
    pub fn status_of(&self, metric: &str) -> TrialStatus {
        match self.status {
            TrialStatus::Failed => TrialStatus::Failed,
            // The trial of a document that does not name the metrics.
            TrialStatus::Untrustworthy if self.untrustworthy.is_empty() => TrialStatus::Untrustworthy,
            _ if self.untrustworthy.contains_key(metric) => TrialStatus::Untrustworthy,
            _ => TrialStatus::Ok,
        }
    }

    /// A trial that went well, of these phases and with nothing else known of it.
    pub fn made_up(workload: &str, phases: Vec<Phase>) -> Trial {
        Trial {
            id: "made-up#1".to_owned(),
            workload: workload.to_owned(),
            subject: "zram".to_owned(),
            params: BTreeMap::new(),
            repeat: 1,
            status: TrialStatus::Ok,
            reasons: Vec::new(),
            failures: Vec::new(),
            untrustworthy: BTreeMap::new(),
            other_programs: Vec::new(),
            verified: true,
            span_ns: (0, 0),
            phases,
            metrics: BTreeMap::new(),
            lists: BTreeMap::new(),
        }
    }
}

/// Part of a trial's reason for a phase that could not run, by which trials without codes are recognised.
pub const NOT_RUN: &str = "did not run";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrialStatus {
    /// Done as asked and verified.
    Ok,
    /// Not done as asked: a wrong byte, a killed worker, a size not reached.
    Failed,
    /// Done, but a confounder spoils at least one main metric of the workload.
    Untrustworthy,
}

/// For serde: whether a value of 0 is left out.
fn is_zero(value: &f64) -> bool {
    *value <= 0.0
}

/// A named, timed part of a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Name: `fill`, `trim`, `restore` and `release` of the compression experiment.
    pub name: String,
    /// Start and end in nanoseconds since the start of the recording.
    pub span_ns: (u64, u64),
    /// Wall seconds, measured around the work alone.
    pub seconds: f64,
    /// Bytes worked on.
    pub bytes: u64,
    /// `bytes / seconds / 1e9`.
    pub gb_per_s: f64,
    /// User CPU seconds of the worker.
    pub cpu_user_s: f64,
    /// System CPU seconds of the worker.
    pub cpu_system_s: f64,
    /// CPU seconds of kernel threads (kswapd, kcompactd, zswap and zram writers, kdamond).
    pub cpu_kernel_threads_s: f64,
    /// CPU seconds of the worker that holds the level `background`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cpu_background_s: f64,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// Bytes in each category just before.
    pub before: Levels,
    /// Bytes in each category just after.
    pub after: Levels,
    /// Further values by name, with the unit at the end; the workload documents them.
    #[serde(
        default,
        alias = "figures",
        deserialize_with = "renamed::map",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub values: BTreeMap<String, f64>,
    /// Every latency of the phase in nanoseconds, as a compressed HdrHistogram (V2, base64).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<String>,
    /// Where CPU time went: functions of the kernel by name with their share of the phase's CPU time
    /// in percent, largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profile: Vec<(String, f64)>,
}
