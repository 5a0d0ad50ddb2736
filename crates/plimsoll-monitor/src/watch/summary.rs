//! What is said at the end.

use std::path::PathBuf;

use serde::Serialize;

use super::account::Account;
use super::outcome::Outcome;
use super::recorder::{Recorded, ended_early};
use plimsoll_model::columns::col;
use plimsoll_model::recording::RecordingError;
use plimsoll_model::recording::model::SamplerReport;
use plimsoll_sample::Delays;

/// Version of the document.
pub const SUMMARY_SCHEMA: u32 = 1;

/// What was seen from the start to the end of the watching, or of the program that was started.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// [`SUMMARY_SCHEMA`].
    pub schema: u32,
    /// What was watched, in words.
    pub title: String,
    /// Wall time in seconds.
    pub seconds: f64,
    /// Samples that were taken in it.
    pub samples: u64,
    /// The program that was started.
    pub program: Option<ProgramSummary>,
    /// The target's processes and cgroup, as sampled. None when the machine alone was watched.
    pub target: Option<TargetSummary>,
    /// The whole machine meanwhile.
    pub machine: MachineSummary,
    /// What watching cost.
    pub monitor: MonitorSummary,
    /// Folder of the recording.
    pub recording: Option<PathBuf>,
    /// Page of the recording.
    pub page: Option<PathBuf>,
    /// Why the recording is not as it should be.
    pub recording_trouble: Option<String>,
    /// What to know of these figures.
    pub notes: Vec<String>,
}

/// A program that was started and has ended. Its figures, but for the title, include its descendants as far as they
/// were waited for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProgramSummary {
    /// Process id and command line.
    pub title: String,
    /// Exit code, where it ended by itself.
    pub exit_code: Option<i32>,
    /// Signal that ended it.
    pub signal: Option<i32>,
    /// CPU time in user code.
    pub cpu_user_s: f64,
    /// CPU time in the kernel.
    pub cpu_system_s: f64,
    /// Faults served without a device.
    pub minor_faults: u64,
    /// Faults that had to read or to decompress.
    pub major_faults: u64,
    /// Largest resident size that the kernel saw in any one of its processes; None where it is below that of the
    /// process that started it, which the kernel begins with.
    pub max_resident_bytes: Option<u64>,
    /// Time in fault.
    pub fault_time: FaultTime,
}

/// What a program waited for in page faults, all its threads added up.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum FaultTime {
    /// By the kernel's delay accounting.
    Measured {
        /// The least that it was: of swap-in and thrashing, which overlap, the greater, and all the others.
        at_least_s: f64,
        /// Pages brought in from swap, decompression included.
        swap_in_s: f64,
        /// Pages brought in that had been reclaimed a short while ago.
        thrashing_s: f64,
        /// Memory that had to be reclaimed first.
        reclaim_s: f64,
        /// Memory that had to be compacted first.
        compaction_s: f64,
        /// Pages copied on write.
        copy_s: f64,
    },
    /// Not known.
    Unknown {
        /// Why, and what to do.
        reason: String,
        /// CPU time in the kernel, which decompression for faults is a part of; waiting for a disk is not.
        cpu_system_s: f64,
    },
}

/// The target as it was sampled: peaks between two samples are not seen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TargetSummary {
    /// Largest working set of its processes together.
    pub peak_resident_bytes: Option<i64>,
    /// Most that they had in swap.
    pub peak_swap_bytes: Option<i64>,
    /// Most that was charged to its cgroup.
    pub peak_cgroup_bytes: Option<i64>,
    /// Minor faults that were seen: those of processes after their last sample are missing.
    pub minor_faults: i64,
    /// Major faults that were seen.
    pub major_faults: i64,
}

/// The whole machine from start to end. None where the kernel does not say.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MachineSummary {
    /// Bytes swapped in.
    pub swap_in_bytes: Option<u64>,
    /// Bytes swapped out.
    pub swap_out_bytes: Option<u64>,
    /// Seconds in which at least one task waited for memory.
    pub memory_some_s: Option<f64>,
    /// Seconds in which all waited for memory.
    pub memory_full_s: Option<f64>,
    /// Seconds in which at least one task waited for reads or writes.
    pub io_some_s: Option<f64>,
    /// Seconds in which all waited for reads or writes.
    pub io_full_s: Option<f64>,
}

/// What watching cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MonitorSummary {
    /// The sampler alone.
    pub sampler: SamplerReport,
    /// CPU seconds of the whole monitor.
    pub cpu_s: f64,
    /// Of one core, over the wall time of the monitor.
    pub cpu_percent: f64,
}

impl Summary {
    /// Makes the summary of a closed account.
    pub(super) fn of(
        title: String,
        account: &Account,
        outcome: Option<&Outcome>,
        monitor: MonitorSummary,
        recorded: Option<Result<Recorded, RecordingError>>,
    ) -> Summary {
        let (recording, page, recording_trouble) = match recorded {
            None => (None, None, None),
            Some(Ok(recorded)) => (Some(recorded.folder), recorded.page, recorded.trouble),
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
                minor_faults: account.minor_faults,
                major_faults: account.major_faults,
            }),
            machine: machine(account),
            monitor,
            recording,
            page,
            recording_trouble,
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
                reason: "nobody looked".to_owned(),
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
