//! The documents of a recording. Each has the version of its schema.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::hold::{HOLD_SCENARIO, HeldLevel, HoldEnd};
use super::recommendation::{Recommendation, Withheld};
use super::renamed;
use super::service::{SERVICE, ServiceSize};
use super::size::ProgramSize;
use super::statement::{Statement, statements_or_text};
pub use super::trial::{NOT_RUN, Phase, Trial, TrialStatus};
use super::warning::{Warning, WarningCode};
use crate::scenario::Plan;

/// Version of the recording format (manifest, samples, events, trials). 2 has the events of `plimsoll watch`, 3 the
/// workloads other than compression, 4 samples as packed differences rather than with zstd, and each workload's
/// settings with the workload, 5 `values` of phases, which were `figures`.
pub const RECORDING_SCHEMA: u32 = 5;
/// Version of `results.json`. 2 has the values, lists and latencies of the workloads other than compression, 3 the
/// names `neighbour_*` and `wakeup_*`, 4 warnings with a code, the headline, the findings, the recommendations, and the
/// untrustworthy metrics of each trial, 5 `values` of phases, which were `figures`, 6 codes, values and names of the
/// statements of the headline and of the findings, which were texts.
pub const RESULTS_SCHEMA: u32 = 6;

/// File names inside a recording folder.
pub mod file {
    /// The plan and the machine.
    pub const MANIFEST: &str = "manifest.json";
    /// Samples as an Arrow IPC stream, of a run in progress or interrupted.
    pub const SAMPLES_LIVE: &str = "samples.arrows";
    /// Samples as Parquet, once finished.
    pub const SAMPLES: &str = "samples.parquet";
    /// Events, a JSON document a line.
    pub const EVENTS: &str = "events.jsonl";
    /// Trials, a JSON document a line, each appended when it ended.
    pub const TRIALS: &str = "trials.jsonl";
    /// The verdict and all metrics, written at the end of the run. `plimsoll report` computes them anew and writes
    /// none.
    pub const RESULTS: &str = "results.json";
    pub const REPORT: &str = "report.html";
    /// Standard output of a program that the monitor started, if a user interface draws.
    pub const OUTPUT: &str = "stdout.txt";
    /// Its standard error.
    pub const ERRORS: &str = "stderr.txt";

    /// The names of all files of a recording.
    pub const ALL: [&str; 9] = [
        MANIFEST,
        SAMPLES_LIVE,
        SAMPLES,
        EVENTS,
        TRIALS,
        RESULTS,
        REPORT,
        OUTPUT,
        ERRORS,
    ];
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`RECORDING_SCHEMA`].
    pub schema: u32,
    /// Version of the program that wrote it.
    pub tool_version: String,
    /// Name of the run: `<scenario>-<UTC time>-<four hex digits>`.
    pub run: String,
    pub command: Vec<String>,
    /// Start in nanoseconds of CLOCK_MONOTONIC: sample and event times are relative to it.
    pub monotonic_start_ns: u64,
    /// Start in UTC, RFC 3339.
    pub started: String,
    /// The scenario, resolved for the machine.
    pub plan: Plan,
    pub sampler: SamplerSettings,
    /// Devices behind the `swapN_*` columns, by slot, filled in as they were seen by the end of the run.
    pub swap_slots: Vec<String>,
    pub host: Host,
    /// Speeds of the undisturbed machine; absent until measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// Missing capabilities, each with the phases that could not run. If not empty, the run is incomplete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// The later parts of the run, when it was resumed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed: Vec<Resumption>,
    /// xxh3 of finished files by name, 16 hex digits, so that a reader can tell damage from a measurement.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub checksums: BTreeMap<String, String>,
}

impl Manifest {
    /// Whether it is a recording of `plimsoll watch`: its plan has no trials.
    pub fn is_watch(&self) -> bool {
        self.plan.scenario == WATCH && self.plan.trials.is_empty()
    }

    /// Whether it is a recording of `plimsoll size --cgroup`: its plan has no trials.
    pub fn is_service(&self) -> bool {
        self.plan.scenario == SERVICE && self.plan.trials.is_empty()
    }

    /// Whether it is a recording of `plimsoll hold`: its plan has no trials.
    pub fn is_hold(&self) -> bool {
        self.plan.scenario == HOLD_SCENARIO && self.plan.trials.is_empty()
    }

    /// Whether it has phases, but no trials.
    pub fn has_lone_phases(&self) -> bool {
        self.is_service() || self.is_hold()
    }

    /// Whether it is a recording without trials, in which no confounder can spoil a metric.
    pub fn observes(&self) -> bool {
        self.is_watch() || self.has_lone_phases()
    }

    /// The target of a recording of `plimsoll watch`; of any other recording, the title of its plan.
    pub fn target(&self) -> &str {
        let title = self.plan.title.as_str();
        match self.is_watch() {
            true => title.strip_prefix(WATCH_TITLE).unwrap_or(title),
            false => title,
        }
    }
}

/// Name of the scenario in a recording of `plimsoll watch`.
pub const WATCH: &str = "watch";

/// Start of the title of such a recording, before the target.
const WATCH_TITLE: &str = "watch of ";

/// The plan of a recording of `plimsoll watch`.
pub fn watch_plan(target: &str) -> Plan {
    Plan::without_trials(WATCH, format!("{WATCH_TITLE}{target}"))
}

/// A later part of a run that was resumed.
///
/// CLOCK_MONOTONIC restarts with the machine, so a part has its own origin: `monotonic_ns` on the clock is
/// `t_ns` in the recording, and later times follow from that. The time between the parts is not shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumption {
    /// Start of the part in UTC, RFC 3339.
    pub started: String,
    /// CLOCK_MONOTONIC at the start of the part, in nanoseconds.
    pub monotonic_ns: u64,
    /// The same instant in nanoseconds since the start of the recording.
    pub t_ns: u64,
    /// Version of the program that wrote the part.
    pub tool_version: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SamplerSettings {
    pub hz: u32,
    /// Whether the sampler's memory was locked.
    pub locked: Result<(), Unlocked>,
}

/// The reason for unlocked memory of the sampler, as recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(transparent)]
#[error("{0}")]
pub struct Unlocked(pub String);

impl Unlocked {
    pub fn of(error: &impl std::error::Error) -> Unlocked {
        Unlocked(error.to_string())
    }
}

/// The machine and everything about it that moves the numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    pub hostname: String,
    /// `uname -r` and `-v`.
    pub kernel: String,
    pub cpu: String,
    pub cpus: u32,
    /// MemTotal in bytes.
    pub mem_total: u64,
    pub page_size: u64,
    /// `v1`, `v2` or `none`.
    pub cgroup: String,
    /// Swap devices that were there before the run, with size in bytes.
    pub swap_before: Vec<(String, u64)>,
    /// Virtualisation as far as it shows (`kvm`, `xen`, `none`, ...).
    pub virtualization: String,
    /// Every relevant sysctl and sysfs value by path.
    pub settings: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Nanoseconds since the start of the recording.
    pub t_ns: u64,
    pub kind: EventKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<String>,
    /// Phase it belongs to ("fill", "trim", "restore" or "release").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Number of the event in reports, 1-4 in the compression scenario (1 fill, 2 trim, 3 restore, 4 release).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// The code of a warning. Earlier versions wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<WarningCode>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

impl Event {
    /// An event without trial or phase.
    pub fn new(t_ns: u64, kind: EventKind, text: impl Into<String>) -> Event {
        Event {
            t_ns,
            kind,
            trial: None,
            phase: None,
            number: None,
            code: None,
            text: text.into(),
        }
    }

    /// The warning of an event of that kind.
    pub fn warning(&self) -> Option<Warning> {
        let text = (self.kind == EventKind::Warning).then_some(&self.text)?;
        Some(Warning::new(self.code.unwrap_or_default(), text))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    RunStart,
    /// The run stopped early; `text` has the cause.
    Stopped,
    /// The run ended: everything is undone.
    RunEnd,
    /// Calibration began or ended (`text` says which).
    Calibration,
    TrialStart,
    TrialEnd,
    PhaseStart,
    PhaseEnd,
    /// The environment of a trial was set up; `text` describes it, as JSON. The undoing, before the trial's end, has
    /// no event.
    Environment,
    Warning,
    /// A mark: set by the user of the monitor (`number` 1-4, or a note in `text`), or appended by another program once
    /// the run has ended.
    Mark,
    /// The watched target started, ended, executed another program, or the user chose another one.
    Target,
    /// The user of the monitor trimmed the target; `text` has the result.
    Trim,
    /// The user of the monitor released reclaimable cache; `text` has the result.
    Release,
    /// The monitor counted page flags, which takes CPU; `text` has the result.
    PageFlags,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`RESULTS_SCHEMA`].
    pub schema: u32,
    /// Version of the program that wrote it.
    pub version: String,
    pub run: String,
    pub scenario: String,
    pub status: RunStatus,
    /// The head of every report. Empty for a recording of `plimsoll watch` or `hold` that is too long to analyse at its end.
    #[serde(default)]
    pub headline: Headline,
    /// The main results by workload, of trustworthy metrics only.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// The settings that the metrics support, of trustworthy metrics with an interval only.
    #[serde(default)]
    pub recommendations: Vec<Recommendation>,
    /// The recommendations that the metrics do not support.
    #[serde(default)]
    pub withheld: Vec<Withheld>,
    /// The RAM that the program of a search needs, as `plimsoll size --json` prints it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<ProgramSize>,
    /// The RAM that a running service needs, as `plimsoll size --cgroup --json` prints it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceSize>,
    /// The level that was held, as `plimsoll hold --json` prints it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<HeldLevel>,
    /// Speeds of the undisturbed machine.
    pub calibration: Option<Calibration>,
    /// Disturbances that may have changed the metrics.
    pub confounders: Vec<Confounder>,
    /// Anything else a reader must know.
    pub warnings: Vec<Warning>,
    pub sampler: SamplerReport,
    pub trials: Vec<Trial>,
}

/// Most samples that a command analyses at the end of its recording: 11 hours at 10 Hz. Analysis takes about a kilobyte
/// a sample.
pub const MOST_ANALYSED: u64 = 400_000;

impl Results {
    /// The results of a recording that is too long to analyse at its end, without its values.
    pub fn unread(manifest: &Manifest) -> Results {
        Results {
            schema: RESULTS_SCHEMA,
            version: manifest.tool_version.clone(),
            run: manifest.run.clone(),
            scenario: manifest.plan.scenario.clone(),
            status: RunStatus::Ok,
            headline: Headline::default(),
            findings: Vec::new(),
            recommendations: Vec::new(),
            withheld: Vec::new(),
            size: None,
            service: None,
            hold: None,
            calibration: None,
            confounders: Vec::new(),
            warnings: Vec::new(),
            sampler: SamplerReport::default(),
            trials: Vec::new(),
        }
    }
}

/// The head of a report, in the order of reading. Each fact stands in one place of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Headline {
    /// The main result, in one sentence. Its text is empty in results without a headline.
    pub finding: Statement,
    /// The other results: details of the main one or, with several workloads, the main result of each other one.
    pub bullets: Vec<Statement>,
    /// Whether trials failed or are untrustworthy, and the reason. Empty if nothing is known against the metrics.
    #[serde(deserialize_with = "statements_or_text")]
    pub trust: Vec<Statement>,
}

impl Headline {
    /// Its statements that have a text, in the order of reading.
    pub fn statements(&self) -> impl Iterator<Item = &Statement> {
        let all = std::iter::once(&self.finding)
            .chain(&self.bullets)
            .chain(&self.trust);
        all.filter(|statement| !statement.text.is_empty())
    }

    /// The statements on trust as one text; empty without any.
    pub fn trust_text(&self) -> String {
        let texts: Vec<&str> = self.trust.iter().map(|statement| &*statement.text).collect();
        texts.join(" ")
    }
}

/// A main result of a run, of trustworthy metrics only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The workload by its name, or `neighbour` for the effect on other processes.
    pub workload: String,
    /// One sentence.
    #[serde(flatten)]
    pub statement: Statement,
    /// Its details.
    #[serde(default)]
    pub bullets: Vec<Statement>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunStatus {
    Ok,
    Failed,
    /// No trial failed, at least one is untrustworthy.
    Untrustworthy,
    /// The run was cut short (signal, kill, tripwire); it has the trials done so far.
    Interrupted,
    /// A capability was missing and some phases could not run.
    Incomplete,
}

impl RunStatus {
    /// The status of a recording of `plimsoll hold`. A hold without a duration ends by a signal.
    pub fn of_hold(level: &HeldLevel) -> RunStatus {
        match (level.ended, level.reached_s) {
            (Some(HoldEnd::Failed), _) | (Some(HoldEnd::Duration), None) => RunStatus::Failed,
            (Some(HoldEnd::Duration), Some(_)) => RunStatus::Ok,
            (Some(HoldEnd::Signal), Some(_)) if level.settings.duration_s.is_none() => RunStatus::Ok,
            _ => RunStatus::Interrupted,
        }
    }
}

/// Speeds of the undisturbed machine, measured at the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// memset of resident memory larger than the caches.
    pub memset_gb_per_s: f64,
    /// memcpy of resident memory larger than the caches (bytes copied).
    pub memcpy_gb_per_s: f64,
    /// First touch of an anonymous 4 KiB page.
    pub fault_ns: f64,
    /// memset of fresh memory, faults included.
    pub first_touch_gb_per_s: f64,
    /// A dependent load at random in memory larger than the caches.
    pub random_access_ns: f64,
    /// Reading the clock.
    pub timer_ns: f64,
    /// Sequential read of resident memory with the checksum that restore uses.
    pub read_gb_per_s: f64,
}

/// Something outside the experiment that may have moved its numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Confounder {
    /// [`crate::trust::ConfounderKind::name`].
    #[serde(deserialize_with = "renamed::name")]
    pub name: String,
    /// The observation, with numbers.
    pub evidence: String,
    /// Trials in which it makes metrics untrustworthy ([`crate::trust`]); empty when it is only to be known.
    pub spoils: Vec<String>,
    pub advice: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SamplerReport {
    /// Ticks a second asked for.
    pub hz: u32,
    pub samples: u64,
    /// Ticks taken more than half a period late.
    pub late: u64,
    /// Ticks that were skipped altogether.
    pub missed: u64,
    /// Samples that were taken and lost, since the recording was too slow to take them over.
    #[serde(default)]
    pub dropped: u64,
    /// CPU seconds of the sampling thread.
    pub cpu_s: f64,
    /// `cpu_s` over wall time, in percent of one core.
    pub cpu_percent: f64,
    /// CPU microseconds a sample.
    pub us_per_sample: f64,
}
