//! The documents of a recording, as they stand in its files. Every one carries its schema's version.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::renamed;
use crate::scenario::Plan;

/// Version of the recording format (manifest, samples, events, trials). 2 has the events of `plimsoll watch`, 3 the
/// kinds of work besides compression, 4 samples as packed differences rather than with zstd, and each workload's settings
/// with the workload.
pub const RECORDING_SCHEMA: u32 = 4;
/// Version of `results.json`. 2 has the values, lists and latencies of the workloads other than compression, 3 the names
/// `neighbour_*` and `wakeup_*`.
pub const RESULTS_SCHEMA: u32 = 3;

/// File names inside a recording folder.
pub mod file {
    /// What was asked, of which machine.
    pub const MANIFEST: &str = "manifest.json";
    /// Samples as an Arrow IPC stream, while the run goes on or after it was cut short.
    pub const SAMPLES_LIVE: &str = "samples.arrows";
    /// Samples as Parquet, once finished.
    pub const SAMPLES: &str = "samples.parquet";
    /// Events, a JSON document a line.
    pub const EVENTS: &str = "events.jsonl";
    /// Trials, a JSON document a line, each appended when it ended.
    pub const TRIALS: &str = "trials.jsonl";
    /// The verdict and all numbers, written at the end of the run. `plimsoll report` computes them anew and writes none.
    pub const RESULTS: &str = "results.json";
    /// The page.
    pub const REPORT: &str = "report.html";
}

/// `manifest.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`RECORDING_SCHEMA`].
    pub schema: u32,
    /// Version of the program that wrote it.
    pub tool_version: String,
    /// Name of the run: `<scenario>-<UTC time>-<four hex digits>`.
    pub run: String,
    /// The command line.
    pub command: Vec<String>,
    /// Start in nanoseconds of CLOCK_MONOTONIC: sample and event times are relative to it.
    pub monotonic_start_ns: u64,
    /// Start in UTC, RFC 3339.
    pub started: String,
    /// What was asked, resolved.
    pub plan: Plan,
    /// Sampler settings.
    pub sampler: SamplerSettings,
    /// Devices behind the `swapN_*` columns, by slot, filled in as they were seen by the end of the run.
    pub swap_slots: Vec<String>,
    /// The machine.
    pub host: Host,
    /// What the machine does when nothing is in the way, once measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// Capabilities that were missing, each with what could not run for it. Not empty: the run is incomplete.
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
    /// Whether it is a recording of `plimsoll watch`: nothing was asked of the machine, so there are no trials.
    pub fn is_watch(&self) -> bool {
        self.plan.scenario == WATCH && self.plan.trials.is_empty()
    }
}

/// What stands for the scenario in a recording of `plimsoll watch`.
pub const WATCH: &str = "watch";

/// A later part of a run that was resumed.
///
/// CLOCK_MONOTONIC restarts with the machine, so a part has its own origin: what was read as `monotonic_ns` is
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

/// How samples were taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SamplerSettings {
    /// Ticks a second.
    pub hz: u32,
    /// Whether the sampler's memory was locked; if not, why.
    pub locked: Result<(), String>,
}

/// The machine and everything about it that moves the numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Host name.
    pub hostname: String,
    /// `uname -r` and `-v`.
    pub kernel: String,
    /// CPU model.
    pub cpu: String,
    /// Online CPUs.
    pub cpus: u32,
    /// MemTotal in bytes.
    pub mem_total: u64,
    /// Page size in bytes.
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

/// A line of `events.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Nanoseconds since the start of the recording.
    pub t_ns: u64,
    /// What it is.
    pub kind: EventKind,
    /// Trial it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<String>,
    /// Phase it belongs to ("fill", "trim", "restore" or "release").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Number of the event for people, 1-4 in the compression scenario (1 fill, 2 trim, 3 restore, 4 release).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// Words for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// Kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// The run began.
    RunStart,
    /// The run was stopped before its time; `text` says by what.
    Stopped,
    /// The run ended: everything is undone.
    RunEnd,
    /// Calibration began or ended (`text` says which).
    Calibration,
    /// A trial began.
    TrialStart,
    /// A trial ended.
    TrialEnd,
    /// A phase began.
    PhaseStart,
    /// A phase ended.
    PhaseEnd,
    /// The environment of a trial was set up; `text` describes it, as JSON. The undoing, before the trial's end, has
    /// no event.
    Environment,
    /// Something a reader must know.
    Warning,
    /// A mark: set by whoever watches (`number` 1-4, or a note in `text`), or appended by another program once the run
    /// has ended.
    Mark,
    /// What is watched changed: it started, ended, became another program, or another target was chosen.
    Target,
    /// Whoever watches had the target trimmed; `text` says what left.
    Trim,
    /// Whoever watches had standby memory and page cache released; `text` says what was.
    Release,
    /// Page flags were counted, which takes CPU; `text` says what was found.
    PageFlags,
}

/// A line of `trials.jsonl` and an element of `results.json`'s `trials`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// [`crate::scenario::TrialPlan::id`].
    pub id: String,
    /// The kind of work, by its name in a scenario file.
    #[serde(default = "compression")]
    pub workload: String,
    /// The subject as text.
    pub subject: String,
    /// Swept and headline parameters by name: `size` is always there.
    #[serde(deserialize_with = "renamed::map")]
    pub params: BTreeMap<String, String>,
    /// Repeat, from 1.
    pub repeat: u32,
    /// The verdict on the trial.
    pub status: TrialStatus,
    /// Why it is not ok. Empty exactly when `status` is ok.
    pub reasons: Vec<String>,
    /// Whether what the work left behind was checked and right: of compression every byte that was read back, of other
    /// kinds of work the data, pages or counts that their documentation names.
    pub verified: bool,
    /// Start and end in nanoseconds since the start of the recording.
    pub span_ns: (u64, u64),
    /// The phases that ran, in order.
    pub phases: Vec<Phase>,
    /// Metrics by name; the units are in the names (`_bytes`, `_gb_per_s`, `_ratio`, `_s`).
    #[serde(deserialize_with = "renamed::map")]
    pub metrics: BTreeMap<String, f64>,
    /// Figures of which there is one for each of several things, by name; what they are of is said where the kind of
    /// work is documented.
    #[serde(
        default,
        deserialize_with = "renamed::map",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub lists: BTreeMap<String, Vec<f64>>,
}

/// The kind of work of recordings that say none.
fn compression() -> String {
    "compression".to_owned()
}

impl Trial {
    /// Whether nothing went wrong but that a phase could not run here: what did run is right, byte for byte.
    pub fn lacks_only_a_phase(&self) -> bool {
        self.verified
            && !self.reasons.is_empty()
            && self.reasons.iter().all(|reason| reason.contains(NOT_RUN))
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
            verified: true,
            span_ns: (0, 0),
            phases,
            metrics: BTreeMap::new(),
            lists: BTreeMap::new(),
        }
    }
}

/// What a trial's reason says of a phase that could not run.
pub const NOT_RUN: &str = "did not run";

/// Verdict on one trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrialStatus {
    /// Done as asked and verified.
    Ok,
    /// Not done as asked: a wrong byte, a killed worker, a size not reached.
    Failed,
    /// Done, but a confounder spoils the numbers.
    Untrustworthy,
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
    /// Minor faults of the worker.
    pub minor_faults: u64,
    /// Major faults of the worker.
    pub major_faults: u64,
    /// Bytes in each category just before.
    pub before: BTreeMap<String, i64>,
    /// Bytes in each category just after.
    pub after: BTreeMap<String, i64>,
    /// What else was measured, by name, with the unit in it: the kind of work says what.
    #[serde(
        default,
        deserialize_with = "renamed::map",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub figures: BTreeMap<String, f64>,
    /// Every latency of the phase in nanoseconds, as a compressed HdrHistogram (V2, base64).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<String>,
    /// Where CPU time went: functions of the kernel by name with their share of the phase's CPU time
    /// in percent, largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profile: Vec<(String, f64)>,
}

/// `results.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`RESULTS_SCHEMA`].
    pub schema: u32,
    /// Version of the program that wrote it.
    pub version: String,
    /// Name of the run.
    pub run: String,
    /// Name of the scenario.
    pub scenario: String,
    /// Verdict on the whole.
    pub status: RunStatus,
    /// What this machine does when nothing is in the way: name to figure; see [`Calibration`].
    pub calibration: Option<Calibration>,
    /// What may have moved the numbers, each with whether it spoils them.
    pub confounders: Vec<Confounder>,
    /// Anything else a reader must know.
    pub warnings: Vec<String>,
    /// What the sampler cost and missed.
    pub sampler: SamplerReport,
    /// The trials that ended.
    pub trials: Vec<Trial>,
}

/// Verdict on a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunStatus {
    /// All trials ok.
    Ok,
    /// At least one trial failed.
    Failed,
    /// No trial failed, at least one is untrustworthy.
    Untrustworthy,
    /// The run was cut short (signal, kill, tripwire); what is there is what was done.
    Interrupted,
    /// A capability was missing and some phases could not run.
    Incomplete,
}

/// What this machine does when nothing is in the way, measured at the start of the run.
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
    /// Short stable name: `damon`, `steal`, `other-load`, `other-swap`, `zswap`, `thp`, `page-reporting`,
    /// `cpu-frequency`, `neighbour`.
    #[serde(deserialize_with = "renamed::name")]
    pub name: String,
    /// What was seen, with numbers.
    pub evidence: String,
    /// Trials that it makes untrustworthy; empty when it is only to be known.
    pub spoils: Vec<String>,
    /// What to do about it.
    pub advice: String,
}

/// What the sampler cost and missed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SamplerReport {
    /// Ticks a second asked for.
    pub hz: u32,
    /// Samples taken.
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
