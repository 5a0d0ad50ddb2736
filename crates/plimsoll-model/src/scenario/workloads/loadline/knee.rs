//! The load line, and the largest load that meets a target.
//!
//! Useful work is visits a second, without the time that the worker waited for a CPU that others used. The *knee*,
//! the load line, is the load at which it falls under a share, by default half, of its value at the lowest load; where
//! visits are due at a rate, of that rate.

use std::collections::BTreeMap;

use super::finding::{KILLED, LOAD, OFFERED, P99, RAM_LOAD, VISITS};
use crate::quantity::ratio;

/// Share of the unloaded work from which on a load counts as carried, where the scenario does not say.
pub const CARRIED: f64 = 0.5;
/// The same share of the visits that are due at a rate.
pub const SERVED: f64 = 0.95;

/// The condition under which a load is carried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Criterion {
    /// Useful work is at least this share of the base.
    Work(f64),
    /// 99 of 100 visits take at most so many seconds.
    P99(f64),
}

impl Criterion {
    fn is_met(self, point: &Point, base: f64) -> bool {
        match self {
            Criterion::Work(share) => point.visits_per_s >= share * base,
            Criterion::P99(target) => !point.killed && point.p99_s.is_some_and(|p99| p99 <= target),
        }
    }
}

/// The measurement at one load.
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
    /// Latency that 99 of 100 visits do not exceed; none where the worker was killed.
    pub p99_s: Option<f64>,
    /// Visits that were due a second; none without a rate.
    pub offered_per_s: Option<f64>,
}

/// The loads next to the knee.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bracket {
    /// The last that is carried.
    pub low: Point,
    /// The first load that is not carried; none if the largest one is.
    pub high: Option<Point>,
    /// Useful work that others are a share of: that at the lowest load, or all that was due.
    pub base: f64,
    pub criterion: Criterion,
}

impl Point {
    /// The point of a phase, from its findings.
    pub fn of(found: &BTreeMap<String, f64>) -> Option<Point> {
        let value = |name: &str| found.get(name).copied();
        let load = value(LOAD)?;
        Some(Point {
            load,
            visits_per_s: value(VISITS)?,
            ram_load: value(RAM_LOAD).unwrap_or(load),
            killed: value(KILLED).is_some_and(|killed| killed > 0.0),
            p99_s: value(P99),
            offered_per_s: value(OFFERED),
        })
    }
}

/// The points by load; of a load measured twice, the one with more useful work.
pub fn better<T>(mut all: Vec<T>, point: impl Fn(&T) -> Point) -> Vec<T> {
    all.sort_by(|a, b| {
        let (a, b) = (point(a), point(b));
        let by_work = b.visits_per_s.total_cmp(&a.visits_per_s);
        a.load.total_cmp(&b.load).then(by_work)
    });
    all.dedup_by_key(|one| point(one).load);
    all
}

/// Useful work that others are a share of, from points by load; none where the lowest load has none.
pub fn base(points: &[Point]) -> Option<f64> {
    let lowest = points.first()?;
    let base = lowest.offered_per_s.unwrap_or(lowest.visits_per_s);
    (base > 0.0).then_some(base)
}

/// The loads next to the knee, from points by load; none if even the lowest load is not carried.
pub fn bracket(points: &[Point], criterion: Criterion) -> Option<Bracket> {
    let base = base(points)?;
    let above = points.iter().position(|point| !criterion.is_met(point, base));
    let low = points[..above.unwrap_or(points.len())].last()?;
    Some(Bracket {
        low: *low,
        high: above.map(|above| points[above]),
        base,
        criterion,
    })
}

impl Bracket {
    /// Whether a load beyond the first that is not carried is.
    pub fn is_carried_beyond(&self, points: &[Point]) -> bool {
        let beyond = |point: &Point| self.high.is_some_and(|high| point.load > high.load);
        points
            .iter()
            .any(|point| beyond(point) && self.criterion.is_met(point, self.base))
    }

    /// The knee by an axis: where the line between the two points crosses the share. A worker that was killed drew no
    /// line, and neither do percentiles, which jump: then it is the last load that was carried.
    pub fn knee(&self, axis: impl Fn(&Point) -> f64) -> Option<f64> {
        let high = self.high?;
        let (from, to) = (axis(&self.low), axis(&high));
        let share = match self.criterion {
            Criterion::Work(share) if !high.killed => share,
            Criterion::Work(_) | Criterion::P99(_) => return Some(from),
        };
        let fall = self.low.visits_per_s - high.visits_per_s;
        let part = ratio(self.low.visits_per_s - share * self.base, fall)?;
        Some(from + (to - from) * part)
    }

    pub fn load(&self) -> Option<f64> {
        self.knee(|point| point.load)
    }
}
