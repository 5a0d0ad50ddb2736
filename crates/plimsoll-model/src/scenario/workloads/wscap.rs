//! The working-set cap of Dawson (2023): one worker scans its memory, first uncapped and then under a cap.

use serde::{Deserialize, Serialize};

use super::filling::{MEMORY, SUBJECT, THREADS};
use super::{
    Backing, Descriptor, Filling, Model, Need, Settings, Subjects, Unfit, UnfitForPager, swap_holds_size,
};
use crate::scenario::assignment::{Assignment, GIB, Key, PAGE, Preset, key};
use crate::scenario::builtin::builtins;
use crate::scenario::choice::named;
use crate::scenario::error::Invalid;
use crate::scenario::kind::Kind;
use crate::scenario::shared_keys::{self, CLASS, THP};
use crate::scenario::speed::SpeedHints;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wscap {
    #[serde(flatten)]
    pub filling: Filling,
    /// Size over cap: 2 is a cap of half the size.
    pub load: f64,
    pub cap_by: CapBy,
    /// Seconds of each measured stretch.
    pub duration: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapBy {
    /// The hard limit of its cgroup (`memory.limit_in_bytes`, `memory.max`): trimmed at every fault.
    Limit,
    /// The soft ceiling of its cgroup (`memory.high`, v2 alone): trimmed and held back at every fault.
    High,
    /// The runner looks once a second and trims the pages above the cap, as a balance-set manager does: needs no
    /// privilege and no cgroup.
    Balance,
}

named!(
    CapBy,
    "limit" = CapBy::Limit,
    "high" = CapBy::High,
    "balance" = CapBy::Balance,
);

pub mod phase {
    pub const FILL: &str = "fill";
    /// Scans while all may stay resident.
    pub const UNCAPPED: &str = "uncapped";
    /// Scans under the cap.
    pub const CAPPED: &str = "capped";
    /// Scans after the working set was emptied once.
    pub const EMPTIED: &str = "emptied";
    pub const VERIFY: &str = "verify";
}

pub mod finding {
    /// Scans, with the fraction of the last one.
    pub const SCANS: &str = "scans_count";
    /// Scans a second. Also the name of the list of these, one for each [`super::Wscap::RATE_INTERVAL_S`].
    pub const RATE: &str = "scans_per_s";
    /// Seconds a page, all pages alike.
    pub const PAGE: &str = "page_s";
    /// Faults of the worker a scan.
    pub const FAULTS: &str = "faults_per_scan_count";
    /// Seconds of the first scan; absent where it was not finished.
    pub const FIRST: &str = "first_scan_s";
    /// Seconds of the median scan; absent where none was finished.
    pub const MEDIAN: &str = "median_scan_s";
    /// Looks of the balance-set manager.
    pub const LOOKS: &str = "balance_looks_count";
    /// Bytes that it trimmed.
    pub const TRIMMED: &str = "balance_trimmed_bytes";
    /// Seconds that it took for it.
    pub const TRIMMING: &str = "balance_trimming_s";
    /// Least of the filled memory that was seen resident.
    pub const RESIDENT_MIN: &str = "resident_min_bytes";
    /// Most of the filled memory that was seen resident.
    pub const RESIDENT_MAX: &str = "resident_max_bytes";
    /// CPU time in the handling of page faults, in percent.
    pub const FAULT_PATH: &str = "fault_path_percent";
    /// Samples of the CPU time.
    pub const PROFILE_SAMPLES: &str = "profile_samples_count";
    pub const PROFILE_LOST: &str = "profile_lost_count";
    pub const EMPTYING: &str = "emptying_s";
    /// Bytes that stayed resident.
    pub const STAYED: &str = "stayed_bytes";
    /// Seconds in which dirty pages of a file were written to it, before the emptying.
    pub const WRITEBACK: &str = "writeback_s";
    /// Pages a scan that were reclaimed and read again from their file.
    pub const FILE_REFAULTS: &str = "file_refaults_per_scan_count";
}

const KEYS: &[Key] = &[
    SUBJECT,
    CLASS,
    shared_keys::size("bytes that the worker fills"),
    MEMORY,
    THREADS,
    key(
        "load",
        Kind::Number { min: 0.1, max: 100.0 },
        Preset::Text("2"),
        "`size` over the cap",
    ),
    key(
        "cap-by",
        Kind::Choice(CapBy::NAMES),
        Preset::Text("limit"),
        "the mechanism that enforces the cap",
    ),
    shared_keys::duration("seconds of each measured stretch"),
    shared_keys::hold("rest after fill and after the cap"),
    THP,
];

impl Wscap {
    /// Seconds that each value in a trial's lists of scans a second stands for: as often as the system is sampled.
    pub const RATE_INTERVAL_S: f64 = 0.1;

    pub fn cap(&self) -> u64 {
        (self.filling.size as f64 / self.load) as u64
    }

    pub fn request(&self) -> u64 {
        (self.filling.size / 4)
            .min(GIB)
            .next_multiple_of(PAGE)
            .min(self.filling.size)
    }
}

pub(super) const WORKLOAD: Descriptor = Descriptor {
    keys: KEYS,
    subjects: Subjects::SwapAndPagers,
    shrinks: true,
    scenarios: builtins! {
        "wscap" "Cost of a cap on the working set: scans of memory larger than the cap";
        "wscap-sweep" "Cost of a cap on the working set: sizes from half to four times the cap";
    },
};

/// Adds the codes of its statements to those of others.
macro_rules! statements {
    ($add:ident $($others:tt)*) => {
        $add! { {
            /// The slowdown of a scan in each group at `load`, the size over the cap.
            WscapByGroup values "groups" "load" "low_slowdown_ratio" "high_slowdown_ratio";
            /// As `wscap-by-group`, as a range for each mechanism of the cap. The mechanisms are separated by commas.
            WscapByMechanism values "groups" "load" "low_slowdown_ratio" "high_slowdown_ratio" names "mechanisms";
            /// As `wscap-by-group`, as one range.
            WscapRange values "groups" "load" "low_slowdown_ratio" "high_slowdown_ratio";
            /// The slowdown of one group, with its spread over the repeats.
            WscapGroup values "slowdown_ratio" "low_slowdown_ratio" "high_slowdown_ratio" "repeats" names "group";
            /// The share of the CPU time of the scan that goes into page faults.
            WscapFaultTime values "low_fault_path_percent" "high_fault_path_percent";
            /// The share of the faults in files that found their page in the page cache.
            WscapCacheHits values "low_cache_hits_percent" "high_cache_hits_percent";
            /// The largest size over cap up to which no group is slower.
            WscapFree values "load";
        } $($others)* }
    };
}
pub(crate) use statements;

impl Model for Wscap {
    fn read(values: &Assignment<'_>) -> Result<Self, Box<Invalid>> {
        Ok(Wscap {
            filling: Filling::read_all(values)?,
            load: values.number("load")?,
            cap_by: values.choice("cap-by")?,
            duration: values.number("duration")?,
        })
    }

    fn size(&self, _: &Settings) -> u64 {
        self.filling.size
    }

    fn filling(&self) -> Option<&Filling> {
        Some(&self.filling)
    }

    fn takes_cpu_profile(&self) -> bool {
        true
    }

    /// Three measured stretches; the working set goes out under the cap and once more when it is emptied.
    fn seconds(&self, settings: &Settings, hints: &SpeedHints) -> f64 {
        let leaves = settings.subject.has_swap() || settings.subject.pager().is_some();
        let is_capped = leaves || !self.filling.memory.goes_to_swap();
        let stretches = match is_capped {
            false => self.duration,
            true => 3.0 * self.duration + 2.0 * self.filling.stored_seconds(settings, hints),
        };
        self.rest_seconds(settings, hints)
            + hints.fill_seconds(self.filling.size)
            + hints.verify_seconds(self.filling.size)
            + stretches
    }

    fn maps_file(&self) -> bool {
        self.filling.memory == Backing::File
    }

    fn unfit_for_pager(&self) -> Option<UnfitForPager> {
        matches!(self.cap_by, CapBy::High | CapBy::Balance).then(|| UnfitForPager {
            key: "cap-by",
            has: self.cap_by.name(),
            instead: "`cap-by = \"limit\"`: the pager's budget is the cap",
        })
    }

    fn params(&self, _: &Settings) -> Vec<(&'static str, String)> {
        let own = [
            ("load", self.load.to_string()),
            ("cap-by", self.cap_by.name().to_owned()),
        ];
        self.filling.params().into_iter().chain(own).collect()
    }

    fn check(&self, settings: &Settings) -> Result<(), Unfit> {
        swap_holds_size(settings)?;
        self.filling.check()
    }

    fn needs(&self) -> Vec<Need> {
        match self.cap_by {
            CapBy::High => vec![Need::MemoryHigh],
            CapBy::Limit | CapBy::Balance => Vec::new(),
        }
    }
}
