//! The metrics of a trial with a `background`: the level of memory that the runner held.

/// Bytes that the runner held, on average.
pub const HELD: &str = "background_held_bytes";
/// Share of the looks at which the level was within 2%.
pub const WITHIN: &str = "background_within_percent";
/// CPU time of the worker and of the thread that held the level, in percent of one CPU.
pub const CPU: &str = "background_cpu_percent";
