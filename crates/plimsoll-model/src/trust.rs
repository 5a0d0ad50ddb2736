//! Trust by metric: the kinds of confounders, and for each metric the kinds that can spoil it.
//!
//! Invariant: every metric of a workload has a row, by its name or, if it is a time or a rate, by its unit. Checked by
//! `every_metric_names_its_spoilers`.

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

type Kinds = &'static [ConfounderKind];

/// Times, rates and shares of CPU time. Paging by others costs time, and so does a page on a slower device.
const TIME: Kinds = &[
    Steal,
    OtherLoad,
    CpuFrequency,
    Damon,
    Zswap,
    OtherSwap,
    ForeignPages,
];
/// Bytes of the compressed store and of swap.
const STORE: Kinds = &[Damon, Zswap, OtherSwap, ForeignPages, InconsistentBytes];
/// Places of pages, and the load at which no place is left.
const PLACE: Kinds = &[Damon, Zswap, OtherSwap, ForeignPages];
/// The working set of the trial's own processes.
const RESIDENT: Kinds = &[Damon];
/// The working set by the trim, one of the bytes that must agree.
const TRIMMED: Kinds = &[Damon, InconsistentBytes];
/// Resident bytes and faults under a cap: a balance-set manager trims once a second, so that they depend on the speed too.
/// So do the dirty pages that the kernel has not yet written.
const CAPPED: Kinds = &[Steal, OtherLoad, CpuFrequency, Damon];
/// Counts of the program itself, whose values no other program can change.
const NOTHING: Kinds = &[];
/// Metrics without a row.
const EVERYTHING: Kinds = &[
    Damon,
    Steal,
    OtherLoad,
    OtherSwap,
    ForeignPages,
    InconsistentBytes,
    Zswap,
    CpuFrequency,
];

/// The confounders that can spoil a metric, by its name or, behind a `*`, by the ending of its name. The first match counts.
pub const ROWS: &[(&str, Kinds)] = &[
    // compression
    ("stored_bytes", STORE),
    ("compression_ratio", STORE),
    ("stored_ratio", STORE),
    ("original_bytes", STORE),
    ("swapped_bytes", STORE),
    ("page_file_bytes", STORE),
    ("dirty_bytes", CAPPED),
    ("cached_bytes", RESIDENT),
    ("trimmed_bytes", TRIMMED),
    ("trimmed_ratio", TRIMMED),
    ("fill_to_memset_ratio", TIME),
    ("fill_to_first_touch_ratio", TIME),
    ("trim_to_memcpy_ratio", TIME),
    ("restore_to_read_ratio", TIME),
    // thrash
    ("cycles_done_percent", TIME),
    ("fairness_ratio", TIME),
    ("load_system_percent", TIME),
    ("load_user_percent", TIME),
    ("load_stalled_percent", TIME),
    ("pager_stalled_percent", TIME),
    ("over_budget_bytes", TIME),
    ("small_set_slowdown_ratio", TIME),
    ("recovered_ratio", TIME),
    ("distinct_pages_ratio", NOTHING),
    // loadline
    ("knee_load", TIME),
    ("knee_ram_load", TIME),
    ("knee_low_load", TIME),
    ("knee_high_load", TIME),
    ("needed_limit_bytes", TIME),
    ("target_load", TIME),
    ("target_limit_bytes", TIME),
    ("target_high_load", TIME),
    ("overload_load", TIME),
    ("work_at_1_ratio", TIME),
    ("work_at_1_5_ratio", TIME),
    ("work_at_2_ratio", TIME),
    ("cpu_per_visit_at_1_5_ratio", TIME),
    ("oom_killed_load", PLACE),
    ("file_kept_at_1_5_percent", TIME),
    ("anonymous_kept_at_1_5_percent", TIME),
    // wscap
    ("slowdown_ratio", TIME),
    ("cpu_slowdown_ratio", TIME),
    ("refill_ratio", TIME),
    ("emptied_slowdown_ratio", TIME),
    ("fault_path_percent", TIME),
    ("capped_system_cpu_percent", TIME),
    ("faults_per_scan_count", CAPPED),
    ("file_refaults_per_scan_count", CAPPED),
    ("cache_hits_percent", CAPPED),
    ("capped_resident_min_bytes", CAPPED),
    ("capped_resident_max_bytes", CAPPED),
    // map
    ("*_back_percent", RESIDENT),
    ("*_pressure_percent", RESIDENT),
    // heap
    ("live_percent", RESIDENT),
    ("last_live_percent", RESIDENT),
    ("left_bytes", RESIDENT),
    ("resident_growth_bytes", RESIDENT),
    ("peak_growth_bytes", RESIDENT),
    ("live_bytes", NOTHING),
    ("threads_lived", TIME),
    ("free_blocks", NOTHING),
    ("uncommitted_ranges", NOTHING),
    ("external_fragmentation_percent", NOTHING),
    ("virtual_fragmentation_percent", NOTHING),
    // contention
    ("trim_start_bytes", PLACE),
    ("trim_start_percent", PLACE),
    ("holder_lost_percent", PLACE),
    ("asker_lost_percent", PLACE),
    ("holder_swapped_bytes", PLACE),
    ("asker_swapped_bytes", PLACE),
    ("compressed_growth_bytes", STORE),
    ("swap_cache_growth_bytes", PLACE),
    ("slowest_ask_ratio", TIME),
    // command
    ("knee_bytes", TIME),
    ("needed_bytes", TIME),
    ("too_small_bytes", TIME),
    ("knee_to_peak_ratio", TIME),
    ("needed_slowdown_percent", TIME),
    ("needed_psi_some_percent", TIME),
    ("needed_major_faults", CAPPED),
    ("base_major_faults", CAPPED),
    ("base_metric", TIME),
    ("base_peak_bytes", RESIDENT),
    ("base_anon_peak_bytes", RESIDENT),
    ("base_file_peak_bytes", RESIDENT),
    ("oom_killed_limit_bytes", PLACE),
    // every workload
    ("neighbour_cpu_percent", TIME),
    ("background_held_bytes", NOTHING),
    ("background_within_percent", NOTHING),
    ("background_cpu_percent", TIME),
    ("*_s", TIME),
    ("*.seconds", TIME),
    ("*gb_per_s", TIME),
];

/// The kinds of confounders that can spoil the metric of this name, or the time or speed of a phase (`trim.seconds`,
/// `trim.gb_per_s`). Every kind can spoil a metric that this version does not know.
pub fn spoilers(metric: &str) -> &'static [ConfounderKind] {
    row(metric).unwrap_or(EVERYTHING)
}

/// The row of a metric; `None` without one.
pub fn row(metric: &str) -> Option<&'static [ConfounderKind]> {
    let fits = |pattern: &str| match pattern.strip_prefix('*') {
        Some(ending) => metric.ends_with(ending),
        None => metric == pattern,
    };
    let mut rows = ROWS.iter();
    rows.find(|(pattern, _)| fits(pattern)).map(|(_, kinds)| *kinds)
}

/// Whether a confounder of this name can spoil this metric. A confounder of another version can spoil every metric.
pub fn can_spoil(confounder: &str, metric: &str) -> bool {
    ConfounderKind::of_name(confounder).is_none_or(|kind| spoilers(metric).contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_load_spoils_times_and_no_stored_bytes() {
        for metric in [
            "trim_gb_per_s",
            "slowest_ask_s",
            "trim.seconds",
            "trim_to_memcpy_ratio",
            "cycles_per_s",
        ] {
            assert!(
                can_spoil("other-load", metric) && can_spoil("steal", metric),
                "{metric}"
            );
        }
        for metric in [
            "stored_bytes",
            "compression_ratio",
            "swapped_bytes",
            "trimmed_ratio",
            "free_back_percent",
        ] {
            assert!(
                !can_spoil("other-load", metric) && !can_spoil("steal", metric),
                "{metric}"
            );
        }
    }

    #[test]
    fn foreign_pages_spoil_stored_bytes_and_ratios() {
        for confounder in ["foreign-pages", "inconsistent-bytes", "other-swap", "zswap"] {
            assert!(can_spoil(confounder, "compression_ratio"), "{confounder}");
            assert!(!can_spoil(confounder, "distinct_pages_ratio"), "{confounder}");
        }
        assert!(!can_spoil("inconsistent-bytes", "restore_gb_per_s"));
    }

    #[test]
    fn unknown_names_are_not_trusted() {
        assert!(can_spoil("a-later-version", "distinct_pages_ratio"));
        assert!(can_spoil("steal", "a_later_metric"));
    }

    #[test]
    fn kinds_and_rows_have_one_name_each() {
        for kind in ConfounderKind::ALL {
            assert_eq!(ConfounderKind::of_name(kind.name()), Some(kind));
        }
        for (index, (pattern, _)) in ROWS.iter().enumerate() {
            assert!(
                ROWS[..index].iter().all(|(before, _)| before != pattern),
                "{pattern}"
            );
        }
    }
}
