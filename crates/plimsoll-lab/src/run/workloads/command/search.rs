//! Which limit to measure next, until the knee is known.

use plimsoll_model::scenario::ProgramRun;
use plimsoll_model::scenario::workloads::command::{Point, Status, bracket, curve};

/// The knee is known when the limits below and above it are this close.
const CLOSE: f64 = 1.05;
/// Factors of the way down from the peak of the base; the last one goes on. Small steps first: most programs need a good
/// part of their peak, and under a limit far below the knee a run takes long.
const DOWN: [f64; 6] = [0.75, 0.75, 0.5, 0.5, 0.5, 0.25];
/// The least limit: below it not even the start of a program fits.
const LEAST: u64 = 2 << 20;
/// A slowdown up to this many times the tolerated one is measured once more at once: something else may have been in the
/// way. At the end of the search, up to the second bound: other load has been seen to take that much.
const NEAR: f64 = 3.0;
const DISTURBED: f64 = 0.5;
/// Points of a trial at most: twice the base, its peak, seven downwards, five to bisect, and one to spare.
const MOST_POINTS: usize = 16;
/// Limits are multiples of a page, and of at least this part of them.
const PAGE: u64 = 4096;
const PARTS: u64 = 512;

/// The limit to measure next, after these; none when all given ones are measured, or the knee is known well enough.
///
/// A search begins with the base, twice, as all others are compared with it; then the peak of the base; then down until a
/// limit is not tolerated; then the middle of the bracket until that is narrow. A limit that is not tolerated although a
/// smaller one is, or that is nearly tolerated, comes once more, and the better of the two counts.
pub(super) fn next_limit(measured: &[Point], run: &ProgramRun, limit: u64) -> Option<u64> {
    let times = |limit: u64| measured.iter().filter(|point| point.limit == limit).count();
    if !run.search {
        let single = [limit];
        let given = if run.limits.is_empty() {
            &single
        } else {
            run.limits.as_slice()
        };
        return given.iter().copied().find(|limit| times(*limit) == 0);
    }
    if times(limit) < 2 {
        return Some(limit);
    }
    if measured.len() >= MOST_POINTS {
        return None;
    }
    let curve = curve(measured);
    let peak = rounded_up(curve.first()?.peak.max(LEAST));
    if peak as f64 * CLOSE < limit as f64 && times(peak) == 0 {
        return Some(peak);
    }
    let bracket = bracket(&curve, run.tolerate)?;
    let Some(low) = bracket.low else {
        let start = peak.min(limit);
        let steps = curve.iter().filter(|point| point.limit < start).count();
        let factor = DOWN[steps.min(DOWN.len() - 1)];
        let from = bracket.high.limit.min(start);
        let next = rounded_up((from as f64 * factor) as u64).max(LEAST);
        return (next < from).then_some(next);
    };
    let once = times(low.limit) == 1;
    let within = |slowdown: f64| once && low.status == Status::Done && low.slowdown <= slowdown;
    let near = NEAR * run.tolerate;
    if within(near) || (once && bracket.is_tolerated_below(&curve)) {
        return Some(low.limit);
    }
    let (from, to) = (low.limit as f64, bracket.high.limit as f64);
    let middle = rounded_up((from * to).sqrt() as u64);
    if to > from * CLOSE && times(middle) == 0 {
        return Some(middle);
    }
    within(near.max(DISTURBED)).then_some(low.limit)
}

/// The limit in whole pages, with few digits.
fn rounded_up(bytes: u64) -> u64 {
    let unit = (bytes / PARTS).next_power_of_two().max(PAGE);
    bytes.checked_next_multiple_of(unit).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use plimsoll_model::scenario::PageCache;
    use proptest::prelude::*;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn search() -> ProgramRun {
        ProgramRun {
            command: vec!["program".to_owned()],
            limits: Vec::new(),
            search: true,
            tolerate: 0.05,
            metric: None,
            higher_is_better: false,
            same_output: false,
            cache: PageCache::Cold,
            run_time: 1.0,
        }
    }

    fn point(limit: u64, peak: u64, cost: f64) -> Point {
        Point {
            limit,
            cost: cost.is_finite().then_some(cost),
            slowdown: f64::INFINITY,
            status: if cost.is_finite() {
                Status::Done
            } else {
                Status::Killed
            },
            limited: peak > limit,
            peak: peak.min(limit),
        }
    }

    /// Measures a program with this peak and these costs, as a trial does.
    fn measure(run: &ProgramRun, limit: u64, peak: u64, mut cost: impl FnMut(u64) -> f64) -> Vec<Point> {
        let mut points = Vec::new();
        while let Some(next) = next_limit(&points, run, limit) {
            points.push(point(next, peak, cost(next)));
            assert!(points.len() <= MOST_POINTS, "{points:?}");
        }
        points
    }

    proptest! {
        /// A program that needs a share of its peak, and slows down below.
        #[test]
        fn the_knee_is_found_within_five_percent_in_few_points(
            share in 0.02f64..1.0,
            steepness in 0.5f64..40.0,
            spare in 1.0f64..3.0,
        ) {
            let need = share * GIB as f64;
            let cost = |limit: u64| 1.0 + (steepness * (need / limit as f64 - 1.0)).max(0.0);
            let points = measure(&search(), (GIB as f64 * spare) as u64, GIB, cost);
            let found = bracket(&curve(&points), 0.05).unwrap();
            let (low, high) = (found.low.unwrap().limit, found.high.limit);
            prop_assert!(cost(high) <= 1.05 && cost(low) > 1.05);
            prop_assert!(high as f64 <= low as f64 * 1.055, "{low} {high}");
            let knee = found.knee().unwrap();
            prop_assert!((low as f64..=high as f64).contains(&knee));
        }

        #[test]
        fn a_cliff_is_found_within_five_percent(share in 0.02f64..1.0) {
            let need = share * GIB as f64;
            let points = measure(&search(), GIB + GIB / 10, GIB, |limit| {
                if limit as f64 >= need { 1.0 } else { f64::INFINITY }
            });
            let found = bracket(&curve(&points), 0.05).unwrap();
            let (low, high) = (found.low.unwrap().limit as f64, found.high.limit as f64);
            prop_assert!(high >= need && low < need && high <= low * 1.055);
            prop_assert_eq!(found.knee(), Some(high));
        }

        #[test]
        fn a_noisy_machine_ends_the_search_too(costs in prop::collection::vec(0.5f64..2.0, 20), tolerate in 0.001f64..1.0) {
            let run = ProgramRun { tolerate, ..search() };
            let mut costs = costs.into_iter().cycle();
            let points = measure(&run, GIB, GIB, |_| costs.next().unwrap());
            for point in &points {
                let times = points.iter().filter(|other| other.limit == point.limit).count();
                prop_assert!(times <= 2);
            }
        }

        #[test]
        fn noise_below_the_tolerance_moves_no_knee(
            share in 0.1f64..0.9,
            noise in prop::collection::vec(0.98f64..1.02, 20),
        ) {
            let need = share * GIB as f64;
            let mut noise = noise.into_iter().cycle();
            let points = measure(&search(), GIB, GIB, |limit| {
                let slow = if limit as f64 >= need { 1.0 } else { 3.0 };
                slow * noise.next().unwrap()
            });
            let found = bracket(&curve(&points), 0.05).unwrap();
            prop_assert!(found.high.limit as f64 >= need && found.high.limit as f64 <= need * 1.06);
        }
    }

    #[test]
    fn given_limits_are_measured_once_each_and_no_others() {
        let given = ProgramRun {
            limits: vec![300, 200, 100],
            search: false,
            ..search()
        };
        let limits = |run: &ProgramRun| -> Vec<u64> {
            let points = measure(run, 900, 50, |_| f64::INFINITY);
            points.iter().map(|point| point.limit).collect()
        };
        assert_eq!(limits(&given), [300, 200, 100]);
        let single = ProgramRun {
            limits: Vec::new(),
            ..given
        };
        assert_eq!(limits(&single), [900]);
    }

    /// Another program had the CPU for a moment.
    #[test]
    fn one_slow_run_does_not_make_a_knee() {
        let mut slow = Some(());
        let points = measure(&search(), GIB, GIB, |limit| match limit {
            limit if limit < GIB / 5 => 9.0,
            limit if limit < GIB && slow.take().is_some() => 1.14,
            _ => 1.0,
        });
        let found = bracket(&curve(&points), 0.05).unwrap();
        assert!(found.high.limit < GIB / 4, "{found:?}");
    }

    #[test]
    fn a_program_that_needs_nothing_ends_the_search_at_the_least_limit() {
        let points = measure(&search(), 64 << 20, 8 << 20, |_| 1.0);
        let found = bracket(&curve(&points), 0.05).unwrap();
        assert_eq!((found.high.limit, found.low), (LEAST, None));
    }
}
