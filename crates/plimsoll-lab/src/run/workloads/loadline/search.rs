//! Which load to measure next, until the knee is known.

use plimsoll_model::scenario::Loadline;
use plimsoll_model::scenario::workloads::loadline::{Point, better, bracket};

/// The knee is known when the loads below and above it are this close.
const CLOSE: f64 = 1.05;
/// Where, in knees, a point shows the curve before and after it, unless there is one as near as `NEAR`.
const AROUND: [f64; 2] = [0.9, 1.1];
const NEAR: f64 = 0.04;
/// Points of a trial at most: the coarse ones, six to bisect, some to spare for a curve that goes up and down.
const MOST_POINTS: usize = 24;

/// The load to measure next, after these; none when the knee is known well enough.
///
/// First some loads over the whole axis, up to the first that gets the worker killed, as larger ones do too; then the
/// middle of the bracket of the knee until that is narrow; then a point on each side of it. A load that is not carried
/// although a larger one is comes once more, and the better of the two counts: something else may have been in the way.
pub(super) fn next_load(measured: &[Point], loadline: &Loadline) -> Option<f64> {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use plimsoll_model::scenario::{FillClass, ThpMode};

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
    fn a_subject_that_carries_every_load_has_no_knee() {
        let points = sweep(2.0, |_| 1e5);
        let loads: Vec<f64> = points.iter().map(|point| point.load).collect();
        assert_eq!(loads, [0.5, 1.0, 1.5, 2.0]);
        let found = bracket(&points).unwrap();
        assert_eq!((found.low.load, found.high, found.load()), (2.0, None, None));
    }

    const LOADLINE: Loadline = Loadline {
        class: FillClass::Random,
        thp: ThpMode::System,
        pattern: plimsoll_model::scenario::Pattern::Uniform,
        max_load: 3.0,
        compute: 1e-5,
        duration: 1.0,
    };
}
