//! Target and result of a trim.

use std::fmt;
use std::path::PathBuf;

use plimsoll_proc::ProcessId;
use serde::{Serialize, Serializer};

use super::holdings::Holdings;
use super::kept::{Kept, Reason};
use super::machine::Machine;
use plimsoll_model::quantity::{bytes, change_of_bytes, seconds};

/// A smaller share of the resident set counts as nothing: the kernel's counters are approximate, and a page or two of
/// program text can always leave.
const NOTHING: f64 = 0.01;

/// Target of a trim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    Process {
        pid: u32,
        /// Start time as in [`ProcessId`], if known. A later process with the same pid is then left alone.
        start_ticks: Option<u64>,
    },
    /// A program with its descendants. The first one names the group. Ended processes are skipped.
    Family(Vec<ProcessId>),
    /// A memory cgroup with its descendants: its folder, or a path below the mount.
    Cgroup(PathBuf),
    /// Every process that this user may trim, except this process and kernel threads.
    All,
}

impl From<ProcessId> for What {
    fn from(process: ProcessId) -> What {
        What::Process {
            pid: process.pid,
            start_ticks: Some(process.start_ticks),
        }
    }
}

impl What {
    /// The process that has this pid now.
    pub fn pid(pid: u32) -> What {
        What::Process {
            pid,
            start_ticks: None,
        }
    }
}

/// Interface of the kernel that a trim uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mechanism {
    /// `process_madvise(2)` with `MADV_PAGEOUT`, one mapping at a time.
    ProcessMadvise,
    /// `memory.reclaim` (cgroup v2).
    MemoryReclaim,
    /// `memory.force_empty` (cgroup v1).
    ForceEmpty,
}

impl Mechanism {
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::ProcessMadvise => "process_madvise(MADV_PAGEOUT)",
            Mechanism::MemoryReclaim => "memory.reclaim",
            Mechanism::ForceEmpty => "memory.force_empty",
        }
    }
}

impl Serialize for Mechanism {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Result of a trim. All sizes are bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The target: `pid 4242 (redis-server)`, `cgroup /web`. Safe to print.
    pub title: String,
    pub mechanism: Mechanism,
    /// Most bytes to trim; `None` for all.
    pub limit: Option<u64>,
    /// Address space that was passed to `process_madvise(2)`, or bytes requested of the cgroup.
    pub advised: u64,
    /// Bytes by which the resident memory of the processes, or the memory charged to the cgroup, became smaller.
    pub left: u64,
    pub returned: Returned,
    pub went: Destination,
    pub before: Holdings,
    /// Holdings right after the trim.
    pub after: Holdings,
    pub kept: Vec<Kept>,
    /// Processes that were trimmed one by one, the largest first.
    pub processes: Vec<TrimmedProcess>,
    /// Whether `stop` ended the trim early.
    pub interrupted: bool,
    /// Duration of the trim in the kernel.
    pub seconds: f64,
}

impl Report {
    /// Whether less than 1% of the resident memory left.
    pub fn is_nothing(&self) -> bool {
        self.left == 0 || (self.left as f64) < NOTHING * self.before.resident as f64
    }

    pub fn kept_for(&self, reason: Reason) -> bool {
        self.kept.iter().any(|kept| kept.reason == reason)
    }
}

/// One line for a log.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} of {} taken out by {} ({}); {} came back within {}",
            self.title,
            bytes(self.left as f64),
            bytes(self.before.resident as f64),
            self.mechanism.name(),
            self.went,
            bytes(self.returned.bytes as f64),
            seconds(self.returned.within_s),
        )?;
        for (index, kept) in self.kept.iter().enumerate() {
            write!(f, "{}{kept}", if index == 0 { "; stayed: " } else { ", " })?;
        }
        if self.interrupted {
            f.write_str("; stopped before its end")?;
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Returned {
    /// Length of the observation in seconds, about 1.
    pub within_s: f64,
    /// Bytes by which the working set grew again; at most the bytes that had left.
    pub bytes: u64,
    /// Page faults served without a device or a decompression.
    pub minor_faults: u64,
    /// Page faults that waited for a device or a decompression.
    pub major_faults: u64,
}

impl Returned {
    pub(super) fn between(after: &Holdings, later: &Holdings, left: u64, within_s: f64) -> Returned {
        Returned {
            within_s,
            bytes: later.resident.saturating_sub(after.resident).min(left),
            minor_faults: later.minor_faults.saturating_sub(after.minor_faults),
            major_faults: later.major_faults.saturating_sub(after.major_faults),
        }
    }
}

/// Destination of trimmed memory. The values of the machine include the activity of other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Destination {
    pub swapped: i64,
    pub swap_used: i64,
    /// Growth of RAM that holds compressed pages (zram and zswap).
    pub compressed: i64,
    /// Growth of the swap cache: pages in RAM that also have a swap slot.
    pub swap_cache: i64,
    /// Growth of the machine's page cache without shared memory; negative if pages were dropped.
    pub page_cache: i64,
    pub free: i64,
}

impl Destination {
    pub(super) fn between(before: (&Machine, &Holdings), after: (&Machine, &Holdings)) -> Destination {
        let (machine, later) = (before.0, after.0);
        Destination {
            swapped: after.1.swapped as i64 - before.1.swapped as i64,
            swap_used: later.swap_used - machine.swap_used,
            compressed: later.compressed - machine.compressed,
            swap_cache: later.swap_cache - machine.swap_cache,
            page_cache: later.page_cache - machine.page_cache,
            free: later.free - machine.free,
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "in swap {}; machine: swap {}, compressed {}, page cache {}",
            signed(self.swapped),
            signed(self.swap_used),
            signed(self.compressed),
            signed(self.page_cache),
        )
    }
}

fn signed(value: i64) -> String {
    change_of_bytes(value as f64)
}

/// A process that was trimmed on its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TrimmedProcess {
    pub pid: u32,
    /// Safe to print.
    pub name: String,
    pub before: u64,
    pub left: u64,
}
