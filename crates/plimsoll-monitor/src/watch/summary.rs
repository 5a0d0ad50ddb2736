//! The summary at the end of `plimsoll watch`.

use std::path::PathBuf;

use serde::{Serialize, Serializer};

use super::account::{Account, PagerPeaks};
use super::outcome::Outcome;
use super::recorder::{Recorded, ended_early};
use plimsoll_model::columns::col;
use plimsoll_model::recording::RecordingError;
use plimsoll_model::recording::model::SamplerReport;
use plimsoll_sample::Delays;

/// Schema version of the JSON document.
pub const SUMMARY_SCHEMA: u32 = 2;

/// Observations from start to end of the monitor, or of the started program.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    pub schema: u32,
    pub title: String,
    /// Wall time.
    pub seconds: f64,
    pub samples: u64,
    pub program: Option<ProgramSummary>,
    /// Sampled values of the target's processes and cgroup. None without a target.
    pub target: Option<TargetSummary>,
    /// The whole machine during that time.
    pub machine: MachineSummary,
    pub monitor: MonitorSummary,
    #[serde(serialize_with = "lossy")]
    pub recording: Option<PathBuf>,
    /// HTML report of the recording.
    #[serde(serialize_with = "lossy")]
    pub page: Option<PathBuf>,
    /// Error of the recording or of its report.
    pub recording_error: Option<String>,
    /// Limits of these values.
    pub notes: Vec<String>,
}

/// A path as text. JSON has no other strings, and one path must not cost the document.
fn lossy<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_ref()
        .map(|path| path.to_string_lossy())
        .serialize(serializer)
}

/// A program that the monitor started. All values except the title include descendants, if their parents waited for
/// them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProgramSummary {
    /// Pid and command line.
    pub title: String,
    /// Exit code, unless a signal ended it.
    pub exit_code: Option<i32>,
    /// Signal that ended it.
    pub signal: Option<i32>,
    pub cpu_user_s: f64,
    pub cpu_system_s: f64,
    /// Faults served without a device.
    pub minor_faults: u64,
    /// Faults that waited for a read or a decompression.
    pub major_faults: u64,
    /// Largest resident size of any one of its processes. None if it is below the size of the monitor, with which the
    /// kernel's value begins.
    pub max_resident_bytes: Option<u64>,
    pub fault_time: FaultTime,
}

/// Time that all threads of a program waited in page faults.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum FaultTime {
    /// From the kernel's delay accounting.
    Measured {
        /// Lower bound: the greater of swap-in and thrashing, which overlap, plus all others.
        at_least_s: f64,
        swap_in_s: f64,
        /// Swap-in of recently reclaimed pages.
        thrashing_s: f64,
        /// Direct reclaim.
        reclaim_s: f64,
        /// Direct compaction.
        compaction_s: f64,
        /// Copy on write.
        copy_s: f64,
    },
    Unknown {
        /// Cause and remedy.
        reason: String,
        /// CPU time in the kernel. It includes decompression for faults, but no waits for a disk.
        cpu_system_s: f64,
    },
}

/// Sampled values of the target. Peaks between two samples are missing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TargetSummary {
    /// Largest sum of its processes' RSS.
    pub peak_resident_bytes: Option<i64>,
    /// Largest sum of its processes' swap.
    pub peak_swap_bytes: Option<i64>,
    /// Largest charge of its cgroup.
    pub peak_cgroup_bytes: Option<i64>,
    /// Largest sum of its processes' RSS and swap at one time.
    pub peak_memory_bytes: Option<i64>,
    /// Of its processes' pagers.
    pub peak_pagers: PagerPeaks,
    /// Observed minor faults. Faults of a process after its last sample are missing.
    pub minor_faults: i64,
    /// Observed major faults.
    pub major_faults: i64,
}

/// The whole machine from start to end. None if the kernel does not report the value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MachineSummary {
    pub swap_in_bytes: Option<u64>,
    pub swap_out_bytes: Option<u64>,
    /// Seconds in which at least one task waited for memory.
    pub memory_some_s: Option<f64>,
    /// Seconds in which all tasks waited for memory.
    pub memory_full_s: Option<f64>,
    /// Seconds in which at least one task waited for reads or writes.
    pub io_some_s: Option<f64>,
    /// Seconds in which all tasks waited for reads or writes.
    pub io_full_s: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MonitorSummary {
    pub sampler: SamplerReport,
    /// CPU seconds of the whole monitor.
    pub cpu_s: f64,
    /// Percent of one core over the wall time of the monitor.
    pub cpu_percent: f64,
}

impl Summary {
    /// Summarizes a closed account.
    pub(super) fn of(
        title: String,
        account: &Account,
        outcome: Option<&Outcome>,
        monitor: MonitorSummary,
        recorded: Option<Result<Recorded, RecordingError>>,
    ) -> Summary {
        let (recording, page, recording_error) = match recorded {
            None => (None, None, None),
            Some(Ok(recorded)) => (Some(recorded.folder), recorded.page, recorded.error),
            Some(Err(error)) => (None, None, Some(ended_early(&error))),
        };
        let mut notes = Vec::new();
        if outcome.is_some() && account.samples < 10 {
            notes.push(format!(
                "{} samples are too few for the sampled peaks: the program ran for less than ten periods",
                account.samples
            ));
        }
        let seen = [account.peak_resident, account.peak_swap, account.peak_cgroup];
        Summary {
            schema: SUMMARY_SCHEMA,
            title,
            seconds: account.seconds(),
            samples: account.samples,
            program: outcome.map(|outcome| program(outcome, account)),
            target: seen.iter().any(Option::is_some).then_some(TargetSummary {
                peak_resident_bytes: account.peak_resident,
                peak_swap_bytes: account.peak_swap,
                peak_cgroup_bytes: account.peak_cgroup,
                peak_memory_bytes: account.peak_memory,
                peak_pagers: account.peak_pagers,
                minor_faults: account.minor_faults,
                major_faults: account.major_faults,
            }),
            machine: machine(account),
            monitor,
            recording,
            page,
            recording_error,
            notes,
        }
    }
}

fn program(outcome: &Outcome, account: &Account) -> ProgramSummary {
    let usage = &outcome.ended.usage;
    let cpu_system_s = usage.system_us as f64 / 1e6;
    ProgramSummary {
        title: outcome.title.clone(),
        exit_code: outcome.ended.code,
        signal: outcome.ended.signal,
        cpu_user_s: usage.user_us as f64 / 1e6,
        cpu_system_s,
        minor_faults: usage.minor_faults,
        major_faults: usage.major_faults,
        max_resident_bytes: outcome.max_resident,
        fault_time: match account.delays() {
            Some(Ok(delays)) => measured(delays),
            Some(Err(error)) => FaultTime::Unknown {
                reason: error.to_string(),
                cpu_system_s,
            },
            None => FaultTime::Unknown {
                reason: "delay accounting was not read".to_owned(),
                cpu_system_s,
            },
        },
    }
}

fn measured(delays: Delays) -> FaultTime {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let swapped = seconds(delays.swap_in_ns.max(delays.thrashing_ns));
    let others = seconds(delays.reclaim_ns + delays.compaction_ns + delays.copy_ns);
    FaultTime::Measured {
        at_least_s: swapped + others,
        swap_in_s: seconds(delays.swap_in_ns),
        thrashing_s: seconds(delays.thrashing_ns),
        reclaim_s: seconds(delays.reclaim_ns),
        compaction_s: seconds(delays.compaction_ns),
        copy_s: seconds(delays.copy_ns),
    }
}

fn machine(account: &Account) -> MachineSummary {
    let page = rustix::param::page_size() as u64;
    let pages = |column| account.growth(column).map(|pages| pages.saturating_mul(page));
    let seconds = |column| account.growth(column).map(|us| us as f64 / 1e6);
    MachineSummary {
        swap_in_bytes: pages(col::PSWPIN),
        swap_out_bytes: pages(col::PSWPOUT),
        memory_some_s: seconds(col::PSI_MEMORY_SOME_US),
        memory_full_s: seconds(col::PSI_MEMORY_FULL_US),
        io_some_s: seconds(col::PSI_IO_SOME_US),
        io_full_s: seconds(col::PSI_IO_FULL_US),
    }
}
