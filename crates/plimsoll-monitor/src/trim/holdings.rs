//! What a process or a cgroup holds, and why it keeps what it keeps.

use std::ops::AddAssign;

use serde::Serialize;

use super::kept::{Kept, Reason};
use super::machine::Machine;

/// Free swap below this counts as full: the kernel keeps clusters of free slots a CPU.
const SWAP_FULL: i64 = 1 << 20;

/// What a process or a cgroup holds. Sizes are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Holdings {
    /// In RAM: the resident set of a process (`VmRSS`), all that is charged to a cgroup.
    pub resident: u64,
    /// The part of it that no file is behind.
    pub anon: u64,
    /// The part of it that a file is behind.
    pub file: u64,
    /// The part of it that is shared memory or tmpfs.
    pub shmem: u64,
    /// In swap.
    pub swapped: u64,
    /// Locked, or otherwise unevictable.
    pub locked: u64,
    /// In pages of hugetlbfs, which are not part of `resident`.
    pub huge: u64,
    /// Page faults so far that were solved without a device or a decompression.
    pub minor_faults: u64,
    /// Page faults so far that waited.
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

/// Whether anonymous memory has somewhere to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Swap {
    None,
    Full,
    Forbidden,
    Available,
}

impl Swap {
    /// What the machine has.
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
    /// Why what is still held was kept, after everything was asked for.
    pub(super) fn kept(&self, swap: Swap) -> Vec<Kept> {
        let locked = self.locked.min(self.resident);
        // Nobody says what kind of memory is locked; programs lock mostly their data.
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
