//! Metrics of the map scenario: the cost per page of each release method, and the time until the kernel has the memory.

mod headline;
mod section;

use std::collections::BTreeMap;

use super::{WorkloadReport, verification};
use crate::analysis::{Direction, Metric, ratio};
use plimsoll_model::recording::model::{Phase, Trial};
use plimsoll_model::scenario::Workload;
use plimsoll_model::scenario::workloads::map::REALLY_BACK_PERCENT;
use plimsoll_model::scenario::{Map, Mapping, ReleaseMethod};
use plimsoll_model::trust;

/// Map, touch and release, as a program sees it: the "unnormalized" bar of the original.
pub const TOTAL: &str = "total_per_page_s";
/// [`TOTAL`] without the memset of resident memory.
pub const COST: &str = "cost_per_page_s";
pub const RELEASE: &str = "release_per_page_s";
/// The next touch, mapped again if necessary, without the memset of resident memory.
pub const REUSE: &str = "reuse_per_page_s";
/// From the call until 95% of the memory has returned to the kernel.
pub const BACK: &str = "back_s";
pub const BACK_SHARE: &str = "back_percent";
/// Duration of a reclaim of the memory that did not return by itself.
pub const PRESSURE: &str = "pressure_s";
/// Share of returned memory after a completed reclaim.
pub const PRESSURE_SHARE: &str = "pressure_percent";

pub const MEMSET: &str = "resident_memset_per_page_s";
pub const TOUCH: &str = "first_touch_per_page_s";
/// Release and reuse with the fastest method.
pub const FASTEST: &str = "fastest_cycle_per_page_s";

/// A metric, of which less is better.
const fn less(name: &'static str, headline: bool, title: &'static str, meaning: &'static str) -> Metric {
    Metric {
        name,
        title,
        meaning,
        direction: Direction::Less,
        headline,
        spoilers: None,
    }
}

/// Declares the table of metrics: common ones, then those of each method. `of_way` builds the same names.
macro_rules! metrics_of_ways {
    ($($way:literal $title:literal;)*) => {
        /// Every metric of this kind of work, the headline ones first.
        pub const METRICS: &[Metric] = &[
            less(FASTEST, true, "release and reuse", "Time per page to release it and touch it again, without the memset, with the fastest method that really returns memory to the kernel."),
            less(TOUCH, true, "first touch", "Time per page of the first touch of fresh memory. Absent for mappings populated by mmap, whose first touch finds resident memory."),
            less(MEMSET, true, "memset", "Time per page of a memset of resident memory."),
            $(
                less(concat!($way, "_total_per_page_s"), false, concat!($title, ": map, touch, release"), "Time per page to map, touch and release memory, including the memset."),
                less(concat!($way, "_cost_per_page_s"), false, concat!($title, ": without the memset"), "Time per page to map, touch and release memory, without the memset of resident memory."),
                less(concat!($way, "_release_per_page_s"), false, concat!($title, ": release"), "Time per page to release memory."),
                less(concat!($way, "_reuse_per_page_s"), false, concat!($title, ": reuse"), "Time per page to touch released memory again, mapped again if necessary, without the memset of resident memory."),
                less(concat!($way, "_back_s"), false, concat!($title, ": returned after"), "Time from the call until 95% of the memory has returned to the kernel. Absent if it does not return during the rest, without a cgroup, and for reserved huge pages."),
                Metric {
                    name: concat!($way, "_back_percent"),
                    title: concat!($title, ": returned"),
                    meaning: "Share of the memory that returned to the kernel by itself during the rest.",
                    direction: Direction::Neither,
                    headline: false,
                    spoilers: Some(trust::RESIDENT),
                },
                less(concat!($way, "_pressure_s"), false, concat!($title, ": under pressure"), "Duration of a reclaim of the memory that did not return by itself."),
                Metric {
                    name: concat!($way, "_pressure_percent"),
                    title: concat!($title, ": returned under pressure"),
                    meaning: "Share of the memory that has returned to the kernel after a reclaim of the rest. Absent without a reclaim or if the reclaim timed out.",
                    direction: Direction::Neither,
                    headline: false,
                    spoilers: Some(trust::RESIDENT),
                },
            )*
        ];
    };
}

metrics_of_ways! {
    "munmap" "munmap";
    "dontneed" "MADV_DONTNEED";
    "free" "MADV_FREE";
    "punch" "hole punch";
    "mremap" "mremap";
    "map_over" "mmap over";
    "pageout" "MADV_PAGEOUT";
    "exit" "exit";
}

/// The name of a metric of one method.
pub fn of_way(way: ReleaseMethod, metric: &str) -> String {
    format!("{}_{metric}", way.name().replace('-', "_"))
}

/// Whether the method frees the memory and lets the program continue: paging out keeps the content, and the exit of a
/// process ends the program.
pub fn frees_memory(way: ReleaseMethod) -> bool {
    !matches!(way, ReleaseMethod::PageOut | ReleaseMethod::Exit)
}

pub(super) const REPORT: WorkloadReport = WorkloadReport {
    known: METRICS,
    metrics: |of| match &of.settings.workload {
        Workload::Map(settings) => metrics(of.trial, settings),
        _ => BTreeMap::new(),
    },
    headline: headline::told,
    section: Some(|_, groups| section::section(groups)),
    timed_phases: None,
    verification: &verification::DATA_AND_COUNTS,
    criteria: None,
};

/// The metrics of a trial; unknown ones are absent.
pub fn metrics(trial: &Trial, map: &Map) -> BTreeMap<String, f64> {
    let mut metrics = BTreeMap::new();
    let (mut touches, mut memsets, mut cycles) = (Vec::new(), Vec::new(), Vec::new());
    for way in ReleaseMethod::ALL {
        let Some(phase) = trial.phases.iter().find(|phase| phase.name == way.name()) else {
            continue;
        };
        let a_page = |seconds: f64| ratio(seconds, map.touch.pages(phase.bytes) as f64);
        let Some(times) = Times::of(phase) else { continue };
        if map.mapping != Mapping::Populate {
            touches.extend(a_page(times.touch));
        }
        memsets.extend(a_page(times.memset));
        let total = times.map + times.touch + times.release;
        let reuse = (times.reuse - times.memset).max(0.0);
        let values = [
            (TOTAL, a_page(total)),
            (COST, a_page((total - times.memset).max(0.0))),
            (RELEASE, a_page(times.release)),
            (REUSE, a_page(reuse)),
            (BACK, phase.values.get("back_s").copied()),
            (BACK_SHARE, phase.values.get("back_percent").copied()),
            (PRESSURE, phase.values.get("pressure_s").copied()),
            (PRESSURE_SHARE, phase.values.get("pressure_percent").copied()),
        ];
        let known = values
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        metrics.extend(known.map(|(name, value)| (of_way(way, name), value)));
        let share = phase.values.get("back_percent").copied().unwrap_or(0.0);
        if frees_memory(way) && share >= REALLY_BACK_PERCENT {
            cycles.extend(a_page(times.release + reuse));
        }
    }
    let all = [
        (TOUCH, crate::analysis::statistics::median(&touches)),
        (MEMSET, crate::analysis::statistics::median(&memsets)),
        (FASTEST, cycles.into_iter().reduce(f64::min)),
    ];
    let known = all
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    metrics.extend(known);
    metrics
}

/// Seconds of the parts of one way.
struct Times {
    map: f64,
    touch: f64,
    memset: f64,
    release: f64,
    reuse: f64,
}

impl Times {
    fn of(phase: &Phase) -> Option<Times> {
        let value = |name: &str| phase.values.get(name).copied();
        Some(Times {
            map: value("map_s")?,
            touch: value("touch_s")?,
            memset: value("memset_s")?,
            release: value("release_s")?,
            reuse: value("reuse_s")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::scenario::Touch;

    #[test]
    fn every_way_has_every_metric() {
        for way in ReleaseMethod::ALL {
            for metric in [
                TOTAL,
                COST,
                RELEASE,
                REUSE,
                BACK,
                BACK_SHARE,
                PRESSURE,
                PRESSURE_SHARE,
            ] {
                let name = of_way(way, metric);
                assert!(METRICS.iter().any(|metric| metric.name == name), "{name}");
            }
        }
    }

    #[test]
    fn populated_mappings_have_no_first_touch() {
        let of = |mapping: Mapping| {
            let names = ["map_s", "touch_s", "memset_s", "release_s", "reuse_s"];
            let phases = vec![Phase {
                name: ReleaseMethod::Munmap.name().to_owned(),
                bytes: 1 << 20,
                values: names.map(|name| (name.to_owned(), 1.0)).into(),
                ..Phase::default()
            }];
            let trial = Trial::made_up("map", phases);
            let touch = Touch::Whole;
            metrics(
                &trial,
                &Map {
                    size: 1 << 20,
                    mapping,
                    touch,
                    hold: 0.0,
                },
            )
        };
        let (populated, faulted) = (of(Mapping::Populate), of(Mapping::Anonymous));
        assert!(faulted.contains_key(TOUCH) && !populated.contains_key(TOUCH));
        assert!(populated.contains_key(MEMSET));
    }
}
