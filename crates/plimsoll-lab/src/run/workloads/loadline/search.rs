//! Which load to measure next, until the knee is known.

use plimsoll_model::scenario::Loadline;
use plimsoll_model::scenario::workloads::loadline::{Criterion, Point, better, bracket};

/// The knee is known when the loads below and above it are this close.
const CLOSE: f64 = 1.05;
/// Where, in knees, a point shows the curve before and after it, unless there is one as near as `NEAR`.
const AROUND: [f64; 2] = [0.9, 1.1];
const NEAR: f64 = 0.04;
/// Points of a trial at most: the coarse ones, six to bisect, some to spare for a curve that goes up and down; and those
/// for another criterion.
const MOST_POINTS: usize = 24;
const MORE_POINTS: usize = 8;

/// The load to measure next, after these; none when the load line is known well enough, or all given loads are measured.
///
/// First some loads over the whole axis, up to the first that gets the worker killed, as larger ones do too; then, for each
/// criterion, the middle of the bracket of the knee until that is narrow; then a point on each side of the knee of useful
/// work. A load that is not carried although a larger one is comes once more, and the better of the two counts: something
/// else may have been in the way.
pub(super) fn next_load(measured: &[Point], loadline: &Loadline) -> Option<f64> {
    let points = better(measured.to_vec(), |point| *point);
    let killed = points
        .iter()
        .find(|point| point.killed)
        .map_or(f64::INFINITY, |point| point.load);
    let is_new = |load: &f64| points.iter().all(|point| point.load != *load);
    let given = loadline.given_loads();
    if !given.is_empty() {
        return given.into_iter().filter(|load| *load < killed).find(is_new);
    }
    if let Some(coarse) = loadline.coarse_loads().filter(|load| *load < killed).find(is_new) {
        return Some(coarse);
    }
    if measured.len() >= MOST_POINTS + MORE_POINTS * (loadline.criteria().count() - 1) {
        return None;
    }
    let mut criteria = loadline.criteria();
    if let Some(load) = criteria.find_map(|criterion| narrower(measured, &points, criterion)) {
        return Some(load);
    }
    let knee = bracket(&points, Criterion::Work(loadline.target_work))?.load()?;
    let lowest = points.first()?.load;
    AROUND
        .into_iter()
        .map(|share| to_thousandths(knee * share))
        .find(|load| {
            let near = |point: &Point| (point.load - load).abs() < NEAR * knee;
            *load > lowest && *load < killed.min(loadline.max_load) && !points.iter().any(near)
        })
}

/// The load that makes the bracket of a criterion narrower, or surer; none where it is narrow or there is none.
/// `points` are the better ones of the measured.
fn narrower(measured: &[Point], points: &[Point], criterion: Criterion) -> Option<f64> {
    let bracket = bracket(points, criterion)?;
    let high = bracket.high?;
    let once = measured.iter().filter(|point| point.load == high.load).count() == 1;
    if once && bracket.is_carried_beyond(points) {
        return Some(high.load);
    }
    let middle = to_thousandths((bracket.low.load + high.load) / 2.0);
    let is_new = points.iter().all(|point| point.load != middle);
    (high.load > bracket.low.load * CLOSE && is_new).then_some(middle)
}

/// Loads are named with at most three decimals.
fn to_thousandths(load: f64) -> f64 {
    (load * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use plimsoll_model::scenario::workloads::loadline::Bracket;
    use plimsoll_model::scenario::{FillClass, ThpMode};

    fn point(load: f64, visits_per_s: f64) -> Point {
        Point {
            load,
            visits_per_s,
            ram_load: load,
            killed: visits_per_s == 0.0,
            p99_s: (visits_per_s > 0.0).then(|| 100.0 / visits_per_s),
            offered_per_s: None,
        }
    }

    /// Measures a machine that does `work` at a load, as a trial does.
    fn sweep(max_load: f64, work: impl Fn(f64) -> f64) -> Vec<Point> {
        let points = measure(&Loadline { max_load, ..LOADLINE }, |load| point(load, work(load)));
        assert!(points.len() <= MOST_POINTS);
        points
    }

    fn half(points: &[Point]) -> Option<Bracket> {
        bracket(points, Criterion::Work(0.5))
    }

    /// Measures every load that comes next.
    fn measure(loadline: &Loadline, mut at: impl FnMut(f64) -> Point) -> Vec<Point> {
        let mut points = Vec::new();
        while let Some(load) = next_load(&points, loadline) {
            points.push(at(load));
            assert!(points.len() <= MOST_POINTS + MORE_POINTS);
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
            let found = half(&points).unwrap();
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
            let found = half(&points).unwrap();
            prop_assert_eq!(found.load(), Some(found.low.load));
            prop_assert!(found.low.load < cliff && cliff <= found.low.load * 1.051);
            let first_coarse = LOADLINE.coarse_loads().find(|load| *load >= cliff).unwrap();
            prop_assert!(points.iter().all(|point| point.load <= first_coarse));
        }
    }

    proptest! {
        #[test]
        fn given_loads_are_measured_once_each_and_no_others(
            mut loads in prop::collection::vec(0.1f64..100.0, 1..20),
            works in prop::collection::vec(1.0f64..1e5, 20),
        ) {
            loads.sort_by(f64::total_cmp);
            let mut place = 0..;
            let given = Loadline { loads: loads.clone(), ..LOADLINE };
            let points = measure(&given, |load| point(load, works[place.next().unwrap()]));
            let measured: Vec<f64> = points.iter().map(|point| point.load).collect();
            prop_assert_eq!(measured, loads);
        }

        #[test]
        fn both_criteria_are_bracketed_within_five_percent(knee in 0.7f64..2.9, limit in 0.002f64..0.02) {
            // `point` makes p99 the time of a hundred visits.
            let work = |load: f64| 1e5 / (1.0 + (load / knee).powi(8));
            let both = Loadline { target_p99: Some(limit), ..LOADLINE };
            let points = measure(&both, |load| point(load, work(load)));
            for criterion in both.criteria() {
                let found = bracket(&points, criterion).unwrap();
                if let Some(high) = found.high {
                    prop_assert!(high.load <= found.low.load * 1.0501, "{:?}", criterion);
                }
                if let Criterion::P99(limit) = criterion {
                    prop_assert!(100.0 / work(found.low.load) <= limit);
                    prop_assert!(found.high.is_none_or(|high| 100.0 / work(high.load) > limit));
                }
            }
        }

        #[test]
        fn a_share_of_useful_work_is_found(share in 0.2f64..0.95) {
            let work = |load: f64| 1e5 / (1.0 + (load / 1.7).powi(10));
            let other = Loadline { target_work: share, ..LOADLINE };
            let points = measure(&other, |load| point(load, work(load)));
            let line = bracket(&points, Criterion::Work(share)).unwrap().load().unwrap();
            prop_assert!((work(line * 1.05)..=work(line / 1.05)).contains(&(share * work(0.5))));
        }
    }

    /// The OOM killer at 1.5: of larger loads nothing else can be expected.
    #[test]
    fn no_given_load_beyond_a_kill_is_measured() {
        let given = Loadline {
            loads: vec![0.5, 1.0, 1.5, 2.0, 3.0],
            ..LOADLINE
        };
        let points = measure(&given, |load| point(load, if load < 1.5 { 1e5 } else { 0.0 }));
        let measured: Vec<f64> = points.iter().map(|point| point.load).collect();
        assert_eq!(measured, [0.5, 1.0, 1.5]);
    }

    /// At a rate of 1000 the lowest load serves 700: no load is carried, though all serve as many as the lowest.
    #[test]
    fn of_an_open_loop_the_rate_is_what_is_due() {
        let at = |load: f64| Point {
            offered_per_s: Some(1000.0),
            ..point(load, 700.0)
        };
        let open = Loadline {
            rate: Some(1000.0),
            target_work: 0.95,
            ..LOADLINE
        };
        let points = measure(&open, at);
        assert!(bracket(&points, Criterion::Work(0.95)).is_none());
        let points = measure(&open, |load| Point {
            visits_per_s: if load < 1.8 { 999.0 } else { 800.0 },
            ..at(load)
        });
        let line = bracket(&points, Criterion::Work(0.95)).unwrap();
        assert!(line.low.load < 1.8 && line.high.unwrap().load >= 1.8 && line.base == 1000.0);
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
        let found = half(&points).and_then(|bracket| bracket.load()).unwrap();
        assert!((found / 2.5 - 1.0).abs() < 0.05, "{found}");
    }

    #[test]
    fn a_subject_that_carries_every_load_has_no_knee() {
        let points = sweep(2.0, |_| 1e5);
        let loads: Vec<f64> = points.iter().map(|point| point.load).collect();
        assert_eq!(loads, [0.5, 1.0, 1.5, 2.0]);
        let found = half(&points).unwrap();
        assert_eq!((found.low.load, found.high, found.load()), (2.0, None, None));
    }

    const LOADLINE: Loadline = Loadline {
        class: FillClass::Random,
        thp: ThpMode::System,
        pattern: plimsoll_model::scenario::Pattern::Uniform,
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
    };
}
