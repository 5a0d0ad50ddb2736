//! Metrics of the command scenario: the memory that a program needs.

mod headline;
mod section;

use std::collections::BTreeMap;

use super::{WorkloadReport, verification};
use crate::analysis::metric::metrics;
use plimsoll_model::quantity::ratio;
use plimsoll_model::recording::model::{Phase, Trial};
use plimsoll_model::scenario::workloads::command::finding::{
    ANON_PEAK, CPU_SYSTEM, CPU_USER, FILE_PEAK, LIMIT, MAJOR_FAULTS, METRIC, PEAK, PSI_SOME, WALL,
};
use plimsoll_model::scenario::workloads::command::{Bracket, Point, Status, bracket, curve};
use plimsoll_model::scenario::{ProgramRun, Workload};

metrics! {
    KNEE "knee_bytes" Less true TIME "knee" "Limit at which the slowdown crosses `tolerate`, on the line between the two limits next to it. Absent if every measured limit is tolerated.";
    NEEDED "needed_bytes" Less true TIME "needed limit" "Least measured limit with a tolerated slowdown, as all larger ones have.";
    BASE_WALL "base_wall_s" Less true "time at the base" "Wall time of the program under the largest limit.";
    BASE_METRIC "base_metric" Neither true TIME "metric at the base" "Number that the program prints under the largest limit. Absent without `metric`.";
    BASE_PEAK "base_peak_bytes" Less true RESIDENT "peak" "Most memory that was charged to the program's cgroup under the largest limit, page cache included.";
    BASE_ANON "base_anon_peak_bytes" Less false RESIDENT "anonymous peak" "Most anonymous memory of the program's cgroup under the largest limit, of the samples.";
    BASE_FILE "base_file_peak_bytes" Less false RESIDENT "cache peak" "Most page cache of the program's cgroup under the largest limit, of the samples.";
    KNEE_SHARE "knee_to_peak_ratio" Less false TIME "knee / peak" "The knee over the peak under the largest limit.";
    BASE_CPU "base_cpu_s" Less false "CPU time at the base" "CPU time of the program and its processes under the largest limit.";
    BASE_FAULTS "base_major_faults" Less false CAPPED "hard faults at the base" "Page faults that read from swap or a file, under the largest limit.";
    NEEDED_SLOWDOWN "needed_slowdown_percent" Less false TIME "slowdown at the needed limit" "Slowdown under the needed limit, in percent of the base.";
    NEEDED_FAULTS "needed_major_faults" Less false CAPPED "hard faults at the needed limit" "Page faults that read from swap or a file, under the needed limit.";
    NEEDED_PSI "needed_psi_some_percent" Less false TIME "pressure at the needed limit" "Share of time in which a task waits for memory (PSI some), under the needed limit.";
    TOO_SMALL "too_small_bytes" Neither false TIME "too small" "Largest measured limit without a tolerated slowdown.";
    KILLED_LIMIT "oom_killed_limit_bytes" Less true PLACE "killed at" "Largest limit under which the OOM killer ended a process of the program.";
}

pub(super) const REPORT: WorkloadReport = WorkloadReport {
    known: METRICS,
    metrics: |of| match &of.settings.workload {
        Workload::Command(run) => metrics(of.trial, run),
        _ => BTreeMap::new(),
    },
    headline: headline::told,
    section: Some(section::section),
    timed_phases: None,
    verification: &verification::EXIT_CODES,
    // One program says nothing about others.
    criteria: None,
};

/// The run of a workload that has several points.
pub(crate) fn sized(workload: &Workload) -> Option<&ProgramRun> {
    match workload {
        Workload::Command(run) if run.search || run.limits.len() > 1 => Some(run),
        _ => None,
    }
}

/// The points of a trial, as they were measured.
pub fn points(trial: &Trial) -> Vec<Point> {
    let phases = trial.phases.iter();
    phases.filter_map(|phase| Point::of(&phase.values)).collect()
}

/// The limits next to the knee of a trial; none where even its largest limit is not tolerated.
pub fn bracket_of(trial: &Trial, run: &ProgramRun) -> Option<Bracket> {
    bracket(&curve(&points(trial)), run.tolerate)
}

/// The phase of a point: of a limit that was measured twice, that of the point that counts.
fn phase_of<'t>(trial: &'t Trial, point: &Point) -> Option<&'t Phase> {
    let is_it = |phase: &&Phase| {
        Point::of(&phase.values).is_some_and(|found| {
            (found.limit, found.status, found.cost) == (point.limit, point.status, point.cost)
        })
    };
    trial.phases.iter().find(is_it)
}

/// The metrics of a trial; unknown ones are absent.
pub fn metrics(trial: &Trial, run: &ProgramRun) -> BTreeMap<String, f64> {
    let mut metrics = BTreeMap::new();
    let mut set = |name: &str, value: Option<f64>| {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            metrics.insert(name.to_owned(), value);
        }
    };
    let curve = curve(&points(trial));
    let value = |point: Option<&Point>, name: &str| -> Option<f64> {
        phase_of(trial, point?)?.values.get(name).copied()
    };
    let base = curve.first();
    let peak = value(base, PEAK);
    set(BASE_WALL, value(base, WALL));
    set(BASE_METRIC, value(base, METRIC));
    set(BASE_PEAK, peak);
    set(BASE_ANON, value(base, ANON_PEAK));
    set(BASE_FILE, value(base, FILE_PEAK));
    let cpu = value(base, CPU_USER).zip(value(base, CPU_SYSTEM));
    set(BASE_CPU, cpu.map(|(user, system)| user + system));
    set(BASE_FAULTS, value(base, MAJOR_FAULTS));
    let killed = curve.iter().find(|point| point.status == Status::Killed);
    set(KILLED_LIMIT, value(killed, LIMIT));
    let several = curve.len() > 1;
    if let Some(bracket) = bracket(&curve, run.tolerate).filter(|_| several) {
        let knee = bracket.knee();
        set(KNEE, knee);
        set(
            KNEE_SHARE,
            knee.zip(peak).and_then(|(knee, peak)| ratio(knee, peak)),
        );
        set(NEEDED, Some(bracket.high.limit as f64));
        set(NEEDED_SLOWDOWN, Some(100.0 * bracket.high.slowdown));
        set(NEEDED_FAULTS, value(Some(&bracket.high), MAJOR_FAULTS));
        set(NEEDED_PSI, value(Some(&bracket.high), PSI_SOME));
        set(TOO_SMALL, bracket.low.map(|low| low.limit as f64));
    }
    metrics
}

#[cfg(test)]
mod tests {
    use plimsoll_model::scenario::PageCache;
    use plimsoll_model::scenario::workloads::command::finding::{COST, LIMIT_HITS, STATUS};

    use super::*;

    fn run(tolerate: f64) -> ProgramRun {
        ProgramRun {
            command: vec!["program".to_owned()],
            limits: Vec::new(),
            search: true,
            tolerate,
            metric: None,
            higher_is_better: false,
            same_output: false,
            cache: PageCache::Cold,
            run_time: 1.0,
        }
    }

    fn point(limit: f64, seconds: f64, hits: f64) -> Phase {
        let values = [
            (LIMIT, limit),
            (STATUS, Status::Done.number()),
            (WALL, seconds),
            (COST, seconds),
            (LIMIT_HITS, hits),
            (PEAK, limit.min(700.0)),
            (MAJOR_FAULTS, hits),
        ];
        Phase {
            values: values.map(|(name, value)| (name.to_owned(), value)).into(),
            ..Phase::default()
        }
    }

    fn killed(limit: f64) -> Phase {
        let mut killed = point(limit, 0.1, 9.0);
        killed.values.insert(STATUS.to_owned(), Status::Killed.number());
        killed.values.remove(COST);
        killed
    }

    #[test]
    fn metrics_come_from_the_points() {
        let points = vec![
            point(1000.0, 10.0, 0.0),
            point(600.0, 10.4, 40.0),
            point(400.0, 12.0, 80.0),
            // Once more, and better.
            point(400.0, 11.2, 70.0),
            killed(200.0),
        ];
        let metrics = metrics(&Trial::made_up("command", points), &run(0.08));
        let near = |name: &str, value: f64| {
            assert!((metrics[name] - value).abs() < 1e-9, "{name}: {}", metrics[name])
        };
        // 8% is half of the way from 4% to 12%.
        near(KNEE, 500.0);
        near(NEEDED, 600.0);
        near(TOO_SMALL, 400.0);
        near(BASE_WALL, 10.0);
        near(BASE_PEAK, 700.0);
        near(KNEE_SHARE, 500.0 / 700.0);
        near(NEEDED_SLOWDOWN, 4.0);
        near(NEEDED_FAULTS, 40.0);
        near(KILLED_LIMIT, 200.0);
        assert!(!metrics.contains_key(BASE_METRIC));
    }

    #[test]
    fn one_limit_has_no_knee() {
        let metrics = metrics(
            &Trial::made_up("command", vec![point(1000.0, 10.0, 0.0)]),
            &run(0.05),
        );
        assert_eq!(metrics[BASE_WALL], 10.0);
        for absent in [KNEE, NEEDED, TOO_SMALL, KILLED_LIMIT] {
            assert!(!metrics.contains_key(absent), "{absent}");
        }
    }
}
