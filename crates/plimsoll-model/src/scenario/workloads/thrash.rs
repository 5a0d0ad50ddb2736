//! The thrashing benchmark of Maziero, Santos and Santin (2013): consumers that together need more than there is.

use serde::{Deserialize, Serialize};

use super::{Descriptor, Model, Settings, Subjects, Unfit, UnfitForPager};
use crate::quantity;
use crate::scenario::assignment::{Assignment, Key, PAGE, Preset, derived, key};
use crate::scenario::builtin::builtins;
use crate::scenario::error::Invalid;
use crate::scenario::guard_policy::{GuardPolicy, OF_TRIALS};
use crate::scenario::kind::{Kind, integer};
use crate::scenario::shared_keys::{self, DAY};
use crate::scenario::speed::SpeedHints;
use crate::scenario::value::Value;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Thrash {
    /// N: consumer processes.
    pub consumers: u32,
    /// S: bytes that each allocates.
    pub consumer_size: u64,
    /// W: writes at random bytes in one cycle.
    pub writes: u64,
    /// t_s: seconds of sleep between two cycles.
    pub sleep: f64,
    /// t_c: seconds between the starts of two consumers.
    pub stagger: f64,
    /// Seconds of rest before the first consumer.
    pub hold: f64,
    /// Seconds that all consumers work together; `None` in older recordings, for twice `stagger`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<f64>,
    /// The policy of the guard of the consumers' cgroup, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<GuardPolicy>,
}

/// Bytes of a page as the consumers count them.
const CONSUMED_PAGE: f64 = 4096.0;
/// Most seconds that a recovery is watched, from when the last consumer has ended.
pub const LONGEST_RECOVERY: f64 = 30.0;

/// Bytes of the budget that the pager of each consumer has at least: its tables, and some pages.
pub const LEAST_SHARE: u64 = 4 << 20;

/// Values of the parameter `mechanism` of a trial with pagers. They say which pagers move the pages,
/// and where the probes run.
pub mod mechanism {
    pub const IN_CGROUP: &str =
        "pagers in one pool; the probes are in the cgroup, whose memory no pager trims";
    pub const WITHOUT_CGROUP: &str =
        "pagers in one pool, without a cgroup; the probes share the machine with the load";
}

pub mod finding {
    /// Seconds that a consumer waited for evicted pages of its pager; absent without one.
    pub const STALLED: &str = "stalled_s";
    /// The same of all consumers, in percent of the time in which they were active.
    pub const PAGER_STALLED: &str = "pager_stalled_percent";
    /// Faults of all pagers a second on pages that were in a store or a page file.
    pub const PAGER_HARD_FAULTS_PER_S: &str = "pager_hard_faults_per_s";
    /// Faults of all pagers a second on trimmed pages that were still in RAM.
    pub const PAGER_SOFT_FAULTS: &str = "pager_soft_faults_per_s";
    /// Pages that all pagers moved out of their working sets a second.
    pub const PAGER_TRIMS: &str = "pager_trims_per_s";
    /// Seconds from the answer of all probes in the middle of the time in which all consumers work, to the common end: half of
    /// that time, or less if a probe answers late. This and the following three are absent if a probe answers after the end.
    pub const SECOND_HALF: &str = "second_half_s";
    /// Wake-ups of the probe in the second half.
    pub const SECOND_HALF_WAKEUPS: &str = "second_half_wakeup_count";
    /// 99th percentile of the wake-up latency in the second half of the time in which all consumers work. With a long
    /// `together`, it excludes the time in which a guard detects thrashing.
    pub const SECOND_HALF_WAKEUP: &str = "second_half_wakeup_p99_s";
    /// 99th percentile of the launch latency in the same interval.
    pub const SECOND_HALF_LAUNCH: &str = "second_half_launch_p99_s";
    /// Seconds from the common end until the machine was as at rest; absent where it was not.
    pub const RECOVERY: &str = "recovery_s";
    /// 1 where the machine was as at rest again, 0 where not.
    pub const RECOVERED: &str = "recovered_ratio";
}

/// Bytes that the process of a consumer takes in the cgroup besides its area: heap, stack, page tables.
const PROCESS: u64 = 512 << 10;
/// Memory of the probes: the small set, their processes, and the program that one of them starts.
const PROBES: u64 = 8 << 20;

const KEYS: &[Key] = &[
    key(
        "scale",
        Kind::Number { min: 0.001, max: 1.0 },
        Preset::Text("1"),
        "factor for `consumer-size`, `limit`, `swap-size`, `writes` and `stagger`, except those given on the command \
         line; 1 is the full experiment, and with a smaller factor a cycle still touches the same share of a consumer's \
         memory",
    )
    .single()
    // Scaled sizes are final: resolving the shown scenario again must not shrink them twice.
    .adjusted(|_, _, _| Ok(Value::Number(1.0))),
    key(
        "consumers",
        integer(1, 1000, false),
        Preset::Text("25"),
        "consumer processes, N in the original",
    )
    .alias("N"),
    key(
        "consumer-size",
        Kind::Size,
        Preset::Text("100M"),
        "bytes that each consumer allocates, S in the original; all together are its `size`",
    )
    .alias("S"),
    derived("size", "`consumers` times `consumer-size`", |values| {
        let each = values.bytes("consumer-size")?;
        Ok(each.checked_mul(values.integer("consumers")?).map(Value::bytes))
    }),
    key(
        "writes",
        integer(1, 1_000_000_000, false),
        Preset::Text("10000"),
        "writes at random bytes in one cycle, W in the original",
    )
    .alias("W")
    .adjusted(|values, value, by_argument| {
        Ok(match value {
            Value::Integer(writes) if !by_argument => {
                Value::Integer(((writes as f64 * factor(values)).round() as u64).max(1))
            }
            value => value,
        })
    }),
    key(
        "sleep",
        Kind::Seconds { min: 0.0, max: DAY },
        Preset::Text("0.1"),
        "sleep between two cycles, t_s in the original",
    )
    .alias("ts"),
    key(
        "stagger",
        Kind::Seconds { min: 0.0, max: DAY },
        Preset::Text("30"),
        "time between the starts of two consumers, t_c in the original",
    )
    .alias("tc")
    .adjusted(|values, value, by_argument| {
        Ok(match value {
            Value::Seconds(seconds) if !by_argument => Value::Seconds(seconds * factor(values)),
            value => value,
        })
    }),
    key(
        "together",
        Kind::Seconds { min: 0.0, max: DAY },
        Preset::Of("twice `stagger`", |values| {
            Ok(Some(Value::Seconds(2.0 * values.number("stagger")?)))
        }),
        "time that all consumers work together, from the start of the last to the common end; `scale` \
         shrinks the default with `stagger`, but not a given value",
    ),
    key(
        "guard",
        Kind::Choice(OF_TRIALS),
        Preset::Text("none"),
        "policy of the guard of the consumers' cgroup; no `throttle`, as they have one cgroup, and no `kill`, as a trial ends with a consumer",
    ),
    shared_keys::hold("rest before the first consumer, and the baseline of the recovery"),
    shared_keys::limit(
        Preset::Of("`40% size`", |values| {
            Ok(Some(Value::bytes(values.bytes("size")? / 5 * 2)))
        }),
        "limit of the memory cgroup that the consumers run in; with a pager, the budget of all pagers together",
    ),
];

/// Factor that shrinks the sizes of the file.
fn factor(values: &Assignment<'_>) -> f64 {
    match values.given("scale") {
        Some((Value::Number(factor), _)) => *factor,
        _ => 1.0,
    }
}

impl Thrash {
    /// Seconds from the start of the first consumer to the common end.
    pub fn seconds(&self) -> f64 {
        self.all_started() + self.together()
    }

    /// Seconds from the start of the first consumer to that of the last.
    pub fn all_started(&self) -> f64 {
        f64::from(self.consumers.saturating_sub(1)) * self.stagger
    }

    /// Seconds that all consumers work together.
    pub fn together(&self) -> f64 {
        self.together.unwrap_or(2.0 * self.stagger)
    }

    /// Rejects a budget that cannot be shared: a pager needs some memory of its own.
    fn check_shares(&self, settings: &Settings) -> Result<(), Unfit> {
        let least = u64::from(self.consumers).saturating_mul(LEAST_SHARE);
        if least <= settings.limit {
            return Ok(());
        }
        Err(Unfit::new(format!(
            "the pagers of {} consumers need {} at least, {} each, but `limit`, their budget, is {}; raise `limit` or \
             `scale`, or lower `consumers`",
            self.consumers,
            bytes(least),
            bytes(LEAST_SHARE),
            bytes(settings.limit),
        )))
    }
}

pub(super) const WORKLOAD: Descriptor = Descriptor {
    keys: KEYS,
    subjects: Subjects::SwapAndPagers,
    shrinks: true,
    scenarios: builtins! {
        "thrash" "Processes that together need more memory than the limit, started one after the other";
        "thrash-e1" "Experiment e1 of the thrashing benchmark: 1000 writes a cycle";
        "thrash-e2" "Experiment e2 of the thrashing benchmark: 10000 writes a cycle";
        "thrash-e3" "Experiment e3 of the thrashing benchmark: a second of sleep between cycles";
        "thrash-e4" "Experiment e4 of the thrashing benchmark: a consumer every second";
        "thrash-guard" "Thrashing processes without a guard and with each of its policies";
    },
};

/// Adds the codes of its statements to those of others.
macro_rules! statements {
    ($add:ident $($others:tt)*) => {
        $add! { {
            /// The finished cycles per second under pressure.
            ThrashCycles values "groups" "low_cycles_per_s" "high_cycles_per_s" names "group";
            /// The main metrics of one group. The machine recovered in `recovered_repeats` of `recovery_repeats`.
            ThrashGroup values "cycles_per_s" "cycles_done_percent" "load_pages_in_per_s" "load_wakeup_p99_s" "rest_wakeup_p99_s" "recovery_s" "recovered_repeats" "recovery_repeats" names "group";
        } $($others)* }
    };
}
pub(crate) use statements;

impl Model for Thrash {
    fn read(values: &Assignment<'_>) -> Result<Self, Box<Invalid>> {
        // Rejects a size that all consumers together cannot have.
        values.bytes("size")?;
        Ok(Thrash {
            consumers: values.count("consumers")?,
            consumer_size: values.bytes("consumer-size")?,
            writes: values.integer("writes")?,
            sleep: values.number("sleep")?,
            stagger: values.number("stagger")?,
            hold: values.number("hold")?,
            together: Some(values.number("together")?),
            guard: values.choice("guard")?,
        })
    }

    fn size_keys(&self) -> &'static [&'static str] {
        &["consumers", "consumer-size"]
    }

    fn size(&self, _: &Settings) -> u64 {
        let all = self.consumer_size.saturating_mul(self.consumers.into());
        all.checked_next_multiple_of(PAGE).unwrap_or(all)
    }

    fn processes(&self) -> u64 {
        u64::from(self.consumers).saturating_mul(PROCESS) + PROBES
    }

    fn has_thp_of_system(&self) -> bool {
        true
    }

    fn rest_seconds(&self, _: &Settings, hints: &SpeedHints) -> f64 {
        let processes = f64::from(self.consumers) * hints.process_s;
        hints.setup_s + processes + self.hold + Thrash::seconds(self) + hints.recovery_s
    }

    /// Its consumers end at a time, not after a number of bytes.
    fn seconds(&self, settings: &Settings, hints: &SpeedHints) -> f64 {
        self.rest_seconds(settings, hints)
    }

    /// Pages of the consumers are resident or stored, and in the end random in every byte.
    fn stored(&self, settings: &Settings) -> u64 {
        self.size(settings) - self.resident(settings)
    }

    fn unfit_for_pager(&self) -> Option<UnfitForPager> {
        self.guard.map(|policy| UnfitForPager {
            key: "guard",
            has: policy.name(),
            instead: "`guard = \"none\"`: the kernel sees neither their faults nor their stalls",
        })
    }

    /// Rejects settings under which memory and swap cannot hold all consumers: the OOM killer would end them.
    fn check(&self, settings: &Settings) -> Result<(), Unfit> {
        if settings.subject.pager().is_some() {
            return self.check_shares(settings);
        }
        let swap = match settings.subject.has_swap() {
            true => settings.swap_size,
            false => 0,
        };
        let room = settings.limit.saturating_add(swap);
        let asked = self.size(settings).saturating_add(self.processes());
        if asked <= room {
            return Ok(());
        }
        Err(Unfit::new(format!(
            "{} consumers need {} with what their processes and the probes take, but `limit` and `swap-size` with `{}` \
             are {} together, so that the OOM killer would end them; raise `swap-size`, or lower `consumers` or \
             `consumer-size`",
            self.consumers,
            bytes(asked),
            settings.subject,
            bytes(room),
        )))
    }
}

fn bytes(bytes: u64) -> String {
    quantity::bytes(bytes as f64)
}

/// Distinct pages that the places of a cycle of writes at random are on, as chance says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distinct {
    /// n: pages of a consumer's area.
    pub pages: f64,
    /// n(1-(1-1/n)^W), of n pages and W writes.
    pub mean: f64,
    /// Standard deviation over cycles, at most.
    pub deviation: f64,
}

impl Distinct {
    /// Tolerance of a mean in any case: the last page of an area may be a part of one.
    const TOLERANCE: f64 = 0.03;
    /// Standard errors by which a mean may differ: one in 30 000 runs differs by more.
    const ERRORS: f64 = 4.0;

    /// Expected pages of a consumer's cycle.
    pub fn expected(thrash: &Thrash) -> Distinct {
        let pages = (thrash.consumer_size as f64 / CONSUMED_PAGE).ceil();
        let untouched = (1.0 - 1.0 / pages).powf(thrash.writes as f64);
        Distinct {
            pages,
            mean: pages * (1.0 - untouched),
            // As if the pages were chosen without regard to each other; that one was makes others less likely.
            deviation: (pages * untouched * (1.0 - untouched)).sqrt(),
        }
    }

    /// Whether chance explains a mean over so many cycles.
    pub fn agrees(&self, touched: f64, cycles: f64) -> bool {
        let allowed = Self::TOLERANCE * self.mean + Self::ERRORS * self.deviation / cycles.sqrt();
        (touched - self.mean).abs() <= allowed
    }
}
