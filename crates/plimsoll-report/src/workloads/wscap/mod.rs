//! Metrics of the wscap scenario: scans per second without a cap and under it, and what the
//! difference is spent in.

mod headline;
mod section;

use std::collections::BTreeMap;

use super::criteria::{Criteria, Measure, TIME_ALONE};
use super::{WorkloadReport, memory_of, threads_of, verification};
use crate::analysis::metric::metrics;
use plimsoll_model::quantity::ratio;
use plimsoll_model::recording::model::{Phase, Trial};
use plimsoll_model::scenario::Backing;
use plimsoll_model::scenario::workloads::wscap::finding;

metrics! {
    SLOWDOWN "slowdown_ratio" Less true TIME "slowdown" "Scans per second without a cap over scans per second under the cap: the factor by which a scan takes longer.";
    UNCAPPED_SCANS "uncapped_scans_per_s" More true "uncapped scans" "Scans per second without a cap, all memory resident.";
    CAPPED_SCANS "capped_scans_per_s" More true "capped scans" "Scans per second under the cap.";
    FAULT_PATH "fault_path_percent" Neither true TIME "CPU in faults" "Share of the scanning thread's CPU time under the cap in the page-fault handler, from a sampling profile.";
    FAULTS "faults_per_scan_count" Less false CAPPED "faults per scan" "Page faults of the worker, major and minor, per scan under the cap.";
    FILE_REFAULTS "file_refaults_per_scan_count" Less false CAPPED "file refaults" "Pages per scan under the cap that were reclaimed and read again from their file, read-ahead included. Of file memory alone.";
    CACHE_HITS "cache_hits_percent" Neither false CAPPED "page cache hits" "Share of the page faults under the cap that found their page in the page cache, without a read. Of file memory alone.";
    CPU_SLOWDOWN "cpu_slowdown_ratio" Less false TIME "CPU slowdown" "CPU time of the worker per scan under the cap over CPU time per scan without it: the slowdown without time spent waiting for a disk or a CPU.";
    SYSTEM_CPU "capped_system_cpu_percent" Neither false TIME "system CPU" "Share of system time in the CPU time of the worker under the cap.";
    RESIDENT_MIN "capped_resident_min_bytes" Neither false CAPPED "least resident" "Minimum of the resident filled memory under the cap, over all samples.";
    RESIDENT_MAX "capped_resident_max_bytes" Neither false CAPPED "most resident" "Maximum of the resident filled memory under the cap, over all samples.";
    REFILL "refill_ratio" Less false TIME "refill" "Time of the first scan after the working set was emptied once, over the median time without a cap: the one-time cost of emptying.";
    EMPTIED_SLOWDOWN "emptied_slowdown_ratio" Less false TIME "emptied once" "Scans per second without a cap over scans per second after the working set was emptied once, the refill included.";
    PAGE_SECONDS "resident_page_s" Less false "time per page" "Time to write a byte into a resident page: the cost of the loop itself and the lower bound of a scan.";
}

const RANKED_SLOWDOWN: Measure = Measure {
    metric: SLOWDOWN,
    noun: "slowdown",
};

const CRITERIA: Criteria = Criteria {
    first: RANKED_SLOWDOWN,
    second: Measure {
        metric: CPU_SLOWDOWN,
        noun: "CPU time of a scan",
    },
    opposing: false,
    setting: RANKED_SLOWDOWN,
    limit: TIME_ALONE,
    all_subjects: true,
};

pub(super) const REPORT: WorkloadReport = WorkloadReport {
    known: METRICS,
    metrics: |of| metrics(of.trial),
    headline: headline::told,
    section: Some(section::section),
    timed_phases: None,
    verification: &verification::DATA_AND_COUNTS,
    criteria: Some(&CRITERIA),
};

/// The metrics of a trial; unknown ones are absent.
pub fn metrics(trial: &Trial) -> BTreeMap<String, f64> {
    let phase = |name: &str| trial.phases.iter().find(|phase| phase.name == name);
    let value = |name: &str, metric: &str| phase(name)?.values.get(metric).copied();
    let over = |above: Option<f64>, below: Option<f64>| ratio(above?, below?);
    let of_file = memory_of(&trial.params) == Backing::File;
    let uncapped = value("uncapped", "scans_per_s");
    let capped = value("capped", "scans_per_s");
    let found = [
        (SLOWDOWN, over(uncapped, capped)),
        (UNCAPPED_SCANS, uncapped),
        (CAPPED_SCANS, capped),
        (FAULT_PATH, value("capped", "fault_path_percent")),
        (FAULTS, value("capped", "faults_per_scan_count")),
        (
            FILE_REFAULTS,
            value("capped", finding::FILE_REFAULTS).filter(|_| of_file),
        ),
        (
            CACHE_HITS,
            phase("capped").and_then(hits_percent).filter(|_| of_file),
        ),
        (
            CPU_SLOWDOWN,
            over(
                phase("capped").and_then(cpu_of_scan),
                phase("uncapped").and_then(cpu_of_scan),
            ),
        ),
        (SYSTEM_CPU, phase("capped").and_then(system_percent)),
        (RESIDENT_MIN, value("capped", "resident_min_bytes")),
        (RESIDENT_MAX, value("capped", "resident_max_bytes")),
        (
            REFILL,
            over(
                value("emptied", "first_scan_s"),
                value("uncapped", "median_scan_s"),
            ),
        ),
        (EMPTIED_SLOWDOWN, over(uncapped, value("emptied", "scans_per_s"))),
        (PAGE_SECONDS, value("uncapped", "page_s")),
    ];
    let known = found
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value.filter(|value| value.is_finite())?)));
    known.collect()
}

/// CPU seconds for each scan of a phase.
fn cpu_of_scan(phase: &Phase) -> Option<f64> {
    let scans = *phase.values.get("scans_count")?;
    ratio(phase.cpu_user_s + phase.cpu_system_s, scans)
}

/// System time in percent of the CPU time of a phase.
fn system_percent(phase: &Phase) -> Option<f64> {
    ratio(100.0 * phase.cpu_system_s, phase.cpu_user_s + phase.cpu_system_s)
}

/// Faults without a read in percent of all faults of a phase.
fn hits_percent(phase: &Phase) -> Option<f64> {
    let (minor, major) = (phase.minor_faults as f64, phase.major_faults as f64);
    ratio(100.0 * minor, minor + major)
}

/// Size over cap of a trial or group with these parameters.
pub fn load(params: &BTreeMap<String, String>) -> Option<f64> {
    let load: f64 = params.get("load")?.parse().ok()?;
    (load.is_finite() && load > 0.0).then_some(load)
}

/// The store of trimmed pages of a trial or group, and its threads if there are several: `zram:lz4`,
/// `zram:lz4 (memfd)`, `its file, 4 threads`.
fn place(subject: &str, params: &BTreeMap<String, String>) -> String {
    let store = match memory_of(params) {
        Backing::Anonymous => subject.to_owned(),
        Backing::Memfd => format!("{subject} (memfd)"),
        Backing::File => "its file".to_owned(),
    };
    match threads_of(params) {
        1 => store,
        threads => format!("{store}, {threads} threads"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(name: &str, cpu: (f64, f64), values: &[(&str, f64)]) -> Phase {
        Phase {
            name: name.to_owned(),
            cpu_user_s: cpu.0,
            cpu_system_s: cpu.1,
            values: values
                .iter()
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect(),
            ..Phase::default()
        }
    }

    fn metrics_of(phases: Vec<Phase>) -> BTreeMap<String, f64> {
        metrics(&Trial::made_up("wscap", phases))
    }

    #[test]
    fn a_trial_of_known_phases_has_known_metrics() {
        let found = metrics_of(vec![
            phase("fill", (0.1, 0.2), &[]),
            phase(
                "uncapped",
                (2.0, 0.0),
                &[
                    ("scans_per_s", 1000.0),
                    ("scans_count", 2000.0),
                    ("median_scan_s", 0.001),
                ],
            ),
            phase(
                "capped",
                (0.1, 0.9),
                &[
                    ("scans_per_s", 10.0),
                    ("scans_count", 20.0),
                    ("fault_path_percent", 98.0),
                    ("faults_per_scan_count", 16384.0),
                    ("resident_min_bytes", 3e7),
                    ("resident_max_bytes", 4e7),
                ],
            ),
            phase(
                "emptied",
                (0.5, 0.5),
                &[("scans_per_s", 500.0), ("first_scan_s", 0.05)],
            ),
        ]);
        for (name, value) in [
            (SLOWDOWN, 100.0),
            (UNCAPPED_SCANS, 1000.0),
            (CAPPED_SCANS, 10.0),
            (FAULT_PATH, 98.0),
            (FAULTS, 16384.0),
            (SYSTEM_CPU, 90.0),
            (CPU_SLOWDOWN, 50.0),
            (RESIDENT_MIN, 3e7),
            (RESIDENT_MAX, 4e7),
            (REFILL, 50.0),
            (EMPTIED_SLOWDOWN, 2.0),
        ] {
            assert!(
                (found[name] / value - 1.0).abs() < 1e-9,
                "{name}: {}",
                found[name]
            );
        }
    }

    #[test]
    fn unknown_metrics_are_absent() {
        assert_eq!(metrics_of(Vec::new()), BTreeMap::new());
        // Nothing was scanned under the cap, and no scan was finished after the emptying.
        let found = metrics_of(vec![
            phase("uncapped", (1.0, 0.0), &[("scans_per_s", 1000.0)]),
            phase(
                "capped",
                (0.0, 0.0),
                &[("scans_per_s", 0.0), ("scans_count", 0.0)],
            ),
            phase("emptied", (0.0, 1.0), &[("scans_per_s", 0.5)]),
        ]);
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(names, [CAPPED_SCANS, EMPTIED_SLOWDOWN, UNCAPPED_SCANS]);
        assert!(found.values().all(|value| value.is_finite()));
    }

    #[test]
    fn a_load_is_a_number_above_zero() {
        let of = |text: &str| load(&BTreeMap::from([("load".to_owned(), text.to_owned())]));
        assert_eq!((of("2"), of("0.75")), (Some(2.0), Some(0.75)));
        for text in ["", "0", "-1", "NaN", "inf", "two"] {
            assert_eq!(of(text), None, "{text}");
        }
        assert_eq!(load(&BTreeMap::new()), None);
    }

    #[test]
    fn hits_and_refaults_are_of_file_memory_alone() {
        let of = |memory: &str| {
            let mut capped = phase("capped", (0.1, 0.9), &[("file_refaults_per_scan_count", 40.0)]);
            (capped.minor_faults, capped.major_faults) = (75, 25);
            let mut trial = Trial::made_up("wscap", vec![capped]);
            trial.params.insert("memory".to_owned(), memory.to_owned());
            metrics(&trial)
        };
        let file = of("file");
        assert_eq!((file[CACHE_HITS], file[FILE_REFAULTS]), (75.0, 40.0));
        for memory in ["anonymous", "memfd"] {
            let found = of(memory);
            assert!(
                !found.contains_key(CACHE_HITS) && !found.contains_key(FILE_REFAULTS),
                "{memory}"
            );
        }
    }

    #[test]
    fn a_place_names_the_store_and_several_threads() {
        let of = |params: &[(&str, &str)]| {
            let params = params
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            place("zram", &params.collect())
        };
        assert_eq!(of(&[]), "zram");
        assert_eq!(of(&[("memory", "anonymous"), ("threads", "1")]), "zram");
        assert_eq!(
            of(&[("memory", "memfd"), ("threads", "4")]),
            "zram (memfd), 4 threads"
        );
        assert_eq!(of(&[("memory", "file")]), "its file");
    }
}
