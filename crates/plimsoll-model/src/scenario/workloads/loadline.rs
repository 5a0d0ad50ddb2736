//! The sweep of load that finds how much this machine carries: one worker visits its memory, at one load after the
//! other.

mod keys;
mod knee;
mod loads;

use serde::{Deserialize, Serialize};

use super::{Descriptor, Model, Settings, Subjects, Unfit, swap_holds_size};
use crate::quantity;
use crate::scenario::assignment::{Assignment, PAGE};
use crate::scenario::builtin::builtins;
use crate::scenario::choice::named;
use crate::scenario::error::Invalid;
use crate::scenario::model::{FillClass, ThpMode};
use crate::scenario::size::size_text;
use crate::scenario::speed::SpeedHints;

use keys::KEYS;
pub use knee::{Bracket, CARRIED, Criterion, Point, SERVED, base, better, bracket};

/// Bytes that a visiting thread takes besides the visited memory: stack, histograms, the table of its pattern.
const THREAD: u64 = 128 << 10;
/// Fewest visits that are due in a stretch: p99 of fewer is not known.
const LEAST_DUE: f64 = 100.0;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Loadline {
    pub class: FillClass,
    pub pattern: Pattern,
    /// Largest load, as a multiple of the limit.
    pub max_load: f64,
    /// Seconds of computing after each visit of a page.
    pub compute: f64,
    /// Seconds that are measured at each load.
    pub duration: f64,
    /// Transparent huge pages for the worker's memory.
    pub thp: ThpMode,
    /// Bytes that are visited at every load, where the load changes the limit; none where it changes the size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_set: Option<u64>,
    /// The limits of all points in bytes, descending; empty where loads are given or searched. Only with a working set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<u64>,
    /// The loads of all points, ascending; empty where limits are given or loads are searched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<f64>,
    /// Share of the useful work at the lowest load, or of the visits that are due, from which on a load is carried.
    #[serde(default = "half", skip_serializing_if = "is_half")]
    pub target_work: f64,
    /// Largest p99 in seconds of a load that meets the target; none without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_p99: Option<f64>,
    /// Visiting threads of the worker.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub threads: u32,
    /// Percent of the visits that write.
    #[serde(default = "all", skip_serializing_if = "is_all")]
    pub write_percent: u32,
    /// Visits that are due a second, of all threads together; none where each visit begins when the one before has
    /// ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Percent of the visited pages that are those of a mapped file; the others are anonymous.
    #[serde(default, skip_serializing_if = "is_none")]
    pub file_percent: u32,
}

// Recordings have the settings that differ from those of earlier versions.

fn half() -> f64 {
    CARRIED
}

fn is_half(share: &f64) -> bool {
    *share == half()
}

fn one() -> u32 {
    1
}

fn is_one(threads: &u32) -> bool {
    *threads == one()
}

fn all() -> u32 {
    100
}

fn is_all(percent: &u32) -> bool {
    *percent == all()
}

fn is_none(percent: &u32) -> bool {
    *percent == 0
}

/// How a worker chooses the page that it visits next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Every page as likely as any other.
    Uniform,
    /// A few pages often, many seldom (Zipf's law).
    Zipf,
    /// One page after the other, round and round.
    Sequential,
    /// 90% of the visits to 10% of the pages.
    HotCold,
    /// Each page names the next: no visit can begin before the one before it has ended.
    Chase,
}

named!(
    Pattern,
    "uniform" = Pattern::Uniform,
    "zipf" = Pattern::Zipf,
    "sequential" = Pattern::Sequential,
    "hot-cold" = Pattern::HotCold,
    "chase" = Pattern::Chase,
);

/// Findings of a phase, the measurement at one load: the values of a point.
pub mod finding {
    /// Size over limit.
    pub const LOAD: &str = "load";
    /// Useful work: visits a second, without the time in [`CPU_WAIT`].
    pub const VISITS: &str = "visits_per_s";
    /// Time that the worker could run and waited for a CPU that others used; absent where the kernel does not count it.
    pub const CPU_WAIT: &str = "cpu_wait_s";
    /// 1 where the OOM killer ended the worker, or its pager exceeded its budget.
    pub const KILLED: &str = "oom_killed";
    /// Workers that the OOM killer ended at this load although their swap was free or a larger load was completed.
    pub const EARLY_KILLS: &str = "early_kills";
    /// Size over limit and store together.
    pub const RAM_LOAD: &str = "ram_load";
    /// RAM of the compressed store.
    pub const STORE: &str = "store_bytes";
    /// Resident anonymous memory of the worker after the stretch.
    pub const RESIDENT: &str = "resident_bytes";
    /// Swap of the worker after the stretch.
    pub const SWAPPED: &str = "swapped_bytes";
    pub const HARD_FAULTS: &str = "hard_faults_per_s";
    /// CPU time in the program, of one CPU.
    pub const CPU_USER: &str = "cpu_user_percent";
    /// CPU time in the kernel, of one CPU.
    pub const CPU_SYSTEM: &str = "cpu_system_percent";
    /// CPU time of a visit.
    pub const CPU_PER_VISIT: &str = "cpu_per_visit_s";
    /// Time of a visit without the worker's own.
    pub const NET: &str = "net_visit_s";
    /// Share of the time in which a task waited for memory: of the cgroup where it has PSI (v2), else of the machine.
    pub const PSI_SOME: &str = "psi_some_percent";
    /// The same, in which all tasks waited.
    pub const PSI_FULL: &str = "psi_full_percent";
    /// Latency that 99 of 100 visits do not exceed.
    pub const P99: &str = "p99_s";
    /// Bytes that are visited.
    pub const SIZE: &str = "size_bytes";
    /// Limit of the cgroup.
    pub const LIMIT: &str = "limit_bytes";
    /// Visits that were due a second; absent without a rate.
    pub const OFFERED: &str = "offered_per_s";
    /// Share of the due visits that were made in their stretch; absent without a rate.
    pub const ACHIEVED: &str = "achieved_ratio";
    /// Latency that 99 of 100 visits which only read do not exceed; absent where all visits do the same.
    pub const READ_P99: &str = "read_p99_s";
    /// The same of visits that write.
    pub const WRITE_P99: &str = "write_p99_s";
    /// Pages of the machine that were written to swap devices.
    pub const SWAP_OUT: &str = "swap_out_pages_per_s";
    /// Pages of the machine that were read from swap devices, read-ahead included; only beside pages of a file.
    pub const SWAP_IN: &str = "swap_in_pages_per_s";
    /// Pages of files of the cgroup that were reclaimed and read again, read-ahead included; only with pages of a file, where
    /// the kernel counts them.
    pub const FILE_REFAULTS: &str = "file_refaults_per_s";
    /// Visited bytes of the file; absent without one.
    pub const FILE_SIZE: &str = "file_size_bytes";
    /// Bytes of them in RAM after the stretch, mapped or in the page cache alone.
    pub const FILE_IN_RAM: &str = "file_in_ram_bytes";
}

pub(super) const WORKLOAD: Descriptor = Descriptor {
    keys: KEYS,
    subjects: Subjects::SwapAndPagers,
    shrinks: true,
    scenarios: builtins! {
        "loadline" "The load line of a machine: the load that it carries with each swap device";
        "loadline-patterns" "The load line of a machine for five access patterns";
        "page-cluster" "Read-ahead from swap: the load line of a machine with vm.page-cluster as it is, and without";
        "swappiness" "Page cache or swap: the load line of a machine with vm.swappiness as it is, and from 10 to 200";
    },
};

/// Adds the codes of its statements to those of others.
macro_rules! statements {
    ($add:ident $($others:tt)*) => {
        $add! { {
            /// The load above which useful work, visits or p99 miss the target. `load` is size over limit.
            LoadlineSustained values "load" "target_work_ratio" "target_visits_ratio" "target_p99_s" "oom_killed_load" names "group";
            /// As `loadline-sustained`, and no load missed the target: the line is above `load`.
            LoadlineSustainedMore values "load" "target_work_ratio" "target_visits_ratio" "target_p99_s" "oom_killed_load" names "group";
            /// The limit that a working set of a fixed size needs to meet the target.
            LoadlineNeeds values "size_bytes" "limit_bytes" "target_work_ratio" "target_visits_ratio" "target_p99_s" "oom_killed_load" names "group";
            /// As `loadline-needs`, and no limit missed the target: the need is at most `limit_bytes`.
            LoadlineNeedsAtMost values "size_bytes" "limit_bytes" "target_work_ratio" "target_visits_ratio" "target_p99_s" "oom_killed_load" names "group";
            /// Even the lowest load misses the target.
            LoadlineNotSustained values "target_work_ratio" "target_visits_ratio" "target_p99_s" names "group";
            /// The 95% interval of the load or of the limit.
            LoadlineInterval values "low_load" "high_load" "low_limit_bytes" "high_limit_bytes";
            /// The range of the load or of the limit over the repeats.
            LoadlineRange values "low_load" "high_load" "low_limit_bytes" "high_limit_bytes" "repeats";
            /// The measured loads or limits on both sides of the line.
            LoadlineTried values "low_load" "high_load" "low_limit_bytes" "high_limit_bytes";
            /// The load line with the RAM of the compressed store counted.
            LoadlineWithStore values "knee_ram_load";
            /// The load or the limit at which useful work misses its target, if the finding is about p99.
            LoadlineUsefulWork values "load" "limit_bytes" "target_work_ratio" "target_visits_ratio";
            /// The load from which on the worker makes too few of the visits that are due.
            LoadlineOverloaded values "overload_load" "target_work_ratio" "target_visits_ratio";
            /// The lowest load at which the OOM killer ended the program.
            LoadlineKilled values "oom_killed_load";
            /// The lowest load at which the pager exceeded its budget.
            LoadlineOverBudget values "oom_killed_load";
            /// The load that useful work is relative to, if it is not a light one.
            LoadlineRelative values "load";
            /// The class of the data, and the pattern of the visits.
            LoadlineData names "class" "pattern";
            /// The share of the visited pages that are those of a file.
            LoadlineFilePages values "file_percent" names "file_system";
        } $($others)* }
    };
}
pub(crate) use statements;

impl Model for Loadline {
    fn read(values: &Assignment<'_>) -> Result<Self, Box<Invalid>> {
        keys::read(values)
    }

    fn size_keys(&self) -> &'static [&'static str] {
        match (self.working_set, self.loads.as_slice()) {
            (Some(_), _) => &["size"],
            (None, []) => &["limit", "max-load"],
            (None, _) => &["limit", "loads"],
        }
    }

    fn size(&self, settings: &Settings) -> u64 {
        let largest = match self.working_set {
            Some(size) => size,
            None => Loadline::largest(settings.limit, self.highest_load()),
        };
        largest.checked_next_multiple_of(PAGE).unwrap_or(largest)
    }

    fn filled(&self) -> Option<(&FillClass, ThpMode)> {
        Some((&self.class, self.thp))
    }

    fn visits_file(&self) -> bool {
        self.file_percent > 0
    }

    fn maps_file(&self) -> bool {
        self.file_percent > 0
    }

    /// Pages of the file go to no swap.
    fn stored(&self, settings: &Settings) -> u64 {
        let size = self.size(settings);
        let anonymous = size - self.file_bytes(size);
        (anonymous as f64 * self.class.stored_share()) as u64
    }

    /// Each point fills its memory, sets and checks all pages, which at more than the limit moves them out and back
    /// each time, warms up and measures.
    fn seconds(&self, settings: &Settings, hints: &SpeedHints) -> f64 {
        /// Starting and ending a worker.
        const WORKER_S: f64 = 0.3;
        let point = |load: f64| {
            let (bytes, _) = self.size_and_limit(load, settings.limit);
            let over = if load > 1.0 { bytes } else { 0 };
            let anonymous = over - self.file_bytes(over);
            let moved = 2.0 * hints.stored_seconds(&settings.subject, &self.class, anonymous);
            let of_file = hints.disk_seconds(self.file_bytes(bytes) + self.file_bytes(over));
            WORKER_S + 1.5 * self.duration + hints.fill_seconds(bytes) + moved + of_file
        };
        hints.setup_s + self.usual_loads().map(point).sum::<f64>()
    }

    /// The size and the class, and settings that differ from the defaults.
    fn params(&self, settings: &Settings) -> Vec<(&'static str, String)> {
        let list = |texts: Vec<String>| (!texts.is_empty()).then(|| texts.join(","));
        let loads = list(self.loads.iter().map(f64::to_string).collect());
        let limits = list(self.limits.iter().map(|limit| size_text(*limit)).collect());
        let work = (self.target_work != self.usual_target_work()).then(|| self.target_work.to_string());
        let of = |differs: bool, value: u32| differs.then(|| value.to_string());
        let others = [
            ("loads", loads),
            ("limits", limits),
            ("target-work", work),
            ("target-p99", self.target_p99.map(|target| target.to_string())),
            ("threads", of(self.threads != one(), self.threads)),
            (
                "write-percent",
                of(self.write_percent != all(), self.write_percent),
            ),
            ("rate", self.rate.map(|rate| rate.to_string())),
            ("file-percent", of(self.file_percent > 0, self.file_percent)),
        ];
        let always = [
            ("size", self.size(settings).to_string()),
            ("class", self.class.to_string()),
        ];
        let others = others.into_iter().filter_map(|(name, text)| Some((name, text?)));
        always.into_iter().chain(others).collect()
    }

    fn check(&self, settings: &Settings) -> Result<(), Unfit> {
        swap_holds_size(settings)?;
        self.check_threads(settings)?;
        self.check_rate()
    }
}

impl Loadline {
    /// Of `size` visited bytes, those of the file: whole pages.
    pub fn file_bytes(&self, size: u64) -> u64 {
        let pages = u128::from(size / PAGE) * u128::from(self.file_percent) / 100;
        // At most `size`.
        pages as u64 * PAGE
    }

    /// Rejects threads whose own memory would be a large part of the smallest limit.
    fn check_threads(&self, settings: &Settings) -> Result<(), Unfit> {
        let own = THREAD * u64::from(self.threads);
        let least = self.limits.last().copied();
        let least = least.unwrap_or_else(|| self.size_and_limit(self.highest_load(), settings.limit).1);
        if self.threads == 1 || own <= least / 2 {
            return Ok(());
        }
        let bytes = |bytes: u64| quantity::bytes(bytes as f64);
        Err(Unfit::new(format!(
            "`threads` is {}: they take about {} themselves, more than half of the smallest limit of {}; lower `threads` \
             or raise `limit`",
            self.threads,
            bytes(own),
            bytes(least),
        )))
    }

    /// Rejects a rate at which a stretch has too few visits for a percentile, or a thread has none.
    fn check_rate(&self) -> Result<(), Unfit> {
        let least = LEAST_DUE.max(self.threads.into());
        match self.rate {
            Some(rate) if rate * self.duration < least => Err(Unfit::new(format!(
                "`rate` is {rate} visits a second, of which {} are due in the `duration` of {} s: at least {least} are \
                 needed; raise `rate` or `duration`",
                (rate * self.duration).floor(),
                self.duration,
            ))),
            _ => Ok(()),
        }
    }
}
