//! The sweep of load that finds how much this machine carries: one worker visits its memory, at one load after the
//! other.

mod knee;

use serde::{Deserialize, Serialize};

use super::{Model, Settings};
use crate::scenario::assignment::{Assignment, Key, MIB, PAGE, Preset, derived, key};
use crate::scenario::choice::named;
use crate::scenario::error::Invalid;
use crate::scenario::kind::Kind;
use crate::scenario::model::{FillClass, ThpMode};
use crate::scenario::shared_keys::{self, CLASS, THP};
use crate::scenario::speed::SpeedHints;
use crate::scenario::value::Value;

pub use knee::{Bracket, CARRIED, Point, better, bracket};

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
    /// 1 where the OOM killer ended the worker.
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
}

pub(in crate::scenario) const KEYS: &[Key] = &[
    CLASS,
    key(
        "max-load",
        Kind::Number { min: 1.0, max: 10.0 },
        Preset::Text("3"),
        "largest load, as a multiple of `limit`; that many bytes are its `size`",
    )
    .single(),
    derived("size", "`max-load` times `limit`", |values| {
        let largest = Loadline::largest(values.bytes("limit")?, values.number("max-load")?);
        Ok(Some(Value::bytes(largest)))
    }),
    shared_keys::limit(
        Preset::Of("2% of the available memory, `64M` to `256M`", |values| {
            let share = (values.available() / 50 / MIB * MIB).clamp(64 * MIB, 256 * MIB);
            Ok(Some(Value::bytes(values.scale.of(share))))
        }),
        "limit of the memory cgroup that the worker runs in",
    ),
    key(
        "pattern",
        Kind::Choice(Pattern::NAMES),
        Preset::Text("uniform"),
        "how the worker chooses the page that it visits next",
    ),
    key(
        "compute",
        Kind::Seconds { min: 0.0, max: 1.0 },
        Preset::Text("0.00001"),
        "computing after each visit of a page, in seconds of CPU time",
    ),
    shared_keys::duration("seconds of each measured stretch"),
    THP,
];

impl Loadline {
    /// The loads that are measured first, over the whole axis.
    pub fn coarse_loads(&self) -> impl Iterator<Item = f64> + use<> {
        const COARSE: [f64; 9] = [0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0];
        let most = self.max_load;
        COARSE.into_iter().filter(move |load| *load < most).chain([most])
    }

    /// About the loads of a trial: the coarse ones, and six around a knee that is taken to be at 1.5.
    fn usual_loads(&self) -> impl Iterator<Item = f64> + use<> {
        self.coarse_loads().chain([self.max_load.min(1.5); 6])
    }

    /// Bytes of the largest load.
    fn largest(limit: u64, max_load: f64) -> u64 {
        // A float holds any size closely enough here: the load is a number with a few digits.
        (limit as f64 * max_load) as u64
    }
}

impl Model for Loadline {
    fn read(values: &Assignment<'_>) -> Result<Self, Box<Invalid>> {
        // Refuses a limit that is made from the size, which is made from it.
        values.bytes("size")?;
        Ok(Loadline {
            class: values.class("class")?,
            pattern: values.choice("pattern")?,
            max_load: values.number("max-load")?,
            compute: values.number("compute")?,
            duration: values.number("duration")?,
            thp: values.choice("thp")?,
        })
    }

    fn size_keys(&self) -> &'static [&'static str] {
        &["limit", "max-load"]
    }

    fn size(&self, settings: &Settings) -> u64 {
        let largest = Loadline::largest(settings.limit, self.max_load);
        largest.checked_next_multiple_of(PAGE).unwrap_or(largest)
    }

    fn filled(&self) -> Option<(&FillClass, ThpMode)> {
        Some((&self.class, self.thp))
    }

    /// Each point fills its memory, sets and checks all pages, which at more than the limit moves them out and back
    /// each time, warms up and measures.
    fn seconds(&self, settings: &Settings, hints: &SpeedHints) -> f64 {
        /// Starting and ending a worker.
        const WORKER_S: f64 = 0.3;
        let point = |load: f64| {
            let bytes = (load * settings.limit as f64) as u64;
            let over = if load > 1.0 { bytes } else { 0 };
            let moved = 2.0 * hints.stored_seconds(&settings.subject, &self.class, over);
            WORKER_S + 1.5 * self.duration + hints.fill_seconds(bytes) + moved
        };
        hints.setup_s + self.usual_loads().map(point).sum::<f64>()
    }
}
