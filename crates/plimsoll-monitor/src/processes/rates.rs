//! Rates of a process between two snapshots.

use serde::Serialize;

use super::process::Process;

/// Rates of a process between two snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Rates {
    pub minor_per_s: f64,
    pub major_per_s: f64,
    /// CPU time in user mode, percent of one core.
    pub user_percent: f64,
    /// CPU time in the kernel, percent of one core.
    pub system_percent: f64,
}

impl Rates {
    /// Rates over `seconds`, which must be greater than 0. A counter that runs backwards, such as one that became
    /// unreadable, counts as 0.
    pub fn between(before: &Process, after: &Process, seconds: f64) -> Rates {
        let rate = |before: u64, after: u64| after.saturating_sub(before) as f64 / seconds;
        // One microsecond per second is a millionth of a core.
        let percent = |before, after| rate(before, after) / 1e4;
        Rates {
            minor_per_s: rate(before.minor_faults, after.minor_faults),
            major_per_s: rate(before.major_faults, after.major_faults),
            user_percent: percent(before.user_us, after.user_us),
            system_percent: percent(before.system_us, after.system_us),
        }
    }
}
