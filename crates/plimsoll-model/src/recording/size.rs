//! The size of a program: the RAM that it needs on each engine, from its runs under several limits.

use serde::{Deserialize, Serialize};

/// Version of the document of `plimsoll size --json`, and of `size` in `results.json`.
pub const SIZE_SCHEMA: u32 = 1;

/// The RAM that a program needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProgramSize {
    /// [`SIZE_SCHEMA`].
    pub schema: u32,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Largest slowdown that counts as none, as a share: 0.05 is 5%.
    pub tolerance: f64,
    /// The measured value: `wall time`, or the regular expression of the program's own metric.
    pub measure: String,
    /// Page cache at the start of each run of the program: `warm` or `cold`.
    pub cache: String,
    /// Largest memory of the program's cgroup without pressure.
    pub peak_bytes: u64,
    /// Largest anonymous memory without pressure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_anon_bytes: Option<u64>,
    /// Largest page cache without pressure, memory of `tmpfs` and shared memory included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_file_bytes: Option<u64>,
    /// Share of the peak that is page cache at most: the kernel reclaims it, except for memory of `tmpfs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaimable_percent: Option<f64>,
    pub engines: Vec<EngineSize>,
}

/// The RAM that the program needs on one engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EngineSize {
    /// The place of trimmed pages: `none`, `zram:lz4`, `swapfile`, ...
    pub engine: String,
    /// Every run of the program, the largest limit first.
    pub points: Vec<SizePoint>,
    /// The repeats of the search that count.
    pub repeats: u32,
    /// Whether a confounder spoils the knee in every repeat.
    #[serde(default)]
    pub untrustworthy: bool,
    /// Limit below which the slowdown exceeds the tolerance: the median over the repeats. Absent if no limit was too
    /// small, or if no repeat counts.
    pub knee_bytes: Option<u64>,
    /// Lower end of the knee's interval.
    pub knee_low_bytes: Option<u64>,
    /// Upper end of the knee's interval.
    pub knee_high_bytes: Option<u64>,
    pub interval: SizeInterval,
    /// The least RAM that the measurement supports: the upper end of the interval in whole MiB or, without a knee, the
    /// smallest limit that every repeat tolerated.
    pub recommended_bytes: Option<u64>,
    /// Most swap of the program's cgroup under that limit: pages that an engine with a compressed store keeps in RAM
    /// beyond the limit, compressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap_bytes: Option<u64>,
    /// Bytes that a hard limit adds to it.
    pub headroom_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headroom_reason: Option<HeadroomReason>,
    pub advice: Vec<SizeAdvice>,
}

/// One run of the program under a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SizePoint {
    pub repeat: u32,
    pub limit_bytes: u64,
    /// Cost of the run over the median of those runs of its repeat that never met their limit (without one, of those under
    /// the largest limit), minus one; 0 of a run that never met its limit; absent if the run has no cost.
    pub slowdown: Option<f64>,
    /// The end of the run, by its name ([`Status::name`](crate::scenario::workloads::command::Status::name)).
    pub status: String,
}

/// The origin of the ends of a knee's interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SizeInterval {
    /// From the largest limit that was too small in the lowest repeat, to the smallest limit that was tolerated in the
    /// highest: the repeats are too few for an interval of a stated probability.
    Range,
    /// 95% bootstrap intervals of the medians of these two limits: the lower end of one, the upper end of the other.
    #[serde(rename = "bootstrap-95")]
    Bootstrap95,
    /// The kind of a later version.
    #[default]
    #[serde(other)]
    Other,
}

/// The reason for the amount of headroom.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum HeadroomReason {
    /// A quarter: for inputs and versions of the program that need more.
    Share,
    /// The width of the knee's interval, which is more than a quarter.
    Interval,
    /// The reason of a later version.
    #[default]
    #[serde(other)]
    Other,
}

/// The settings of one system that give the program its memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeAdvice {
    pub system: SizedSystem,
    /// Memory that the program is given without condition: `requests`, or `MemoryHigh=`.
    pub soft_bytes: u64,
    /// Memory beyond which the kernel kills: `limits`, or `MemoryMax=`.
    pub hard_bytes: u64,
    /// Lines of its configuration, or a command.
    pub lines: Vec<String>,
    /// The condition under which they hold, one sentence.
    pub premise: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SizedSystem {
    /// The container of a pod.
    Kubernetes,
    /// A unit file.
    Systemd,
    /// A command in a transient unit of systemd.
    SystemdRun,
    /// The system of a later version.
    #[default]
    #[serde(other)]
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_later_version_read_as_other() {
        let name = "\"of-a-later-version\"";
        assert_eq!(
            serde_json::from_str::<SizeInterval>(name).unwrap(),
            SizeInterval::Other
        );
        assert_eq!(
            serde_json::from_str::<HeadroomReason>(name).unwrap(),
            HeadroomReason::Other
        );
        assert_eq!(
            serde_json::from_str::<SizedSystem>(name).unwrap(),
            SizedSystem::Other
        );
        assert_eq!(
            serde_json::to_string(&SizeInterval::Bootstrap95).unwrap(),
            "\"bootstrap-95\""
        );
    }
}
