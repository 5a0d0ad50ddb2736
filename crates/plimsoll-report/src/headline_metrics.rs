//! The metrics of a workload in summaries.

use crate::analysis::{Group, MetricUnit};
use crate::workloads::column::MainMetric;
use crate::workloads::{self, common_metrics, find_metric};
use plimsoll_model::sanitize::sanitize;
use plimsoll_model::scenario::WorkloadKind;

/// Metrics shown if this version knows none of the recording's.
const MOST_UNKNOWN: usize = 6;

/// The headline metrics of these groups of one workload, the most important first.
pub(super) fn main_metrics(kind: WorkloadKind, groups: &[&Group]) -> Vec<MainMetric> {
    let has = |name: &str| groups.iter().any(|group| group.metrics.contains_key(name));
    let all = workloads::of(kind).known.iter().chain(common_metrics());
    let known: Vec<MainMetric> = all
        .filter(|metric| metric.headline && has(metric.name))
        .map(|metric| MainMetric {
            name: metric.name.to_owned(),
            title: metric.title.to_owned(),
        })
        .collect();
    if !known.is_empty() {
        return known;
    }
    let mut names: Vec<&str> = groups.iter().flat_map(|group| group.metrics.keys()).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| find_metric(name).is_none());
    let unknown = names.into_iter().take(MOST_UNKNOWN).map(|name| MainMetric {
        name: name.to_owned(),
        title: words(name),
    });
    unknown.collect()
}

/// The name of a value as text, without its unit.
pub(super) fn words(name: &str) -> String {
    let ending = match MetricUnit::of_name(name) {
        MetricUnit::Count => "_count",
        unit => unit.ending(),
    };
    let bare = name.strip_suffix(ending).filter(|bare| !bare.is_empty());
    sanitize(bare.unwrap_or(name)).replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_metrics_become_words() {
        for (name, text) in [
            ("latency_p99_s", "latency p99"),
            ("useful_work_per_s", "useful work"),
            ("faults_per_scan_count", "faults per scan"),
            ("pages", "pages"),
            ("_s", " s"),
            ("", ""),
        ] {
            assert_eq!(words(name), text, "{name}");
        }
    }
}
