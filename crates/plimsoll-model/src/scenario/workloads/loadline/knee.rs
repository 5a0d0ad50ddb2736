//! The knee of useful work over the load.
//!
//! Useful work is visits a second, without the time that the worker waited for a CPU that others used. The *knee* is
//! the load at which it falls under half of its value at the lowest load.

use std::collections::BTreeMap;

use super::finding::{KILLED, LOAD, RAM_LOAD, VISITS};
use crate::quantity::ratio;

/// Share of the unloaded work from which on a load counts as carried.
pub const CARRIED: f64 = 0.5;
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
}

/// The loads next to the knee.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bracket {
    /// The last that is carried.
    pub low: Point,
    /// The first load that is not carried; none if the largest one is.
    pub high: Option<Point>,
    /// Useful work at the lowest load.
    pub base: f64,
}

impl Point {
    /// The point of a phase, from its findings.
    pub fn of(found: &BTreeMap<String, f64>) -> Option<Point> {
        let figure = |name: &str| found.get(name).copied();
        let load = figure(LOAD)?;
        Some(Point {
            load,
            visits_per_s: figure(VISITS)?,
            ram_load: figure(RAM_LOAD).unwrap_or(load),
            killed: figure(KILLED).is_some_and(|killed| killed > 0.0),
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

/// The loads next to the knee, from points by load; none if even the lowest load is not carried.
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
    pub fn is_carried_beyond(&self, points: &[Point]) -> bool {
        let beyond = |point: &Point| self.high.is_some_and(|high| point.load > high.load);
        points
            .iter()
            .any(|point| beyond(point) && point.visits_per_s >= CARRIED * self.base)
    }

    /// The knee by an axis: where the line between the two points crosses the share. A worker that was killed drew no
    /// line: then it is the last load that was carried.
    pub fn knee(&self, axis: impl Fn(&Point) -> f64) -> Option<f64> {
        let high = self.high?;
        let (from, to) = (axis(&self.low), axis(&high));
        if high.killed {
            return Some(from);
        }
        let fall = self.low.visits_per_s - high.visits_per_s;
        let part = ratio(self.low.visits_per_s - CARRIED * self.base, fall)?;
        Some(from + (to - from) * part)
    }

    pub fn load(&self) -> Option<f64> {
        self.knee(|point| point.load)
    }
}
