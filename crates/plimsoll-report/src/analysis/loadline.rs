//! Metrics of the loadline scenario, and what of the axis of loads is still to be measured.
//!
//! Useful work is visits a second, without the time that the worker waited for a CPU that others used. The *knee* is the
//! load at which it falls under half of what it is at the lowest load.

use std::collections::BTreeMap;

use super::metric::metrics;
use super::ratio;
use super::statistics::summarise;
use plimsoll_model::recording::model::{Phase, Trial};
use plimsoll_model::scenario::Loadline;

metrics! {
    KNEE "knee_load" More true "load line" "Load (size over limit) at which useful work falls under half of that at load 0.5, interpolated. Absent where it does not fall so far, or the lowest load cannot be carried.";
    KNEE_RAM "knee_ram_load" More true "load line by RAM" "The same, with the RAM of the compressed store counted as given: size over limit and store together.";
    WORK_1 "work_at_1_ratio" More true "work at 1" "Useful work at load 1 over that at load 0.5.";
    WORK_1_5 "work_at_1_5_ratio" More true "work at 1.5" "Useful work at load 1.5 over that at load 0.5.";
    WORK_2 "work_at_2_ratio" More true "work at 2" "Useful work at load 2 over that at load 0.5.";
    P99_1 "p99_at_1_s" Less false "p99 at 1" "Latency at load 1 that 99 of 100 visits do not exceed, of the visits that should have begun: those that waited behind a slow one included.";
    P99_1_5 "p99_at_1_5_s" Less true "p99 at 1.5" "Latency at load 1.5 that 99 of 100 visits do not exceed, of the visits that should have begun: those that waited behind a slow one included.";
    WORK "unloaded_visits_per_s" More false "unloaded work" "Useful work at load 0.5.";
    CPU_1_5 "cpu_per_visit_at_1_5_ratio" Less false "CPU at 1.5" "CPU time of a visit at load 1.5 over that at load 0.5.";
    NET_1_5 "net_visit_at_1_5_s" Less false "net visit at 1.5" "Time of a visit at load 1.5 without the worker's own: choice of the page, clock and computing.";
    KNEE_LOW "knee_low_load" Neither false "carried" "Highest load measured below the knee.";
    KNEE_HIGH "knee_high_load" Neither false "not carried" "Lowest load measured above the knee.";
    KILLED_LOAD "oom_killed_load" More true "killed at" "Lowest load at which the OOM killer ended the worker.";
}

/// Figures of a point, in [`Phase::figures`].
pub const LOAD: &str = "load";
/// Useful work: visits a second, without the time in [`CPU_WAIT`].
pub const VISITS: &str = "visits_per_s";
/// Time that the worker could run and waited for a CPU that others used; absent where the kernel does not count it.
pub const CPU_WAIT: &str = "cpu_wait_s";
/// 1 where the OOM killer ended the worker.
pub const KILLED: &str = "oom_killed";
/// Workers that the OOM killer ended at this load although swap was free.
pub const EARLY_KILLS: &str = "early_kills";
/// Size over limit and store together.
pub const RAM_LOAD: &str = "ram_load";
/// RAM of the compressed store.
pub const STORE: &str = "store_bytes";
/// Resident anonymous memory of the worker after the stretch.
pub const RESIDENT: &str = "resident_bytes";
/// Swap of the worker's cgroup after the stretch.
pub const SWAPPED: &str = "swapped_bytes";
/// Hard faults.
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

/// Share of the unloaded work from which on a load counts as carried.
pub const CARRIED: f64 = 0.5;
/// The knee is known when the loads below and above it are this close.
const CLOSE: f64 = 1.05;
/// The load that others are compared with.
const UNLOADED: f64 = 0.5;
/// Where, in knees, a point shows the curve before and after it, unless there is one as near as `NEAR`.
const AROUND: [f64; 2] = [0.9, 1.1];
const NEAR: f64 = 0.04;
/// Points of a trial at most: the coarse ones, six to bisect, some to spare for a curve that goes up and down.
const MOST_POINTS: usize = 24;

/// What was measured at one load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Size over limit.
    pub load: f64,
    /// Useful work, visits a second; 0 where the worker was killed.
    pub visits_per_s: f64,
    /// Size over limit and store together; the load where it is not known.
    pub ram_load: f64,
    /// Whether the OOM killer ended the worker.
    pub killed: bool,
}

/// The loads next to the knee.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bracket {
    /// The last that is carried.
    pub low: Point,
    /// The first that is not; none where the largest load is carried.
    pub high: Option<Point>,
    /// Useful work at the lowest load.
    base: f64,
}

impl Point {
    /// The point that a phase measured.
    pub fn of_phase(phase: &Phase) -> Option<Point> {
        let figure = |name: &str| phase.figures.get(name).copied();
        let load = figure(LOAD)?;
        Some(Point {
            load,
            visits_per_s: figure(VISITS)?,
            ram_load: figure(RAM_LOAD).unwrap_or(load),
            killed: figure(KILLED).is_some_and(|killed| killed > 0.0),
        })
    }
}

/// The phases of a trial that measured a load, by load: of a load that was measured twice the one with more useful work.
pub fn measured(trial: &Trial) -> Vec<&Phase> {
    let of_phase = |phase| Some((Point::of_phase(phase)?, phase));
    let phases = trial.phases.iter().filter_map(of_phase).collect();
    better(phases, |(point, _)| *point)
        .into_iter()
        .map(|(_, phase)| phase)
        .collect()
}

/// The points of a trial, by load.
pub fn points(trial: &Trial) -> Vec<Point> {
    measured(trial).into_iter().filter_map(Point::of_phase).collect()
}

/// What was measured, by load, and of a load that was measured twice the one with more useful work.
fn better<T>(mut all: Vec<T>, point: impl Fn(&T) -> Point) -> Vec<T> {
    all.sort_by(|a, b| {
        let (a, b) = (point(a), point(b));
        let by_work = b.visits_per_s.total_cmp(&a.visits_per_s);
        a.load.total_cmp(&b.load).then(by_work)
    });
    all.dedup_by_key(|one| point(one).load);
    all
}

/// The loads next to the knee, of points by load; none where even the lowest load is not carried.
pub fn bracket(points: &[Point]) -> Option<Bracket> {
    let base = points
        .first()
        .filter(|point| point.visits_per_s > 0.0)?
        .visits_per_s;
    let carried = |point: &Point| point.visits_per_s >= CARRIED * base;
    let above = points.iter().position(|point| !carried(point));
    let low = points[..above.unwrap_or(points.len())].last()?;
    Some(Bracket {
        low: *low,
        high: above.map(|above| points[above]),
        base,
    })
}

impl Bracket {
    /// Whether a load beyond the first that is not carried is.
    fn is_carried_beyond(&self, points: &[Point]) -> bool {
        let beyond = |point: &Point| self.high.is_some_and(|high| point.load > high.load);
        points
            .iter()
            .any(|point| beyond(point) && point.visits_per_s >= CARRIED * self.base)
    }

    /// The knee by an axis: where the line between the two points crosses the share. A worker that was killed drew no line:
    /// then it is the last load that was carried.
    fn knee(&self, axis: impl Fn(&Point) -> f64) -> Option<f64> {
        let high = self.high?;
        let (from, to) = (axis(&self.low), axis(&high));
        if high.killed {
            return Some(from);
        }
        let fall = self.low.visits_per_s - high.visits_per_s;
        let part = ratio(self.low.visits_per_s - CARRIED * self.base, fall)?;
        Some(from + (to - from) * part)
    }

    /// The load of the knee.
    pub fn load(&self) -> Option<f64> {
        self.knee(|point| point.load)
    }
}

/// The load to measure next, after these; none when the knee is known well enough.
///
/// First some loads over the whole axis, up to the first that gets the worker killed, as larger ones do too; then the
/// middle of the bracket of the knee until that is narrow; then a point on each side of it. A load that is not carried
/// although a larger one is comes once more, and the better of the two counts: something else may have been in the way.
pub fn next_load(measured: &[Point], loadline: &Loadline) -> Option<f64> {
    let points = better(measured.to_vec(), |point| *point);
    let killed = points
        .iter()
        .find(|point| point.killed)
        .map_or(f64::INFINITY, |point| point.load);
    let is_new = |load: &f64| points.iter().all(|point| point.load != *load);
    if let Some(coarse) = loadline.coarse_loads().filter(|load| *load < killed).find(is_new) {
        return Some(coarse);
    }
    let bracket = bracket(&points)?;
    let high = bracket.high.filter(|_| measured.len() < MOST_POINTS)?;
    let once = measured.iter().filter(|point| point.load == high.load).count() == 1;
    if once && bracket.is_carried_beyond(&points) {
        return Some(high.load);
    }
    if high.load > bracket.low.load * CLOSE {
        let middle = to_thousandths((bracket.low.load + high.load) / 2.0);
        return Some(middle).filter(is_new);
    }
    let knee = bracket.load()?;
    let lowest = points.first()?.load;
    AROUND
        .into_iter()
        .map(|share| to_thousandths(knee * share))
        .find(|load| {
            let near = |point: &Point| (point.load - load).abs() < NEAR * knee;
            *load > lowest && *load < killed.min(loadline.max_load) && !points.iter().any(near)
        })
}

/// Loads are named with at most three decimals.
fn to_thousandths(load: f64) -> f64 {
    (load * 1e3).round() / 1e3
}

/// What a trial measured of a figure, by load; useful work as its share of that at the lowest load.
fn line(trial: &Trial, name: &str) -> Vec<(f64, f64)> {
    let base = match name {
        VISITS => points(trial).first().map_or(f64::NAN, |point| point.visits_per_s),
        _ => 1.0,
    };
    let point = |phase: &Phase| Some((*phase.figures.get(LOAD)?, ratio(*phase.figures.get(name)?, base)?));
    measured(trial).into_iter().filter_map(point).collect()
}

/// A line of several repeats at one load: median, least and greatest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Size over limit.
    pub load: f64,
    /// Middle of the repeats.
    pub median: f64,
    /// Least of them.
    pub min: f64,
    /// Greatest of them.
    pub max: f64,
}

/// A figure over the load, of repeats, at every load that one of them measured: the others by the line between their
/// neighbouring points, and not beyond their ends. Useful work ([`VISITS`]) is its share of that at the lowest load.
pub fn curve(trials: &[&Trial], name: &str) -> Vec<Spread> {
    let lines: Vec<Vec<(f64, f64)>> = trials.iter().map(|trial| line(trial, name)).collect();
    let mut loads: Vec<f64> = lines.iter().flatten().map(|(load, _)| *load).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    let spread = |load: f64| {
        let values: Vec<f64> = lines.iter().filter_map(|line| value_at(line, load)).collect();
        let summary = summarise(&values, 0)?;
        Some(Spread {
            load,
            median: summary.median,
            min: summary.min,
            max: summary.max,
        })
    };
    loads.into_iter().filter_map(spread).collect()
}

/// The value of a line, by ascending x, at `x`.
fn value_at(line: &[(f64, f64)], x: f64) -> Option<f64> {
    let after = line.iter().position(|(at, _)| *at >= x)?;
    let (right, high) = line[after];
    if right == x {
        return Some(high);
    }
    let (left, low) = line[after.checked_sub(1)?];
    Some(low + (high - low) * ratio(x - left, right - left)?)
}

/// Computes the metrics of a trial. One that cannot be known is absent.
pub fn metrics(trial: &Trial) -> BTreeMap<String, f64> {
    let mut metrics = BTreeMap::new();
    let mut set = |name: &str, value: Option<f64>| {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            metrics.insert(name.to_owned(), value);
        }
    };
    let phases = measured(trial);
    let points = points(trial);
    let killed = points.iter().find(|point| point.killed);
    set(KILLED_LOAD, killed.map(|point| point.load));
    if let Some(bracket) = bracket(&points) {
        set(WORK, Some(bracket.base));
        set(KNEE, bracket.load());
        set(KNEE_RAM, bracket.knee(|point| point.ram_load));
        set(KNEE_LOW, Some(bracket.low.load));
        set(KNEE_HIGH, bracket.high.map(|point| point.load));
        let at = |load: f64| points.iter().find(|point| point.load == load);
        // What gets the worker killed at a load does so at every larger one.
        let work = |load: f64| match (at(load), killed) {
            (Some(point), _) => ratio(point.visits_per_s, bracket.base),
            (None, Some(killed)) => (killed.load < load).then_some(0.0),
            (None, None) => None,
        };
        set(WORK_1, work(1.0));
        set(WORK_1_5, work(1.5));
        set(WORK_2, work(2.0));
    }
    let figure = |load: f64, name: &str| {
        let of_load = |phase: &Phase| phase.figures.get(LOAD) == Some(&load);
        phases
            .iter()
            .find(|phase| of_load(phase))?
            .figures
            .get(name)
            .copied()
    };
    set(P99_1, figure(1.0, "p99_s"));
    set(P99_1_5, figure(1.5, "p99_s"));
    set(NET_1_5, figure(1.5, NET));
    let cpu = |load: f64| figure(load, CPU_PER_VISIT);
    set(
        CPU_1_5,
        cpu(1.5)
            .zip(cpu(UNLOADED))
            .and_then(|(loaded, base)| ratio(loaded, base)),
    );
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn point(load: f64, visits_per_s: f64) -> Point {
        Point {
            load,
            visits_per_s,
            ram_load: load,
            killed: visits_per_s == 0.0,
        }
    }

    /// Measures a machine that does `work` at a load, as a trial does.
    fn sweep(max_load: f64, work: impl Fn(f64) -> f64) -> Vec<Point> {
        let mut points = Vec::new();
        while let Some(load) = next_load(&points, &Loadline { max_load, ..LOADLINE }) {
            points.push(point(load, work(load)));
            assert!(points.len() <= MOST_POINTS);
        }
        points.sort_by(|a, b| a.load.total_cmp(&b.load));
        points
    }

    proptest! {
        #[test]
        fn the_knee_is_found_within_five_percent_in_few_points(knee in 0.6f64..2.9, steepness in 2.0f64..40.0) {
            let work = |load: f64| 1e5 / (1.0 + (load / knee).powf(steepness));
            let points = sweep(3.0, work);
            let base = work(0.5);
            let found = bracket(&points).unwrap();
            let high = found.high.unwrap();
            prop_assert!(work(found.low.load) >= base / 2.0 && work(high.load) < base / 2.0);
            prop_assert!(high.load <= found.low.load * 1.0501);
            let line = found.load().unwrap();
            prop_assert!(line >= found.low.load && line <= high.load);
            prop_assert!(points.len() <= 12, "{}", points.len());
        }

        #[test]
        fn a_noisy_machine_ends_the_sweep_too(works in prop::collection::vec(0.0f64..1e5, 40), max_load in 1.0f64..10.0) {
            let mut points = Vec::new();
            while let Some(load) = next_load(&points, &Loadline { max_load, ..LOADLINE }) {
                let before = points.iter().filter(|point: &&Point| point.load == load).count();
                prop_assert!(load <= max_load && before < 2);
                points.push(point(load, works[points.len()]));
                prop_assert!(points.len() <= MOST_POINTS);
            }
        }

        #[test]
        fn a_cliff_is_climbed_to_within_five_percent_and_not_beyond(cliff in 0.6f64..2.9) {
            let points = sweep(3.0, |load| if load < cliff { 1e5 } else { 0.0 });
            let found = bracket(&points).unwrap();
            prop_assert_eq!(found.load(), Some(found.low.load));
            prop_assert!(found.low.load < cliff && cliff <= found.low.load * 1.051);
            let first_coarse = LOADLINE.coarse_loads().find(|load| *load >= cliff).unwrap();
            prop_assert!(points.iter().all(|point| point.load <= first_coarse));
        }
    }

    #[test]
    fn one_bad_point_below_a_load_that_is_carried_is_measured_again() {
        let knee = |load: f64| 1e5 / (1.0 + (load / 2.5).powi(20));
        let mut bad = Some(1.0);
        let mut points = Vec::new();
        while let Some(load) = next_load(&points, &LOADLINE) {
            let work = if bad.take_if(|bad| *bad == load).is_some() {
                2e4
            } else {
                knee(load)
            };
            points.push(point(load, work));
        }
        assert_eq!(points.iter().filter(|point| point.load == 1.0).count(), 2);
        let points = better(points, |point| *point);
        let found = bracket(&points).and_then(|bracket| bracket.load()).unwrap();
        assert!((found / 2.5 - 1.0).abs() < 0.05, "{found}");
    }

    #[test]
    fn of_a_load_that_was_measured_twice_the_better_counts() {
        let phase = |load: f64, work: f64| Phase {
            figures: [(LOAD, load), (VISITS, work), ("p99_s", 1.0 / work)]
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
        let metrics = metrics(&trial);
        assert_eq!((metrics[WORK_1_5], metrics[P99_1_5]), (0.8, 1.0 / 80.0));
        assert!(!metrics.contains_key(KNEE));
        let curve: Vec<f64> = curve(&[&trial], VISITS).iter().map(|at| at.median).collect();
        assert_eq!(curve, [1.0, 0.8, 0.6]);
    }

    #[test]
    fn what_carries_everything_has_no_knee() {
        let points = sweep(2.0, |_| 1e5);
        let loads: Vec<f64> = points.iter().map(|point| point.load).collect();
        assert_eq!(loads, [0.5, 1.0, 1.5, 2.0]);
        let found = bracket(&points).unwrap();
        assert_eq!((found.low.load, found.high, found.load()), (2.0, None, None));
    }

    #[test]
    fn metrics_come_from_the_points() {
        let phase = |load: f64, work: f64, ram_load: f64| Phase {
            name: format!("load {load}"),
            figures: [
                (LOAD, load),
                (VISITS, work),
                (RAM_LOAD, ram_load),
                ("p99_s", load / 1e3),
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
        let metrics = metrics(&trial);
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
    fn repeats_with_other_loads_make_one_curve() {
        let repeat = |works: &[(f64, f64)]| {
            let phase = |&(load, work): &(f64, f64)| Phase {
                figures: [(LOAD, load), (VISITS, work)]
                    .map(|(name, value)| (name.to_owned(), value))
                    .into(),
                ..Phase::default()
            };
            trial(works.iter().map(phase).collect())
        };
        let one = repeat(&[(0.5, 100.0), (1.0, 80.0), (2.0, 40.0)]);
        let two = repeat(&[(0.5, 200.0), (1.5, 100.0)]);
        let curve = curve(&[&one, &two], VISITS);
        let seen: Vec<(f64, f64, f64)> = curve.iter().map(|at| (at.load, at.min, at.max)).collect();
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
            figures: [
                (LOAD, load),
                (VISITS, work),
                (KILLED, f64::from(u8::from(work == 0.0))),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
            ..Phase::default()
        };
        let trial = trial(vec![phase(0.5, 100.0), phase(0.97, 99.0), phase(1.0, 0.0)]);
        let metrics = metrics(&trial);
        assert_eq!(metrics[KNEE], 0.97);
        assert_eq!(
            (metrics[KILLED_LOAD], metrics[WORK_1], metrics[WORK_2]),
            (1.0, 0.0, 0.0)
        );
    }

    const LOADLINE: Loadline = Loadline {
        pattern: plimsoll_model::scenario::Pattern::Uniform,
        max_load: 3.0,
        compute: 1e-5,
        duration: 1.0,
    };

    fn trial(phases: Vec<Phase>) -> Trial {
        Trial::made_up("loadline", phases)
    }
}
