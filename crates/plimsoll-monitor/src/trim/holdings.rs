//! Memory of a process or a cgroup, and the reasons for which it stays.

use std::ops::AddAssign;

use serde::Serialize;

use super::kept::{Kept, Reason};
use super::machine::Machine;

/// Free swap below this counts as full: the kernel keeps clusters of free slots for each CPU.
const SWAP_FULL: i64 = 1 << 20;

/// Memory of a process or a cgroup, in bytes, and its fault counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Holdings {
    /// Resident set of a process (`VmRSS`), or memory charged to a cgroup.
    pub resident: u64,
    /// Anonymous part of `resident`.
    pub anon: u64,
    /// File-backed part of `resident`.
    pub file: u64,
    /// Shared memory and tmpfs in `resident`.
    pub shmem: u64,
    pub swapped: u64,
    pub locked: u64,
    /// hugetlbfs pages, which `resident` does not include.
    pub huge: u64,
    /// Page faults served without a device or a decompression.
    pub minor_faults: u64,
    /// Page faults that waited for a device or a decompression.
    pub major_faults: u64,
}

impl AddAssign for Holdings {
    fn add_assign(&mut self, other: Holdings) {
        self.resident += other.resident;
        self.anon += other.anon;
        self.file += other.file;
        self.shmem += other.shmem;
        self.swapped += other.swapped;
        self.locked += other.locked;
        self.huge += other.huge;
        self.minor_faults += other.minor_faults;
        self.major_faults += other.major_faults;
    }
}

/// Whether anonymous memory can be swapped out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Swap {
    None,
    Full,
    Forbidden,
    Available,
}

impl Swap {
    pub(super) fn of(machine: &Machine) -> Swap {
        if machine.swap_total == 0 {
            Swap::None
        } else if machine.swap_total - machine.swap_used < SWAP_FULL {
            Swap::Full
        } else {
            Swap::Available
        }
    }
}

impl Holdings {
    /// Reasons for the memory that stays after a trim of everything.
    pub(super) fn kept(&self, swap: Swap) -> Vec<Kept> {
        let locked = self.locked.min(self.resident);
        // The kernel does not report the kind of locked memory; programs lock mostly anonymous memory.
        let swappable = (self.anon + self.shmem).saturating_sub(locked);
        let file = self
            .file
            .saturating_sub(locked.saturating_sub(self.anon + self.shmem));
        let kernel = self.resident.saturating_sub(self.anon + self.shmem + self.file);
        let reason = match swap {
            Swap::None => Reason::NoSwap,
            Swap::Full => Reason::SwapFull,
            Swap::Forbidden => Reason::SwapForbidden,
            Swap::Available => Reason::InUse,
        };
        [
            (Reason::Locked, locked),
            (Reason::HugePages, self.huge),
            (reason, swappable),
            (Reason::SharedFiles, file),
            (Reason::Kernel, kernel),
        ]
        .into_iter()
        .filter(|(_, bytes)| *bytes > 0)
        .map(|(reason, bytes)| Kept::bytes(reason, bytes))
        .collect()
    }
}
