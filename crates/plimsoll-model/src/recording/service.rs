//! The size of a running service: the RAM that it needs, from its memory under a cap that pressure controls.

use serde::{Deserialize, Serialize};

use super::size::SizeAdvice;

/// Version of the document of `plimsoll size --cgroup --json`, and of `service` in `results.json`.
pub const SERVICE_SCHEMA: u32 = 1;
/// Name of the scenario in a recording of `plimsoll size --cgroup`.
pub const SERVICE: &str = "size-service";
/// The phase in which the cap sinks until pressure or another bound stops it.
pub const DESCENT: &str = "descent";
/// The phase in which pressure holds the cap at the working set; the text of its event has a [`ServiceBound`].
pub const HOLD: &str = "hold";

/// The settings of a sizing, in the recording as the text of its event `environment`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServiceSettings {
    /// Path of the cgroup below the mount.
    pub cgroup: String,
    /// The file that holds the cap: `memory.high` or `memory.limit_in_bytes`.
    pub cap_file: String,
    /// Its content before.
    pub cap_before: String,
    /// Pressure that the cap may cause, in percent of the time.
    pub target_percent: f64,
    /// Bytes below which the cap never sinks, as asked for.
    pub floor_bytes: u64,
    /// Seconds between two steps of the cap.
    pub interval_s: f64,
    /// The source of the pressure.
    pub signal: PressureSignal,
}

/// The source of the pressure that controls the cap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PressureSignal {
    /// PSI and refaults of the cgroup (v2).
    Cgroup,
    /// Refaults of the cgroup and its hits of the limit, bounded by the PSI of the machine (v1).
    Machine,
    /// Refaults of the cgroup, and its hits of the limit in v1: the kernel has no PSI.
    Refaults,
    /// The signal of a later version.
    #[default]
    #[serde(other)]
    Other,
}

/// The condition that stopped the descent of the cap. The JSON name never changes its meaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ServiceBound {
    /// Pressure reached the target: the memory under the cap is the working set.
    Pressure,
    /// The cap reached the floor: the service needs at most that.
    Floor,
    /// The kernel can reclaim no more: the rest is locked, or has no room in swap.
    Unreclaimable,
    /// Nothing: the time was too short.
    #[default]
    #[serde(other)]
    None,
}

/// The memory that a service needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServiceSize {
    /// [`SERVICE_SCHEMA`].
    pub schema: u32,
    pub settings: ServiceSettings,
    /// Seconds of the recording.
    pub seconds: f64,
    pub bound: ServiceBound,
    /// Seconds from the start until the bound; absent without one.
    pub settled_s: Option<f64>,
    /// The working set over the time after the bound; an upper limit of it unless `bound` is `pressure`. Absent without
    /// a bound.
    pub working_set: Option<WorkingSet>,
    /// Memory of the cgroup at the end.
    pub last_bytes: u64,
    /// Largest memory of the cgroup.
    pub peak_bytes: u64,
    /// Largest page cache of the cgroup, memory of `tmpfs` and shared memory included; absent if unknown.
    pub peak_file_bytes: Option<u64>,
    /// Largest anonymous memory of the cgroup, in RAM and in swap: its need without swap. Absent if unknown.
    pub anonymous_bytes: Option<u64>,
    pub least_cap_bytes: Option<u64>,
    /// Pressure of the cgroup after the bound, in percent of the time; absent in v1, which has none.
    pub pressure_percent: Option<f64>,
    /// Refaults of the cgroup a second, after the bound.
    pub refaults_per_s: Option<f64>,
    /// Settings that give the service its memory; empty without a bound.
    pub advice: Vec<SizeAdvice>,
}

/// Percentiles of the working set over time, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkingSet {
    pub p50_bytes: u64,
    pub p90_bytes: u64,
    pub p99_bytes: u64,
    pub max_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_later_version_read_as_none_or_other() {
        let name = "\"of-a-later-version\"";
        assert_eq!(
            serde_json::from_str::<ServiceBound>(name).unwrap(),
            ServiceBound::None
        );
        assert_eq!(
            serde_json::from_str::<PressureSignal>(name).unwrap(),
            PressureSignal::Other
        );
        assert_eq!(serde_json::to_string(&ServiceBound::None).unwrap(), "\"none\"");
    }
}
