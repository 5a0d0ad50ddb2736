//! The workloads in the report, one folder each: the metrics of a trial, the headline and the section of the report.

pub mod command;
pub mod compression;
pub mod contention;
pub mod heap;
pub mod loadline;
pub mod map;
pub(crate) mod section;
pub(crate) mod sentence;
pub mod thrash;
pub mod wscap;

use std::collections::BTreeMap;

use crate::analysis::{Group, Metric, background, neighbour};
use crate::contents::Page;
use plimsoll_model::recording::PhaseRows;
use plimsoll_model::recording::model::{Calibration, Trial};
use plimsoll_model::scenario::{Backing, Settings, WorkloadKind};
use section::Section;
use sentence::Told;

/// Builds the section of the groups of a workload, if they have values for it.
type SectionOf = fn(&Page, &[&Group]) -> Option<Section>;

/// The part of the report about a workload.
pub(crate) struct WorkloadReport {
    pub(crate) known: &'static [Metric],
    /// The metrics of a trial; unknown ones are absent.
    pub(crate) metrics: fn(&TrialData<'_>) -> BTreeMap<String, f64>,
    /// The result of its groups.
    pub(crate) headline: fn(&[&Group]) -> Option<Told>,
    /// Its section; `None` for compression, which the report itself shows.
    pub(crate) section: Option<SectionOf>,
}

/// The input of the metrics of a trial.
pub(crate) struct TrialData<'a> {
    pub(crate) trial: &'a Trial,
    pub(crate) settings: &'a Settings,
    /// The samples next to each of its phases, in the same order.
    pub(crate) rows: &'a [PhaseRows],
    pub(crate) calibration: Option<&'a Calibration>,
}

pub(crate) const fn of(kind: WorkloadKind) -> &'static WorkloadReport {
    match kind {
        WorkloadKind::Compression => &compression::REPORT,
        WorkloadKind::Thrash => &thrash::REPORT,
        WorkloadKind::Loadline => &loadline::REPORT,
        WorkloadKind::Wscap => &wscap::REPORT,
        WorkloadKind::Map => &map::REPORT,
        WorkloadKind::Contention => &contention::REPORT,
        WorkloadKind::Heap => &heap::REPORT,
        WorkloadKind::Command => &command::REPORT,
    }
}

/// The metrics of a trial, by its workload; unknown ones are absent.
///
/// `rows` are the samples next to each of `trial.phases`, in the same order.
pub fn metrics(
    trial: &Trial,
    settings: &Settings,
    rows: &[PhaseRows],
    calibration: Option<&Calibration>,
) -> BTreeMap<String, f64> {
    let report = of(settings.workload.kind());
    (report.metrics)(&TrialData {
        trial,
        settings,
        rows,
        calibration,
    })
}

/// The store behind the memory of a trial or group with these parameters. Recordings of earlier versions name none.
pub(crate) fn memory_of(params: &BTreeMap<String, String>) -> Backing {
    let named = params.get("memory").map(String::as_str);
    named.and_then(Backing::named).unwrap_or_default()
}

/// Threads of the worker of a trial or group with these parameters.
pub(crate) fn threads_of(params: &BTreeMap<String, String>) -> u32 {
    let threads = params.get("threads").and_then(|threads| threads.parse().ok());
    threads.unwrap_or(1)
}

/// The metrics of trials of any workload.
pub fn common_metrics() -> impl Iterator<Item = &'static Metric> {
    neighbour::METRICS.iter().chain(background::METRICS)
}

/// Every known metric of a trial, by workload, then the common ones.
pub fn all_metrics() -> impl Iterator<Item = &'static Metric> {
    let kinds = WorkloadKind::ALL.into_iter();
    kinds.flat_map(|kind| of(kind).known).chain(common_metrics())
}

pub fn find_metric(name: &str) -> Option<&'static Metric> {
    all_metrics().find(|metric| metric.name == name)
}

#[cfg(test)]
mod tests {
    use plimsoll_model::trust;

    use super::*;

    #[test]
    fn every_metric_names_its_spoilers() {
        for metric in all_metrics() {
            assert!(trust::row(metric.name).is_some(), "{}", metric.name);
        }
        for (pattern, _) in trust::ROWS
            .iter()
            .filter(|(pattern, _)| !pattern.starts_with('*'))
        {
            assert!(find_metric(pattern).is_some(), "{pattern}: no such metric");
        }
    }

    #[test]
    fn every_metric_has_a_name_of_its_own() {
        let mut names: Vec<&str> = all_metrics().map(|metric| metric.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "a metric stands in two tables: {names:?}");
    }
}
