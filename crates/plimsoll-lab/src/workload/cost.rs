//! Cost of a piece of work: wall time, CPU and faults.

use std::collections::BTreeMap;
use std::time::Instant;

use plimsoll_os::{ResourceUsage, UsageScope, resource_usage};

use serde::{Deserialize, Serialize};

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

/// Cost of a command, measured inside the worker around the work alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    pub seconds: f64,
    pub bytes: u64,
    pub cpu_user_s: f64,
    pub cpu_system_s: f64,
    pub minor_faults: u64,
    pub major_faults: u64,
}

impl Cost {
    /// This and then `later`, on the same bytes.
    #[must_use]
    pub fn and(self, later: Cost) -> Cost {
        Cost {
            seconds: self.seconds + later.seconds,
            bytes: self.bytes.max(later.bytes),
            cpu_user_s: self.cpu_user_s + later.cpu_user_s,
            cpu_system_s: self.cpu_system_s + later.cpu_system_s,
            minor_faults: self.minor_faults + later.minor_faults,
            major_faults: self.major_faults + later.major_faults,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// Metrics by name, with the unit as suffix.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, f64>,
    /// Metrics with several values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lists: BTreeMap<String, Vec<f64>>,
    /// Every latency, as [`plimsoll_model::latency::Latencies::to_text`] writes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<String>,
}

impl Findings {
    pub fn set(&mut self, name: &str, value: f64) {
        self.values.insert(name.to_owned(), value);
    }
}
