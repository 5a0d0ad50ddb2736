//! Memory that stays resident after a trim, and the reason.

use std::fmt;

use serde::Serialize;

use plimsoll_model::quantity::{bytes, count};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Reason {
    /// Locked (`mlock(2)`) or otherwise unevictable.
    Locked,
    HugePages,
    /// Anonymous memory, and the machine has no swap.
    NoSwap,
    SwapFull,
    /// Anonymous memory, and the cgroup may not swap.
    SwapForbidden,
    /// Anonymous or shared memory that was used during the trim, or that another process holds too.
    InUse,
    /// File pages that are mapped by other processes, under writeback, or of files that this user may not write.
    SharedFiles,
    /// Kernel memory of the cgroup: page tables, stacks, objects.
    Kernel,
    /// Processes of other users.
    Denied,
    /// Processes that ended during the trim.
    Ended,
    /// Processes for which a system call failed for another reason.
    Refused,
}

impl Reason {
    /// Cause as a clause.
    pub fn meaning(self) -> &'static str {
        match self {
            Reason::Locked => "locked in memory",
            Reason::HugePages => "huge pages of hugetlbfs, which are never reclaimed",
            Reason::NoSwap => "anonymous, and there is no swap",
            Reason::SwapFull => "anonymous, and swap is full",
            Reason::SwapForbidden => "anonymous, and the cgroup may not swap",
            Reason::InUse => "used during the trim, or shared with another process",
            Reason::SharedFiles => {
                "file pages that are shared, dirty, or of files that this user may not write"
            }
            Reason::Kernel => "kernel memory, such as page tables",
            Reason::Denied => "not permitted (`plimsoll trim PID` names the cause)",
            Reason::Ended => "ended meanwhile",
            Reason::Refused => "refused by the system",
        }
    }
}

/// Memory or processes that stayed for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Kept {
    pub reason: Reason,
    /// Bytes, if known.
    pub bytes: Option<u64>,
    /// Processes that could not be trimmed at all.
    pub processes: u64,
}

impl Kept {
    pub(super) fn bytes(reason: Reason, bytes: u64) -> Kept {
        Kept {
            reason,
            bytes: Some(bytes),
            processes: 0,
        }
    }

    pub(super) fn processes(reason: Reason, processes: u64) -> Kept {
        Kept {
            reason,
            bytes: None,
            processes,
        }
    }

    /// Merges the entries of each reason into one.
    pub(super) fn gathered(mut all: Vec<Kept>) -> Vec<Kept> {
        all.sort_by_key(|kept| kept.reason);
        let mut gathered: Vec<Kept> = Vec::new();
        for kept in all {
            match gathered.last_mut().filter(|last| last.reason == kept.reason) {
                Some(last) => {
                    last.bytes = last.bytes.into_iter().chain(kept.bytes).reduce(|a, b| a + b);
                    last.processes += kept.processes;
                }
                None => gathered.push(kept),
            }
        }
        gathered
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(size) = self.bytes {
            write!(f, "{} ", bytes(size as f64))?;
        }
        if self.processes > 0 {
            let plural = if self.processes == 1 { "" } else { "es" };
            write!(f, "{} process{plural} ", count(self.processes))?;
        }
        f.write_str(self.reason.meaning())
    }
}
