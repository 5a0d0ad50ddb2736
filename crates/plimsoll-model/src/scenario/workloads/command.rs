//! A program of the user, run whole under one memory limit after the other: how much RAM does it need?

mod keys;
mod knee;
mod metric;

use serde::{Deserialize, Serialize};

use super::{Descriptor, Model, Settings, Subjects};
use crate::scenario::assignment::Assignment;
use crate::scenario::choice::named;
use crate::scenario::error::Invalid;
use crate::scenario::size::size_text;
use crate::scenario::speed::SpeedHints;

use keys::KEYS;
pub use knee::{Bracket, Point, Status, base_cost, bracket, compared, curve};
pub use metric::{MetricError, MetricPattern};

/// Runs of a search, about: twice the base, five downwards, four to bisect.
const USUAL_RUNS: f64 = 11.0;
/// Time of a run of a search, on an average, in times of the base: those with too little memory take longer.
const USUAL_SLOWDOWN: f64 = 2.0;

/// A whole run of a program is a *point*. A trial has one or several, each under one limit; the first one is the *base*.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProgramRun {
    /// The program and its arguments; never empty.
    pub command: Vec<String>,
    /// The limits of all points in bytes, descending; empty where they are searched, or there is one point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<u64>,
    /// Whether the trial searches the knee, downwards from the limit.
    pub search: bool,
    /// Largest slowdown that is tolerated, as a share of the base.
    pub tolerate: f64,
    /// Regular expression of the number that the program prints; none where wall time counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Whether a larger number is better.
    pub higher_is_better: bool,
    /// Whether the output on stdout must be the same at each point.
    pub same_output: bool,
    pub cache: PageCache,
    /// Seconds that a run is expected to take.
    pub run_time: f64,
}

/// The cgroup's page cache at the start of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PageCache {
    /// A run before the base reads the files, and the cgroup keeps its cache from point to point.
    Warm,
    /// The cgroup is empty.
    Cold,
}

named!(PageCache, "cold" = PageCache::Cold, "warm" = PageCache::Warm,);

/// Findings of a point.
pub mod finding {
    /// Limit of the cgroup.
    pub const LIMIT: &str = "limit_bytes";
    /// From the start of the program to its end.
    pub const WALL: &str = "wall_s";
    /// CPU time of the program and of all processes that it waited for, in the program.
    pub const CPU_USER: &str = "cpu_user_s";
    /// The same in the kernel.
    pub const CPU_SYSTEM: &str = "cpu_system_s";
    /// The number that the program printed; absent without `metric`.
    pub const METRIC: &str = "metric";
    /// Wall time, or the metric so that less is better; absent where the program printed no number.
    pub const COST: &str = "cost";
    /// Cost over the median of the runs that never met their limit, less 1. Of a run that was ended, a lower bound; absent where it is not known.
    pub const SLOWDOWN: &str = "slowdown";
    /// How often a charge met the limit: a run without one was not slowed by it. Absent where the kernel does not say.
    pub const LIMIT_HITS: &str = "limit_hits";
    /// How the run ended: the number of a [`super::Status`].
    pub const STATUS: &str = "status";
    /// Exit code; 128 + the signal that ended the program.
    pub const EXIT_CODE: &str = "exit_code";
    /// Page faults that read from swap or a file.
    pub const MAJOR_FAULTS: &str = "major_faults";
    /// Refaults of anonymous pages in the cgroup.
    pub const REFAULT_ANON: &str = "refault_anon";
    /// Refaults of file pages in the cgroup.
    pub const REFAULT_FILE: &str = "refault_file";
    /// Share of the time in which a task waited for memory: of the cgroup where it has PSI (v2), else of the machine.
    pub const PSI_SOME: &str = "psi_some_percent";
    /// The same, in which all tasks waited.
    pub const PSI_FULL: &str = "psi_full_percent";
    /// Most memory that was charged to the cgroup.
    pub const PEAK: &str = "peak_bytes";
    /// 1 where [`PEAK`] is the largest of the samples: the kernel cannot reset its own counter.
    pub const PEAK_SAMPLED: &str = "peak_sampled";
    /// Most anonymous memory of the cgroup in RAM, of the samples.
    pub const ANON_PEAK: &str = "anon_peak_bytes";
    /// Most page cache of the cgroup, of the samples.
    pub const FILE_PEAK: &str = "file_peak_bytes";
    /// Most swap of the cgroup, of the samples.
    pub const SWAP_PEAK: &str = "swap_peak_bytes";
    /// Processes that were still in the cgroup when the program had ended; the runner ended them.
    pub const LEFT: &str = "left_processes";
    /// Runs that the OOM killer ended under this limit although swap was free; absent if there were none.
    pub const EARLY_KILLS: &str = "early_kills";
    /// Bytes that the program wrote to stdout.
    pub const OUTPUT: &str = "output_bytes";
}

impl ProgramRun {
    /// The name of a point.
    pub fn phase(limit: u64) -> String {
        format!("limit {}", size_text(limit))
    }

    /// The limit of the base, where the one of the settings is `limit`.
    pub fn base_limit(&self, limit: u64) -> u64 {
        self.limits.first().copied().unwrap_or(limit)
    }

    /// The cost of a run: less is better. None where the number says nothing.
    pub fn cost(&self, wall_s: f64, metric: Option<f64>) -> Option<f64> {
        let cost = match (&self.metric, self.higher_is_better) {
            (None, _) => wall_s,
            (Some(_), false) => metric?,
            (Some(_), true) => 1.0 / metric?,
        };
        (cost.is_finite() && cost > 0.0).then_some(cost)
    }

    /// The command as a line for a shell.
    pub fn command_line(&self) -> String {
        let words: Vec<String> = self.command.iter().map(|word| for_shell(word)).collect();
        words.join(" ")
    }
}

/// A word as a shell takes it.
fn for_shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

pub(super) const WORKLOAD: Descriptor = Descriptor {
    keys: KEYS,
    subjects: Subjects::Swap,
    // A program of the user needs the memory that it needs.
    shrinks: false,
    scenarios: &[],
};

/// Adds the codes of its statements to those of others.
macro_rules! statements {
    ($add:ident $($others:tt)*) => {
        $add! { {
            /// The memory that a program needs for a tolerated slowdown.
            CommandNeeds values "needed_bytes" "tolerate_percent" names "group" "program";
            /// The time of a program under one limit.
            CommandTook values "base_wall_s" names "group" "program";
            /// The peak of a program under the largest limit, and its parts.
            CommandPeak values "base_peak_bytes" "base_anon_peak_bytes" "base_file_peak_bytes";
            /// The slowdown under the smallest limit, if it is tolerated.
            CommandNoSmallerLimit values "needed_slowdown_percent";
            /// The knee, and the limit that was too small.
            CommandKnee values "knee_bytes" "too_small_bytes";
            /// The knee, and its 95% interval.
            CommandKneeInterval values "knee_bytes" "low_knee_bytes" "high_knee_bytes";
            /// The knee, and its range over the repeats.
            CommandKneeRange values "knee_bytes" "low_knee_bytes" "high_knee_bytes" "repeats";
            /// The largest limit under which the OOM killer ended the program.
            CommandKilled values "oom_killed_limit_bytes";
        } $($others)* }
    };
}
pub(crate) use statements;

impl Model for ProgramRun {
    fn read(values: &Assignment<'_>) -> Result<Self, Box<Invalid>> {
        keys::read(values)
    }

    /// The base is expected to fit its limit.
    fn size(&self, settings: &Settings) -> u64 {
        settings.limit
    }

    fn size_keys(&self) -> &'static [&'static str] {
        &["limit"]
    }

    fn runs_program(&self) -> bool {
        true
    }

    /// Memory that a smaller limit moves to the store was in RAM at the base.
    fn stored(&self, settings: &Settings) -> u64 {
        match self.search || !self.limits.is_empty() {
            true => 0,
            false => settings.swap_size,
        }
    }

    fn rest_seconds(&self, _: &Settings, hints: &SpeedHints) -> f64 {
        hints.setup_s
    }

    fn seconds(&self, _: &Settings, hints: &SpeedHints) -> f64 {
        let runs = match (self.search, self.limits.len()) {
            (true, _) => USUAL_RUNS * USUAL_SLOWDOWN,
            (false, 0) => 1.0,
            (false, limits) => limits as f64 * USUAL_SLOWDOWN,
        };
        let first = if self.cache == PageCache::Warm { 1.0 } else { 0.0 };
        hints.setup_s + (runs + first) * (self.run_time + hints.process_s)
    }

    /// The command, and settings that differ from the defaults.
    fn params(&self, settings: &Settings) -> Vec<(&'static str, String)> {
        let limits: Vec<String> = self.limits.iter().map(|limit| size_text(*limit)).collect();
        let of = |differs: bool, text: &str| differs.then(|| text.to_owned());
        let others = [
            ("limits", of(!limits.is_empty(), &limits.join(","))),
            ("search", of(self.search, "true")),
            (
                "tolerate",
                of(self.tolerate != keys::TOLERATE, &self.tolerate.to_string()),
            ),
            ("metric", self.metric.clone()),
            ("higher-is-better", of(self.higher_is_better, "true")),
            ("same-output", of(self.same_output, "true")),
        ];
        let always = [
            ("size", self.size(settings).to_string()),
            ("command", self.command_line()),
            ("cache", self.cache.name().to_owned()),
        ];
        let others = others.into_iter().filter_map(|(name, text)| Some((name, text?)));
        always.into_iter().chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_each_word_of_the_command_line_for_one() {
        assert_eq!(for_shell("a-b_c/d.e=1"), "a-b_c/d.e=1");
        assert_eq!(for_shell("two words"), "'two words'");
        assert_eq!(for_shell("it's"), r"'it'\''s'");
        assert_eq!(for_shell(""), "''");
        assert_eq!(for_shell("$HOME"), "'$HOME'");
    }
}
