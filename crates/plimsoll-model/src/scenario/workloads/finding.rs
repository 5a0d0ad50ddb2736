//! The names of findings that the memory of a worker and a guard have in any workload.

/// Bytes of the pages that a pager holds in its store or page file alone, after a trim.
pub const PAGER_SAVED: &str = "pager_saved_bytes";
/// Bytes of RAM of a pager's store after a trim; after a stretch of visits with its metadata, as a part of its budget.
pub const PAGER_STORE: &str = "pager_store_bytes";
/// Bytes of RAM of a pager's page table and other metadata after a trim.
pub const PAGER_METADATA: &str = "pager_metadata_bytes";
/// Bytes of the disk that copies in a pager's page file take after a trim; absent without one.
pub const PAGER_FILE: &str = "pager_file_bytes";
/// Faults of a pager that decompressed or read a page in a stretch of visits.
pub const PAGER_HARD_FAULTS: &str = "pager_hard_faults";
/// RAM of a pager above its budget and 2% of it: the load does not fit. Absent while it does. In `thrash`, the most that was
/// seen of all pagers together.
pub const OVER_BUDGET: &str = "over_budget_bytes";
/// Processes that a guard stopped, a process as often as it was stopped.
pub const GUARD_STOPS: &str = "guard_stops";
/// Page-outs of a guard.
pub const GUARD_TRIMS: &str = "guard_trims";
/// CPU time of a guard in percent of one CPU.
pub const GUARD_CPU: &str = "guard_cpu_percent";
