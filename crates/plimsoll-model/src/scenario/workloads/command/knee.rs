//! The knee of a program's slowdown over its memory limit: the least memory with a tolerated slowdown.

use std::collections::BTreeMap;

use super::finding::{COST, LIMIT, LIMIT_HITS, PEAK, SLOWDOWN, STATUS};
use crate::quantity::ratio;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Done,
    /// The OOM killer ended a process of the cgroup.
    Killed,
    /// The program ended with another exit code than at the base.
    OtherExit,
    /// The program wrote something else than at the base.
    OtherOutput,
    /// The run took too long, and the runner ended it.
    Timeout,
    /// The program did not print its metric.
    NoMetric,
}

impl Status {
    /// Every status, by its number.
    pub const ALL: [Status; 6] = [
        Status::Done,
        Status::Killed,
        Status::OtherExit,
        Status::OtherOutput,
        Status::Timeout,
        Status::NoMetric,
    ];

    /// The value of the finding.
    pub fn number(self) -> f64 {
        let number = Status::ALL.iter().position(|status| *status == self);
        number.unwrap_or(0) as f64
    }

    pub fn of_number(number: f64) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.number() == number)
    }

    /// The name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Status::Done => "ok",
            Status::Killed => "oom-killed",
            Status::OtherExit => "other-exit-code",
            Status::OtherOutput => "other-output",
            Status::Timeout => "timeout",
            Status::NoMetric => "no-metric",
        }
    }
}

/// The run of a program under one limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Limit of the cgroup.
    pub limit: u64,
    /// Less is better; none where the run has no cost.
    pub cost: Option<f64>,
    /// Cost over that of the base, less 1; infinite where it is not known. In a [`curve`], 0 of a run that never met its
    /// limit.
    pub slowdown: f64,
    pub status: Status,
    /// Whether the run met its limit, as far as the kernel says: otherwise the limit has not slowed it.
    pub limited: bool,
    /// Most memory that was charged to the cgroup.
    pub peak: u64,
}

/// The limits next to the knee.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bracket {
    /// The least limit that is tolerated, as all larger ones are.
    pub high: Point,
    /// The largest limit that is not tolerated; none if all are.
    pub low: Option<Point>,
    /// Largest slowdown that is tolerated.
    pub tolerate: f64,
}

impl Point {
    /// The point of a phase, from its findings.
    pub fn of(found: &BTreeMap<String, f64>) -> Option<Point> {
        let value = |name: &str| found.get(name).copied();
        Some(Point {
            limit: value(LIMIT)? as u64,
            cost: value(COST),
            slowdown: value(SLOWDOWN).unwrap_or(f64::INFINITY),
            status: Status::of_number(value(STATUS)?)?,
            limited: value(LIMIT_HITS) != Some(0.0),
            peak: value(PEAK).map_or(0, |peak| peak as u64),
        })
    }

    pub fn is_tolerated(&self, tolerate: f64) -> bool {
        self.status == Status::Done && self.slowdown <= tolerate
    }
}

/// The points with their slowdowns over the [`base_cost`]: 0 of a run that never met its limit.
pub fn compared(points: &[Point]) -> Vec<Point> {
    let base = base_cost(points);
    let mut all = points.to_vec();
    for point in &mut all {
        let over = base.zip(point.cost).and_then(|(base, cost)| ratio(cost, base));
        point.slowdown = match over {
            Some(_) if !point.limited => 0.0,
            Some(over) => over - 1.0,
            None => point.slowdown,
        };
    }
    all
}

/// The best point of each limit, the largest limit first, as [`compared`].
pub fn curve(points: &[Point]) -> Vec<Point> {
    let mut all = compared(points);
    all.sort_by(|a, b| {
        let rank = |point: &Point| (point.status.number(), point.slowdown);
        let ((status_a, slowdown_a), (status_b, slowdown_b)) = (rank(a), rank(b));
        let best = status_a
            .total_cmp(&status_b)
            .then(slowdown_a.total_cmp(&slowdown_b));
        b.limit.cmp(&a.limit).then(best)
    });
    all.dedup_by_key(|point| point.limit);
    all
}

/// The cost that others are compared with: the median of the runs that never met their limit, which are all alike; without
/// one, of those under the largest limit.
pub fn base_cost(points: &[Point]) -> Option<f64> {
    let largest = points.iter().map(|point| point.limit).max()?;
    let costs = |counts: &dyn Fn(&Point) -> bool| -> Vec<f64> {
        let done = points
            .iter()
            .filter(|point| point.status == Status::Done && counts(point));
        done.filter_map(|point| point.cost).collect()
    };
    let free = costs(&|point| !point.limited);
    match free.is_empty() {
        false => median(free),
        true => median(costs(&|point| point.limit == largest)),
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (
        values.get(values.len().checked_sub(1)? / 2)?,
        values.get(values.len() / 2)?,
    );
    Some((low + high) / 2.0)
}

/// The limits next to the knee, from a [`curve`]; none if even the largest limit is not tolerated.
pub fn bracket(curve: &[Point], tolerate: f64) -> Option<Bracket> {
    let below = curve.iter().position(|point| !point.is_tolerated(tolerate));
    let high = curve[..below.unwrap_or(curve.len())].last()?;
    Some(Bracket {
        high: *high,
        low: below.map(|below| curve[below]),
        tolerate,
    })
}

impl Bracket {
    /// Whether a limit below the largest one that is not tolerated is.
    pub fn is_tolerated_below(&self, curve: &[Point]) -> bool {
        let below = |point: &Point| self.low.is_some_and(|low| point.limit < low.limit);
        curve
            .iter()
            .any(|point| below(point) && point.is_tolerated(self.tolerate))
    }

    /// The limit at which the slowdown between the two points crosses the tolerance, in bytes. A run that did not end as
    /// the base did drew no line: then it is the least limit that is tolerated. None where all limits are tolerated.
    pub fn knee(&self) -> Option<f64> {
        let low = self.low?;
        let (from, to) = (self.high.limit as f64, low.limit as f64);
        if low.status != Status::Done || !low.slowdown.is_finite() {
            return Some(from);
        }
        let rise = low.slowdown - self.high.slowdown;
        let part = ratio(self.tolerate - self.high.slowdown, rise)?;
        Some(from + (to - from) * part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(limit: u64, cost: f64) -> Point {
        Point {
            limit,
            cost: Some(cost),
            slowdown: f64::NAN,
            status: Status::Done,
            limited: true,
            peak: limit,
        }
    }

    fn killed(limit: u64) -> Point {
        Point {
            cost: None,
            slowdown: f64::INFINITY,
            status: Status::Killed,
            ..point(limit, 0.0)
        }
    }

    #[test]
    fn every_status_has_a_number_and_a_name_of_its_own() {
        for status in Status::ALL {
            assert_eq!(Status::of_number(status.number()), Some(status));
            let same = |other: &&Status| other.name() == status.name();
            assert_eq!(Status::ALL.iter().filter(same).count(), 1);
        }
        assert_eq!(Status::of_number(99.0), None);
    }

    #[test]
    fn the_knee_is_where_the_line_crosses_the_tolerance() {
        let curve = curve(&[point(100, 10.0), point(80, 10.0), point(60, 14.0)]);
        let found = bracket(&curve, 0.2).unwrap();
        assert_eq!((found.high.limit, found.low.map(|low| low.limit)), (80, Some(60)));
        assert_eq!(found.knee(), Some(70.0));
    }

    #[test]
    fn below_a_killed_run_there_is_no_line() {
        let curve = curve(&[point(100, 10.0), point(80, 10.1), killed(60)]);
        assert_eq!(bracket(&curve, 0.05).unwrap().knee(), Some(80.0));
    }

    #[test]
    fn of_a_limit_measured_twice_the_better_run_counts() {
        let curve = curve(&[
            point(100, 10.0),
            point(80, 12.0),
            point(80, 10.2),
            killed(60),
            point(60, 11.0),
        ]);
        assert_eq!(
            curve.iter().map(|point| point.limit).collect::<Vec<_>>(),
            [100, 80, 60]
        );
        assert_eq!(curve[2].status, Status::Done);
        assert!((curve[1].slowdown - 0.02).abs() < 1e-9 && (curve[2].slowdown - 0.1).abs() < 1e-9);
    }

    /// Other programs had the CPUs: a run that never met its limit took a fifth longer than the base.
    #[test]
    fn a_run_that_never_met_its_limit_was_not_slowed_by_it() {
        let free = |limit, cost| Point {
            limited: false,
            ..point(limit, cost)
        };
        let points = [
            free(100, 10.0),
            free(100, 10.2),
            free(90, 12.0),
            point(80, 10.3),
            point(60, 14.0),
        ];
        assert_eq!(base_cost(&points), Some(10.2));
        let curve = curve(&points);
        let found = bracket(&curve, 0.05).unwrap();
        assert_eq!((found.high.limit, found.low.map(|low| low.limit)), (80, Some(60)));
        assert_eq!((curve[0].slowdown, curve[1].slowdown), (0.0, 0.0));
    }

    #[test]
    fn a_program_that_needs_less_than_every_limit_has_no_knee() {
        let found = bracket(&curve(&[point(100, 10.0), point(50, 10.0)]), 0.05).unwrap();
        assert_eq!((found.low, found.knee()), (None, None));
        assert_eq!(bracket(&[killed(100)], 0.05), None);
        assert_eq!(bracket(&[], 0.05), None);
    }
}
