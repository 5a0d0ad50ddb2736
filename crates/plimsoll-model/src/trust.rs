//! Trust: the kinds of confounders, and the sets of kinds that can spoil a metric. The table of a workload's metrics names the
//! set of each; that of a time or a rate follows from its unit.

use ConfounderKind::{
    CpuFrequency, Damon, ForeignPages, InconsistentBytes, OtherLoad, OtherSwap, Steal, Zswap,
};

/// A kind of disturbance outside of the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfounderKind {
    /// DAMON schemes paged memory out.
    Damon,
    /// A hypervisor took CPU time for other guests.
    Steal,
    /// Other programs used the CPUs.
    OtherLoad,
    /// Pages went to a swap device that is not the run's.
    OtherSwap,
    /// The run's swap device held pages of other cgroups.
    ForeignPages,
    /// The trimmed, swapped and stored bytes of a trial contradict each other.
    InconsistentBytes,
    /// zswap compressed pages and is not the subject.
    Zswap,
    /// Transparent huge pages are always on.
    Thp,
    /// The kernel reports free pages to the hypervisor.
    PageReporting,
    /// The CPU frequency follows the load.
    CpuFrequency,
    /// The run delayed processes outside of its cgroup.
    Neighbour,
}

impl ConfounderKind {
    pub const ALL: [ConfounderKind; 11] = [
        Damon,
        Steal,
        OtherLoad,
        OtherSwap,
        ForeignPages,
        InconsistentBytes,
        Zswap,
        ConfounderKind::Thp,
        ConfounderKind::PageReporting,
        CpuFrequency,
        ConfounderKind::Neighbour,
    ];

    /// The stable name in recordings and results.
    pub const fn name(self) -> &'static str {
        match self {
            Damon => "damon",
            Steal => "steal",
            OtherLoad => "other-load",
            OtherSwap => "other-swap",
            ForeignPages => "foreign-pages",
            InconsistentBytes => "inconsistent-bytes",
            Zswap => "zswap",
            ConfounderKind::Thp => "thp",
            ConfounderKind::PageReporting => "page-reporting",
            CpuFrequency => "cpu-frequency",
            ConfounderKind::Neighbour => "neighbour",
        }
    }

    /// The kind with this name; `None` of a kind that this version does not know.
    pub fn of_name(name: &str) -> Option<ConfounderKind> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

pub type Kinds = &'static [ConfounderKind];

/// Times, rates and shares of CPU time. Paging by others costs time, and so does a page on a slower device.
pub const TIME: Kinds = &[
    Steal,
    OtherLoad,
    CpuFrequency,
    Damon,
    Zswap,
    OtherSwap,
    ForeignPages,
];
/// Bytes of the compressed store and of swap.
pub const STORE: Kinds = &[Damon, Zswap, OtherSwap, ForeignPages, InconsistentBytes];
/// Places of pages, and the load at which no place is left.
pub const PLACE: Kinds = &[Damon, Zswap, OtherSwap, ForeignPages];
/// The working set of the trial's own processes.
pub const RESIDENT: Kinds = &[Damon];
/// The working set by the trim, one of the bytes that must agree.
pub const TRIMMED: Kinds = &[Damon, InconsistentBytes];
/// Resident bytes and faults under a cap: a balance-set manager trims once a second, so that they depend on the speed too.
/// So do the dirty pages that the kernel has not yet written.
pub const CAPPED: Kinds = &[Steal, OtherLoad, CpuFrequency, Damon];
/// Counts of the program itself, whose values no other program can change.
pub const NOTHING: Kinds = &[];
/// Metrics of another version.
pub const EVERYTHING: Kinds = &[
    Damon,
    Steal,
    OtherLoad,
    OtherSwap,
    ForeignPages,
    InconsistentBytes,
    Zswap,
    CpuFrequency,
];

/// The set of a time or a rate, or of the time or speed of a phase (`trim.seconds`, `trim.gb_per_s`), by the ending of its
/// name; `None` for other units.
pub fn of_unit(metric: &str) -> Option<Kinds> {
    let mut endings = ["_s", ".seconds", "gb_per_s"].into_iter();
    endings.any(|ending| metric.ends_with(ending)).then_some(TIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_one_name_each() {
        for kind in ConfounderKind::ALL {
            assert_eq!(ConfounderKind::of_name(kind.name()), Some(kind));
        }
    }
}
