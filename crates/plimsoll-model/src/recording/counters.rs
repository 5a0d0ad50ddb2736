//! Files beside the settings of a machine that count or measure: their values differ between any two runs.

/// Ends of paths.
const ENDS: &[&str] = &[
    // Filters and quotas of DAMON's schemes.
    "/passes",
    "/reported_kib",
    "/walked",
    "/quotas/effective_bytes",
    // Huge pages.
    "/khugepaged/full_scans",
    "/khugepaged/pages_collapsed",
    // The kernel's own users of DAMON.
    "/kdamond_pid",
    "/damon_stat/parameters/estimated_memory_bandwidth",
    "/damon_stat/parameters/memory_idle_ms_percentiles",
];
/// Modules whose parameters are counters if their name begins with [`COUNTED`].
const MODULES: &str = "/sys/module/damon_";
const COUNTED: [&str; 2] = ["nr_", "bytes_"];

/// Whether the file at this absolute path, recorded with the settings of a machine, is a counter or a measurement.
pub fn is_counter(path: &str) -> bool {
    let of_damon = || {
        let name = path.rsplit('/').next().unwrap_or_default();
        path.starts_with(MODULES) && COUNTED.iter().any(|start| name.starts_with(start))
    };
    ENDS.iter().any(|end| path.ends_with(end)) || of_damon()
}

#[cfg(test)]
mod tests {
    use super::is_counter;

    #[test]
    fn counters_are_no_settings() {
        for path in [
            "/sys/kernel/mm/transparent_hugepage/khugepaged/full_scans",
            "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_collapsed",
            "/sys/module/damon_reclaim/parameters/nr_reclaimed_regions",
            "/sys/module/damon_lru_sort/parameters/bytes_lru_sort_tried_hot_regions",
            "/sys/module/damon_reclaim/parameters/kdamond_pid",
            "/sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/0/quotas/effective_bytes",
        ] {
            assert!(is_counter(path), "{path}");
        }
        for path in [
            "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan",
            "/sys/module/damon_reclaim/parameters/min_nr_regions",
            "/sys/module/damon_reclaim/parameters/quota_sz",
            "/proc/sys/vm/nr_hugepages",
            "/sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/0/quotas/bytes",
        ] {
            assert!(!is_counter(path), "{path}");
        }
    }
}
