//! Metrics of the wscap scenario: how often memory is scanned a second without a cap and under it, and what the
//! difference is spent in.

use std::collections::BTreeMap;

use super::metric::metrics;
use super::ratio;
use crate::recording::model::{Phase, Trial};
use crate::scenario::Wscap;

metrics! {
    SLOWDOWN "slowdown_ratio" Less true "slowdown" "Scans a second without a cap over scans a second under it: how many times longer a scan takes.";
    UNCAPPED_SCANS "uncapped_scans_per_s" More true "uncapped scans" "Scans a second while all memory may stay resident.";
    CAPPED_SCANS "capped_scans_per_s" More true "capped scans" "Scans a second under the cap.";
    FAULT_PATH "fault_path_percent" Neither true "CPU in faults" "CPU time of the scanning thread under the cap that was spent in the handling of page faults, by samples of its clock.";
    FAULTS "faults_per_scan_count" Less false "faults a scan" "Page faults of the worker, major and minor, for each scan under the cap.";
    SYSTEM_CPU "capped_system_cpu_percent" Neither false "system CPU" "System time in the CPU time of the worker under the cap.";
    RESIDENT_MIN "capped_resident_min_bytes" Neither false "least resident" "Least of the filled memory that was seen resident under the cap.";
    RESIDENT_MAX "capped_resident_max_bytes" Neither false "most resident" "Most of the filled memory that was seen resident under the cap.";
    REFILL "refill_ratio" Less false "refill" "The first scan after the working set was emptied once, over the median scan without a cap: what emptying costs, once.";
    EMPTIED_SLOWDOWN "emptied_slowdown_ratio" Less false "emptied once" "Scans a second without a cap over scans a second after the working set was emptied once, the refill included.";
    PAGE_SECONDS "resident_page_s" Less false "a page" "Time to write a byte into a page that is resident: the cost of the loop itself, and the least that a scan can take.";
}

/// Computes the metrics of a trial. One that cannot be known is absent.
pub fn metrics(trial: &Trial, _wscap: &Wscap) -> BTreeMap<String, f64> {
    let phase = |name: &str| trial.phases.iter().find(|phase| phase.name == name);
    let figure = |name: &str, figure: &str| phase(name)?.figures.get(figure).copied();
    let over = |above: Option<f64>, below: Option<f64>| ratio(above?, below?);
    let uncapped = figure("uncapped", "scans_per_s");
    let capped = figure("capped", "scans_per_s");
    let found = [
        (SLOWDOWN, over(uncapped, capped)),
        (UNCAPPED_SCANS, uncapped),
        (CAPPED_SCANS, capped),
        (FAULT_PATH, figure("capped", "fault_path_percent")),
        (FAULTS, figure("capped", "faults_per_scan_count")),
        (SYSTEM_CPU, phase("capped").and_then(system_percent)),
        (RESIDENT_MIN, figure("capped", "resident_min_bytes")),
        (RESIDENT_MAX, figure("capped", "resident_max_bytes")),
        (
            REFILL,
            over(
                figure("emptied", "first_scan_s"),
                figure("uncapped", "median_scan_s"),
            ),
        ),
        (EMPTIED_SLOWDOWN, over(uncapped, figure("emptied", "scans_per_s"))),
        (PAGE_SECONDS, figure("uncapped", "page_s")),
    ];
    let known = found
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value.filter(|value| value.is_finite())?)));
    known.collect()
}

/// System time in percent of the CPU time of a phase.
fn system_percent(phase: &Phase) -> Option<f64> {
    ratio(100.0 * phase.cpu_system_s, phase.cpu_user_s + phase.cpu_system_s)
}
