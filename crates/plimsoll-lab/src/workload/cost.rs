//! What a piece of work costs: wall time, CPU and faults around it alone.

use std::time::Instant;

use plimsoll_os::{ResourceUsage, UsageScope, resource_usage};

use super::protocol::Cost;

/// A stopwatch of wall time (CLOCK_MONOTONIC), CPU time and faults.
pub(crate) struct Stopwatch {
    scope: UsageScope,
    usage: ResourceUsage,
    start: Instant,
}

impl Stopwatch {
    /// Starts now. The clock is read last, so that reading the usage does not count.
    pub(crate) fn start(scope: UsageScope) -> Stopwatch {
        Stopwatch {
            scope,
            usage: resource_usage(scope),
            start: Instant::now(),
        }
    }

    /// The cost since the start of work on `bytes` bytes.
    pub(crate) fn stop(self, bytes: u64) -> Cost {
        let seconds = self.start.elapsed().as_secs_f64();
        let (before, after) = (self.usage, resource_usage(self.scope));
        let cpu_seconds = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e6;
        Cost {
            seconds,
            bytes,
            cpu_user_s: cpu_seconds(before.user_us, after.user_us),
            cpu_system_s: cpu_seconds(before.system_us, after.system_us),
            minor_faults: after.minor_faults.saturating_sub(before.minor_faults),
            major_faults: after.major_faults.saturating_sub(before.major_faults),
        }
    }
}
