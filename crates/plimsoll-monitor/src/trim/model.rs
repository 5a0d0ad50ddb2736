//! What is trimmed, and what came of it.

use std::fmt;
use std::path::PathBuf;

use serde::{Serialize, Serializer};

use super::holdings::Holdings;
use super::kept::{Kept, Reason};
use super::machine::Machine;
use crate::processes::Identity;
use plimsoll_model::quantity::{bytes, change_of_bytes, seconds};

/// Less than this share of the resident set counts as nothing: the kernel's counters are approximations, and a page or
/// two of program text can always leave.
const NOTHING: f64 = 0.01;

/// What to trim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// One process.
    Process {
        /// Its number.
        pid: u32,
        /// When it started, as in [`Identity`], where the caller knows which process it means: a later one of the
        /// same number is then left alone.
        start_ticks: Option<u64>,
    },
    /// Several processes, the first of which gives its name to all: a program with its descendants. Those that have
    /// ended are passed over.
    Family(Vec<Identity>),
    /// A memory cgroup with its descendants: a path below the mount, or of the folder.
    Cgroup(PathBuf),
    /// Every process that this user may trim, but for this one and the kernel's threads.
    All,
}

impl From<Identity> for What {
    fn from(identity: Identity) -> What {
        What::Process {
            pid: identity.pid,
            start_ticks: Some(identity.start_ticks),
        }
    }
}

impl What {
    /// The process that has this number now.
    pub fn pid(pid: u32) -> What {
        What::Process {
            pid,
            start_ticks: None,
        }
    }
}

/// How the kernel was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mechanism {
    /// `process_madvise(2)` with `MADV_PAGEOUT`, mapping by mapping.
    ProcessMadvise,
    /// `memory.reclaim` of a v2 cgroup.
    MemoryReclaim,
    /// `memory.force_empty` of a v1 cgroup.
    ForceEmpty,
}

impl Mechanism {
    /// The kernel's name for it.
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

/// What a trim came to. All sizes are bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// What was trimmed, in words for people: `pid 4242 (redis-server)`, `cgroup /web`. Safe to print.
    pub title: String,
    /// How the kernel was asked.
    pub mechanism: Mechanism,
    /// Most that was to leave; `None` for all.
    pub limit: Option<u64>,
    /// Address space that the kernel was advised on, or memory that the cgroup was asked for.
    pub advised: u64,
    /// What left the working set: the resident memory of the processes, or the memory charged to the cgroup, is less
    /// by this.
    pub left: u64,
    /// What came back afterwards.
    pub returned: Returned,
    /// Where it went.
    pub went: Went,
    /// What was held before.
    pub before: Holdings,
    /// What was held right after.
    pub after: Holdings,
    /// What stayed, and why.
    pub kept: Vec<Kept>,
    /// The processes that were trimmed one by one, the largest first.
    pub processes: Vec<TrimmedProcess>,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// Seconds that the kernel worked on it.
    pub seconds: f64,
}

impl Report {
    /// Whether so little left that it counts as nothing: under 1% of what was resident.
    pub fn is_nothing(&self) -> bool {
        self.left == 0 || (self.left as f64) < NOTHING * self.before.resident as f64
    }

    /// Whether something stayed for `reason`.
    pub fn kept_for(&self, reason: Reason) -> bool {
        self.kept.iter().any(|kept| kept.reason == reason)
    }
}

/// One line, for a log.
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

/// What came back after a trim.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Returned {
    /// Seconds that were looked at, about 1.
    pub within_s: f64,
    /// Bytes by which the working set grew again; never more than what had left.
    pub bytes: u64,
    /// Page faults that were solved without a device or a decompression.
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

/// Where memory went. What is said of the machine includes what others did meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Went {
    /// Growth of what the target itself has in swap.
    pub swapped: i64,
    /// Growth of the machine's used swap.
    pub swap_used: i64,
    /// Growth of RAM that compressed pages take (zram and zswap).
    pub compressed: i64,
    /// Growth of the swap cache: pages that have a place in swap and are still in RAM.
    pub swap_cache: i64,
    /// Growth of the machine's page cache, shared memory left out; below zero where it was dropped.
    pub page_cache: i64,
    /// Growth of the machine's free memory.
    pub free: i64,
}

impl Went {
    pub(super) fn between(before: (&Machine, &Holdings), after: (&Machine, &Holdings)) -> Went {
        let (machine, later) = (before.0, after.0);
        Went {
            swapped: after.1.swapped as i64 - before.1.swapped as i64,
            swap_used: later.swap_used - machine.swap_used,
            compressed: later.compressed - machine.compressed,
            swap_cache: later.swap_cache - machine.swap_cache,
            page_cache: later.page_cache - machine.page_cache,
            free: later.free - machine.free,
        }
    }
}

impl fmt::Display for Went {
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

/// A process that was trimmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TrimmedProcess {
    /// Its number.
    pub pid: u32,
    /// Its name, safe to print.
    pub name: String,
    /// Bytes resident before.
    pub before: u64,
    /// Bytes that left its working set.
    pub left: u64,
}
