//! Metrics of the loadline scenario.

mod conditions;
mod headline;
mod points;
mod section;

use std::collections::BTreeMap;

use super::criteria::{Criteria, Measure};
use super::{WorkloadReport, verification};
pub use crate::analysis::lines::Spread;
use crate::analysis::lines::across;
use crate::analysis::metric::metrics;
use plimsoll_model::quantity::ratio;
use plimsoll_model::recording::model::{Phase, Trial};
use plimsoll_model::scenario::workloads::loadline::finding::{
    CPU_PER_VISIT, FILE_IN_RAM, FILE_SIZE, LOAD, NET, P99, READ_P99, SIZE, SWAPPED, VISITS, WRITE_P99,
};
use plimsoll_model::scenario::workloads::loadline::{Criterion, Point, base, better, bracket};
use plimsoll_model::scenario::{Loadline, Workload};

metrics! {
    KNEE "knee_load" More true TIME "load line" "Load (size over limit) at which useful work falls below `target-work` (by default half) of the useful work at the lowest load, or of `rate`, interpolated. Absent if it never falls as far or if the machine cannot sustain the lowest load.";
    KNEE_RAM "knee_ram_load" More true TIME "load line by RAM" "The load line with the compressed store counted as RAM: size over the sum of limit and store.";
    NEEDED "needed_limit_bytes" Less true TIME "needed limit" "Limit at which useful work falls below `target-work`: the working set over the load line. Only where the working set is the same at every load.";
    TARGET_LOAD "target_load" More true TIME "load line by p99" "Largest measured load below the first whose p99 latency exceeds `target-p99`. Absent without a target or if even the lowest load misses it.";
    TARGET_NEEDED "target_limit_bytes" Less true TIME "needed limit by p99" "Limit at the load line by p99. Only where the working set is the same at every load.";
    OVERLOAD "overload_load" More true TIME "overloaded at" "Lowest load at which fewer than `target-work` of the visits that were due were made.";
    WORK_1 "work_at_1_ratio" More true TIME "work at 1" "Useful work at load 1 over the value at the lowest load, or over `rate`.";
    WORK_1_5 "work_at_1_5_ratio" More true TIME "work at 1.5" "Useful work at load 1.5 over the value at the lowest load, or over `rate`.";
    WORK_2 "work_at_2_ratio" More true TIME "work at 2" "Useful work at load 2 over the value at the lowest load, or over `rate`.";
    P99_1 "p99_at_1_s" Less false "p99 at 1" "99th percentile of the visit latency at load 1, including visits that queue behind a slow one.";
    P99_1_5 "p99_at_1_5_s" Less true "p99 at 1.5" "99th percentile of the visit latency at load 1.5, including visits that queue behind a slow one.";
    READ_P99_1_5 "read_p99_at_1_5_s" Less false "read p99 at 1.5" "99th percentile of the latency of visits that only read, at load 1.5. Absent where all visits do the same.";
    WRITE_P99_1_5 "write_p99_at_1_5_s" Less false "write p99 at 1.5" "99th percentile of the latency of visits that write, at load 1.5. Absent where all visits do the same.";
    WORK "unloaded_visits_per_s" More false "unloaded work" "Useful work at the lowest load.";
    CPU_1_5 "cpu_per_visit_at_1_5_ratio" Less false TIME "CPU at 1.5" "CPU time of a visit at load 1.5 over the value at load 0.5.";
    NET_1_5 "net_visit_at_1_5_s" Less false "net visit at 1.5" "Time of a visit at load 1.5 without the worker's own overhead: page choice, clock and computation.";
    FILE_KEPT_1_5 "file_kept_at_1_5_percent" Neither false TIME "file kept at 1.5" "Share of the visited pages of the file that are in RAM after the stretch at load 1.5. Only with `file-percent`.";
    ANON_KEPT_1_5 "anonymous_kept_at_1_5_percent" Neither false TIME "anonymous kept at 1.5" "Share of the visited anonymous pages that are not in swap after the stretch at load 1.5. Only with `file-percent`.";
    KNEE_LOW "knee_low_load" Neither false TIME "sustained" "Highest load measured below the load line.";
    KNEE_HIGH "knee_high_load" Neither false TIME "not sustained" "Lowest load measured above the load line.";
    TARGET_HIGH "target_high_load" Neither false TIME "target missed" "Lowest load whose p99 latency exceeds `target-p99`.";
    KILLED_LOAD "oom_killed_load" More true PLACE "killed at" "Lowest load at which the OOM killer ended the worker, or its pager exceeded its budget.";
}

/// The load that others are compared with.
const UNLOADED: f64 = 0.5;
/// The phases of a trial that measured a load, by load: of a load that was measured twice the one with more useful work.
pub fn measured(trial: &Trial) -> Vec<&Phase> {
    let points = trial.phases.iter();
    let phases = points
        .filter_map(|phase| Some((Point::of(&phase.values)?, phase)))
        .collect();
    better(phases, |(point, _)| *point)
        .into_iter()
        .map(|(_, phase)| phase)
        .collect()
}

/// The points of a trial, by load.
pub fn points(trial: &Trial) -> Vec<Point> {
    measured(trial)
        .into_iter()
        .filter_map(|phase| Point::of(&phase.values))
        .collect()
}

/// The values of a trial over its `axis`, ascending; useful work relative to that at the lowest load, or to the
/// rate.
fn line(trial: &Trial, axis: &str, name: &str) -> Vec<(f64, f64)> {
    let base = match name {
        VISITS => base(&points(trial)).unwrap_or(f64::NAN),
        _ => 1.0,
    };
    let point = |phase: &Phase| Some((*phase.values.get(axis)?, ratio(*phase.values.get(name)?, base)?));
    let mut line: Vec<(f64, f64)> = measured(trial).into_iter().filter_map(point).collect();
    line.sort_by(|a, b| a.0.total_cmp(&b.0));
    line
}

/// A value over the load, of repeats, at every load that one of them measured: the others by the line between their
/// neighbouring points, and not beyond their ends. Useful work ([`VISITS`]) is its share of that at the lowest load.
pub fn curve(trials: &[&Trial], name: &str) -> Vec<Spread> {
    curve_over(trials, LOAD, name)
}

/// The same over another value of the points.
pub fn curve_over(trials: &[&Trial], axis: &str, name: &str) -> Vec<Spread> {
    let lines: Vec<Vec<(f64, f64)>> = trials.iter().map(|trial| line(trial, axis, name)).collect();
    across(&lines)
}

const RANKED_LOAD_LINE: Measure = Measure {
    metric: KNEE_RAM,
    noun: "load line by RAM",
};

const CRITERIA: Criteria = Criteria {
    first: RANKED_LOAD_LINE,
    second: Measure {
        metric: CPU_1_5,
        noun: "CPU time of a visit at load 1.5",
    },
    opposing: false,
    setting: RANKED_LOAD_LINE,
    limit: "",
    all_subjects: true,
};

pub(super) const REPORT: WorkloadReport = WorkloadReport {
    known: METRICS,
    metrics: |of| match &of.settings.workload {
        Workload::Loadline(loadline) => metrics(of.trial, loadline),
        _ => BTreeMap::new(),
    },
    headline: headline::told,
    section: Some(section::section),
    timed_phases: None,
    verification: &verification::DATA_AND_COUNTS,
    criteria: Some(&CRITERIA),
};

/// A metric and its value; unknown ones are absent in the end.
type Value = (&'static str, Option<f64>);

/// The metrics of a trial; unknown ones are absent.
pub fn metrics(trial: &Trial, loadline: &Loadline) -> BTreeMap<String, f64> {
    let points = points(trial);
    let values = lines(&points, loadline)
        .into_iter()
        .chain(work(&points, loadline))
        .chain(at_loads(&measured(trial)));
    let known = values.filter_map(|(name, value)| {
        let value = value.filter(|value| value.is_finite())?;
        Some((name.to_owned(), value))
    });
    known.collect()
}

/// The load lines of the criteria.
fn lines(points: &[Point], loadline: &Loadline) -> Vec<Value> {
    let limit_at = |load: f64| ratio(loadline.working_set? as f64, load);
    let mut values = Vec::new();
    for criterion in loadline.criteria() {
        let Some(bracket) = bracket(points, criterion) else {
            continue;
        };
        let (low, high) = (Some(bracket.low.load), bracket.high.map(|point| point.load));
        match criterion {
            Criterion::Work(_) => values.extend([
                (KNEE, bracket.load()),
                (KNEE_RAM, bracket.knee(|point| point.ram_load)),
                (NEEDED, bracket.load().and_then(limit_at)),
                (KNEE_LOW, low),
                (KNEE_HIGH, high),
            ]),
            Criterion::P99(_) => values.extend([
                (TARGET_LOAD, low),
                (TARGET_NEEDED, low.and_then(limit_at)),
                (TARGET_HIGH, high),
            ]),
        }
    }
    values
}

/// Useful work at some loads, and the loads that ended it.
fn work(points: &[Point], loadline: &Loadline) -> Vec<Value> {
    let killed = points.iter().find(|point| point.killed);
    let overloaded = |point: &&Point| {
        let offered = point.offered_per_s;
        offered.is_some_and(|offered| point.visits_per_s < loadline.target_work * offered)
    };
    let mut values = vec![
        (KILLED_LOAD, killed.map(|point| point.load)),
        (OVERLOAD, points.iter().find(overloaded).map(|point| point.load)),
    ];
    if let Some(base) = base(points) {
        let at = |load: f64| points.iter().find(|point| point.load == load);
        // What gets the worker killed at a load does so at every larger one.
        let work = |load: f64| match (at(load), killed) {
            (Some(point), _) => ratio(point.visits_per_s, base),
            (None, Some(killed)) => (killed.load < load).then_some(0.0),
            (None, None) => None,
        };
        values.extend([
            (WORK, points.first().map(|point| point.visits_per_s)),
            (WORK_1, work(1.0)),
            (WORK_1_5, work(1.5)),
            (WORK_2, work(2.0)),
        ]);
    }
    values
}

/// The values of the phases at some loads.
fn at_loads(phases: &[&Phase]) -> [Value; 8] {
    let value = |load: f64, name: &str| {
        let of_load = |phase: &&&Phase| phase.values.get(LOAD) == Some(&load);
        phases.iter().find(of_load)?.values.get(name).copied()
    };
    let kept = |of: Option<f64>, kept: Option<f64>| Some((100.0 * ratio(kept?, of?)?).clamp(0.0, 100.0));
    let (size, file) = (value(1.5, SIZE), value(1.5, FILE_SIZE));
    let anonymous = size.zip(file).map(|(size, file)| size - file);
    let not_swapped = anonymous
        .zip(value(1.5, SWAPPED))
        .map(|(anonymous, swapped)| anonymous - swapped);
    let cpu = |load: f64| value(load, CPU_PER_VISIT);
    let of_unloaded = |(loaded, base): (f64, f64)| ratio(loaded, base);
    [
        (P99_1, value(1.0, P99)),
        (P99_1_5, value(1.5, P99)),
        (READ_P99_1_5, value(1.5, READ_P99)),
        (WRITE_P99_1_5, value(1.5, WRITE_P99)),
        (NET_1_5, value(1.5, NET)),
        (FILE_KEPT_1_5, kept(file, value(1.5, FILE_IN_RAM))),
        (ANON_KEPT_1_5, kept(anonymous, not_swapped)),
        (CPU_1_5, cpu(1.5).zip(cpu(UNLOADED)).and_then(of_unloaded)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::scenario::workloads::loadline::finding::{KILLED, LIMIT, OFFERED, RAM_LOAD};
    use plimsoll_model::scenario::{FillClass, Pattern, ThpMode};

    #[test]
    fn of_a_load_that_was_measured_twice_the_better_counts() {
        let phase = |load: f64, work: f64| Phase {
            values: [(LOAD, load), (VISITS, work), (P99, 1.0 / work)]
                .map(|(name, value)| (name.to_owned(), value))
                .into(),
            ..Phase::default()
        };
        let trial = trial(vec![
            phase(0.5, 100.0),
            phase(1.5, 20.0),
            phase(2.0, 60.0),
            phase(1.5, 80.0),
        ]);
        let metrics = metrics(&trial, &search());
        assert_eq!((metrics[WORK_1_5], metrics[P99_1_5]), (0.8, 1.0 / 80.0));
        assert!(!metrics.contains_key(KNEE));
        let curve: Vec<f64> = curve(&[&trial], VISITS).iter().map(|at| at.median).collect();
        assert_eq!(curve, [1.0, 0.8, 0.6]);
    }

    #[test]
    fn metrics_come_from_the_points() {
        let phase = |load: f64, work: f64, ram_load: f64| Phase {
            name: format!("load {load}"),
            values: [
                (LOAD, load),
                (VISITS, work),
                (RAM_LOAD, ram_load),
                (P99, load / 1e3),
                (CPU_PER_VISIT, load),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
            ..Phase::default()
        };
        let trial = trial(vec![
            phase(0.5, 100.0, 0.5),
            phase(1.5, 60.0, 1.2),
            phase(1.0, 90.0, 1.0),
            phase(2.0, 40.0, 1.4),
        ]);
        let metrics = metrics(&trial, &search());
        let near = |name: &str, value: f64| {
            assert!((metrics[name] - value).abs() < 1e-9, "{name}: {}", metrics[name])
        };
        near(KNEE, 1.75);
        near(KNEE_RAM, 1.3);
        near(KNEE_LOW, 1.5);
        near(KNEE_HIGH, 2.0);
        near(WORK_1, 0.9);
        near(WORK_2, 0.4);
        near(P99_1_5, 1.5e-3);
        near(CPU_1_5, 3.0);
        assert!(!metrics.contains_key(KILLED_LOAD));
    }

    #[test]
    fn kept_pages_of_both_kinds_are_shares_of_their_own() {
        let phase = |of_file: bool| {
            let of_file = of_file.then_some([(FILE_SIZE, 50.0), (FILE_IN_RAM, 40.0)]);
            let values = [(LOAD, 1.5), (VISITS, 100.0), (SIZE, 150.0), (SWAPPED, 25.0)];
            let values = values.into_iter().chain(of_file.into_iter().flatten());
            Phase {
                values: values.map(|(name, value)| (name.to_owned(), value)).collect(),
                ..Phase::default()
            }
        };
        let mixed = metrics(&trial(vec![phase(true)]), &search());
        assert_eq!((mixed[FILE_KEPT_1_5], mixed[ANON_KEPT_1_5]), (80.0, 75.0));
        let anonymous = metrics(&trial(vec![phase(false)]), &search());
        assert!(!anonymous.contains_key(FILE_KEPT_1_5) && !anonymous.contains_key(ANON_KEPT_1_5));
    }

    #[test]
    fn repeats_with_other_loads_make_one_curve() {
        let repeat = |works: &[(f64, f64)]| {
            let phase = |&(load, work): &(f64, f64)| Phase {
                values: [(LOAD, load), (VISITS, work)]
                    .map(|(name, value)| (name.to_owned(), value))
                    .into(),
                ..Phase::default()
            };
            trial(works.iter().map(phase).collect())
        };
        let one = repeat(&[(0.5, 100.0), (1.0, 80.0), (2.0, 40.0)]);
        let two = repeat(&[(0.5, 200.0), (1.5, 100.0)]);
        let curve = curve(&[&one, &two], VISITS);
        let seen: Vec<(f64, f64, f64)> = curve.iter().map(|at| (at.x, at.min, at.max)).collect();
        let expected = [
            (0.5, 1.0, 1.0),
            (1.0, 0.75, 0.8),
            (1.5, 0.5, 0.6),
            (2.0, 0.4, 0.4),
        ];
        let close = |(a, b): (&(f64, f64, f64), &(f64, f64, f64))| {
            (a.0 - b.0).abs() + (a.1 - b.1).abs() + (a.2 - b.2).abs() < 1e-9
        };
        assert!(
            seen.len() == expected.len() && seen.iter().zip(&expected).all(close),
            "{seen:?}"
        );
    }

    #[test]
    fn a_kill_says_that_nothing_more_is_carried() {
        let phase = |load: f64, work: f64| Phase {
            values: [
                (LOAD, load),
                (VISITS, work),
                (KILLED, f64::from(u8::from(work == 0.0))),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
            ..Phase::default()
        };
        let trial = trial(vec![phase(0.5, 100.0), phase(0.97, 99.0), phase(1.0, 0.0)]);
        let metrics = metrics(&trial, &search());
        assert_eq!(metrics[KNEE], 0.97);
        assert_eq!(
            (metrics[KILLED_LOAD], metrics[WORK_1], metrics[WORK_2]),
            (1.0, 0.0, 0.0)
        );
    }

    /// A point of a working set of 1200 bytes, served at a rate of 100 visits a second.
    fn served(limit: f64, work: f64, p99: f64) -> Phase {
        let load = 1200.0 / limit;
        Phase {
            values: [
                (LOAD, load),
                (LIMIT, limit),
                (VISITS, work),
                (P99, p99),
                (OFFERED, 100.0),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
            ..Phase::default()
        }
    }

    #[test]
    fn a_fixed_working_set_has_the_limits_that_it_needs() {
        let trial = trial(vec![
            served(2400.0, 100.0, 1e-4),
            served(1200.0, 100.0, 5e-4),
            served(800.0, 96.0, 5e-3),
            served(600.0, 70.0, 0.1),
        ]);
        let loadline = Loadline {
            working_set: Some(1200),
            target_work: 0.95,
            target_p99: Some(1e-3),
            rate: Some(100.0),
            ..search()
        };
        let metrics = metrics(&trial, &loadline);
        let near = |name: &str, value: f64| {
            assert!(
                (metrics[name] / value - 1.0).abs() < 1e-9,
                "{name}: {}",
                metrics[name]
            )
        };
        // 95 of 100 is a 26th of the way from 96 to 70.
        let knee = 1.5 + 0.5 / 26.0;
        near(KNEE, knee);
        near(NEEDED, 1200.0 / knee);
        near(KNEE_HIGH, 2.0);
        near(TARGET_LOAD, 1.0);
        near(TARGET_NEEDED, 1200.0);
        near(TARGET_HIGH, 1.5);
        near(OVERLOAD, 2.0);
        near(WORK_2, 0.7);
        let over_limit: Vec<(f64, f64)> = curve_over(&[&trial], LIMIT, VISITS)
            .iter()
            .map(|at| (at.x, at.median))
            .collect();
        assert_eq!(
            over_limit,
            [(600.0, 0.7), (800.0, 0.96), (1200.0, 1.0), (2400.0, 1.0)]
        );
    }

    #[test]
    fn a_rate_that_no_load_serves_has_an_overload_and_no_line() {
        let trial = trial(vec![served(2400.0, 40.0, 0.5), served(1200.0, 40.0, 0.5)]);
        let loadline = Loadline {
            working_set: Some(1200),
            target_work: 0.95,
            target_p99: Some(1e-3),
            rate: Some(100.0),
            ..search()
        };
        let metrics = metrics(&trial, &loadline);
        assert_eq!((metrics[OVERLOAD], metrics[WORK_1]), (0.5, 0.4));
        for absent in [KNEE, KNEE_LOW, NEEDED, TARGET_LOAD, TARGET_NEEDED] {
            assert!(!metrics.contains_key(absent), "{absent}");
        }
    }

    fn search() -> Loadline {
        Loadline {
            class: FillClass::Random,
            thp: ThpMode::System,
            pattern: Pattern::Uniform,
            max_load: 3.0,
            compute: 1e-5,
            duration: 1.0,
            working_set: None,
            limits: Vec::new(),
            loads: Vec::new(),
            target_work: 0.5,
            target_p99: None,
            threads: 1,
            write_percent: 100,
            rate: None,
            file_percent: 0,
        }
    }

    fn trial(phases: Vec<Phase>) -> Trial {
        Trial::made_up("loadline", phases)
    }
}
