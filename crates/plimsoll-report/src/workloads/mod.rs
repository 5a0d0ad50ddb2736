//! The workloads in the report, one folder each: the metrics of a trial, the headline and the section of the report.

pub(crate) mod column;
pub(crate) mod criteria;
pub(crate) mod section;
pub(crate) mod sentence;
pub(crate) mod verification;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::analysis::{Group, Metric, MetricUnit, background, neighbour};
use crate::contents::Page;
use crate::drawing::table::Table;
use column::Column;
use criteria::Criteria;
use plimsoll_model::for_each_workload;
use plimsoll_model::recording::PhaseRows;
use plimsoll_model::recording::model::{Calibration, Trial};
use plimsoll_model::scenario::{Backing, Settings, WorkloadKind};
use plimsoll_model::trust::{self, ConfounderKind, Kinds};
use section::Section;
use sentence::Told;
use verification::Verification;

/// Builds the section of the groups of a workload, if they have values for it.
type SectionOf = fn(&Page, &[&Group]) -> Option<Section>;

/// The part of the report about a workload.
pub(crate) struct WorkloadReport {
    pub(crate) known: &'static [Metric],
    /// The metrics of a trial; unknown ones are absent.
    pub(crate) metrics: fn(&TrialData<'_>) -> BTreeMap<String, f64>,
    /// The result of its groups.
    pub(crate) headline: fn(&[&Group]) -> Option<Told>,
    /// Its section; `None` if its results are in the section on time and memory.
    pub(crate) section: Option<SectionOf>,
    pub(crate) timed_phases: Option<&'static TimedPhases>,
    pub(crate) verification: &'static Verification,
    /// The ranking of swap devices; `None` if it compares none, or says nothing about other programs.
    pub(crate) criteria: Option<&'static Criteria>,
}

/// A workload whose results are the times of its phases: the report shows them in the section on time and memory, and in
/// summaries that the workload builds. The phases of other workloads have a fixed length, and their results are metrics.
pub(crate) struct TimedPhases {
    /// The phases whose spread the hint about repeats takes into account.
    pub(crate) main: &'static [&'static str],
    /// The phase that verifies what it reads.
    pub(crate) verifying: &'static str,
    /// The columns of the summary on a terminal, each with how soon it is left out when the terminal is narrow (0: never).
    pub(crate) columns: fn(&[&Group]) -> Vec<(Column, usize)>,
    /// The table of the groups in the HTML report.
    pub(crate) summary: for<'a> fn(&[&'a Group]) -> Table<'a>,
    /// The table of the trials there.
    pub(crate) trials: for<'a> fn(&[&'a Trial]) -> Table<'a>,
}

/// The input of the metrics of a trial.
pub(crate) struct TrialData<'a> {
    pub(crate) trial: &'a Trial,
    pub(crate) settings: &'a Settings,
    /// The samples next to each of its phases, in the same order.
    pub(crate) rows: &'a [PhaseRows],
    pub(crate) calibration: Option<&'a Calibration>,
}

macro_rules! workloads {
    ($($(#[$doc:meta])* $workload:ident($settings:ident) $module:ident $name:literal;)*) => {
        $(pub mod $module;)*

        pub(crate) const fn of(kind: WorkloadKind) -> &'static WorkloadReport {
            match kind {
                $(WorkloadKind::$workload => &$module::REPORT,)*
            }
        }
    };
}

for_each_workload!(workloads);

/// The report of the workload of this name; `None` of a workload of another version.
pub(crate) fn named(name: &str) -> Option<&'static WorkloadReport> {
    WorkloadKind::of_name(name).map(of)
}

/// Whether the results of the workload of this name are the times of its phases.
pub fn has_timed_phases(name: &str) -> bool {
    named(name).is_some_and(|report| report.timed_phases.is_some())
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

/// The known metrics of trials of a workload, the headline ones first.
pub fn metrics_of(kind: WorkloadKind) -> &'static [Metric] {
    of(kind).known
}

/// Every known metric of a trial, by workload, then the common ones.
pub fn all_metrics() -> impl Iterator<Item = &'static Metric> {
    let kinds = WorkloadKind::ALL.into_iter();
    kinds.flat_map(metrics_of).chain(common_metrics())
}

/// The table of the metrics in Markdown, as `docs/recording-format.md` holds it.
pub fn metrics_markdown() -> String {
    let mut table = String::from("| workload | metric | unit | better | meaning |\n|---|---|---|---|---|\n");
    let mut add = |workload: &str, metric: &Metric| {
        let unit = MetricUnit::of_name(metric.name).text();
        let better = metric.direction.text();
        // Writing to a String cannot fail.
        let _ = writeln!(
            table,
            "| {workload} | `{}` | {unit} | {better} | {} |",
            metric.name, metric.meaning
        );
    };
    for kind in WorkloadKind::ALL {
        for metric in metrics_of(kind) {
            add(&format!("`{}`", kind.name()), metric);
        }
    }
    for metric in common_metrics() {
        add("all", metric);
    }
    table
}

pub fn find_metric(name: &str) -> Option<&'static Metric> {
    all_metrics().find(|metric| metric.name == name)
}

/// The kinds of confounders that can spoil the metric of this name, or the time or speed of a phase (`trim.seconds`,
/// `trim.gb_per_s`); `None` of a value that this version does not know.
///
/// Invariant: every metric has them, by its row or, if it is a time or a rate, by its unit. Checked by
/// `every_metric_names_its_spoilers`.
pub(crate) fn spoilers(metric: &str) -> Option<Kinds> {
    let named = find_metric(metric).and_then(|metric| metric.spoilers);
    named.or_else(|| trust::of_unit(metric))
}

/// Whether a confounder of this name can spoil this metric. A confounder of another version can spoil every metric, and
/// every kind can spoil a metric of another version.
pub(crate) fn can_spoil(confounder: &str, metric: &str) -> bool {
    let spoilers = spoilers(metric).unwrap_or(trust::EVERYTHING);
    ConfounderKind::of_name(confounder).is_none_or(|kind| spoilers.contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Direction;

    #[test]
    fn every_metric_names_its_spoilers() {
        for metric in all_metrics() {
            assert!(spoilers(metric.name).is_some(), "{}", metric.name);
        }
    }

    #[test]
    fn every_criterion_is_a_metric_with_a_better_direction() {
        for criteria in WorkloadKind::ALL.into_iter().filter_map(|kind| of(kind).criteria) {
            for measure in [criteria.first, criteria.second, criteria.setting] {
                let metric = find_metric(measure.metric).expect(measure.metric);
                assert_ne!(metric.direction, Direction::Neither, "{}", measure.metric);
            }
        }
    }

    #[test]
    fn cpu_load_spoils_times_and_no_stored_bytes() {
        for metric in [
            "trim_gb_per_s",
            "slowest_ask_s",
            "trim.seconds",
            "trim_to_memcpy_ratio",
            "cycles_per_s",
        ] {
            assert!(
                can_spoil("other-load", metric) && can_spoil("steal", metric),
                "{metric}"
            );
        }
        for metric in [
            "stored_bytes",
            "compression_ratio",
            "swapped_bytes",
            "trimmed_ratio",
            "free_back_percent",
        ] {
            assert!(
                !can_spoil("other-load", metric) && !can_spoil("steal", metric),
                "{metric}"
            );
        }
    }

    #[test]
    fn foreign_pages_spoil_stored_bytes_and_ratios() {
        for confounder in ["foreign-pages", "inconsistent-bytes", "other-swap", "zswap"] {
            assert!(can_spoil(confounder, "compression_ratio"), "{confounder}");
            assert!(!can_spoil(confounder, "distinct_pages_ratio"), "{confounder}");
        }
        assert!(!can_spoil("inconsistent-bytes", "restore_gb_per_s"));
    }

    #[test]
    fn unknown_names_are_not_trusted() {
        assert!(can_spoil("a-later-version", "distinct_pages_ratio"));
        assert!(can_spoil("steal", "a_later_metric"));
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
