//! The result of a hold, in constant memory however long it lasts.

use std::time::Duration;

use plimsoll_os::{UsageScope, resource_usage};
use serde::Serialize;

use super::controller::{Controller, Goal, Reading};
use super::level::Pressure;
use super::options::Status;
use crate::environment::Trip;
use crate::workload::Worker;
use plimsoll_model::quantity::ratio;

/// Share of the level by which it may be off and still counts as held.
pub const TOLERANCE: f64 = 0.02;
/// Points by which a pressure may be off and still counts as held; of one below 10% half of it.
pub const TOLERANCE_POINTS: f64 = 5.0;

/// Why a hold ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// Its duration was over.
    Elapsed,
    /// The caller stopped it.
    Stopped,
    /// The machine's reserve was reached.
    Reserve(Trip),
}

/// The goal of a hold, in bytes or in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    Memory(Goal),
    Pressure(Pressure),
}

/// Least, mean and most of the looks at a level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Spread<T> {
    pub least: T,
    pub mean: f64,
    pub most: T,
    #[serde(skip)]
    count: u64,
}

impl<T: Copy + PartialOrd> Spread<T> {
    fn add(&mut self, value: T, number: f64) {
        if self.count == 0 || value < self.least {
            self.least = value;
        }
        if self.count == 0 || value > self.most {
            self.most = value;
        }
        self.count += 1;
        self.mean += (number - self.mean) / self.count as f64;
    }
}

/// The course of a hold.
#[derive(Debug, Clone)]
pub struct Summary {
    pub target: Target,
    pub seconds: f64,
    /// Seconds until the level was first within its tolerance.
    pub reached_s: Option<f64>,
    /// Bytes held from then on.
    pub held: Spread<u64>,
    /// Distance in bytes from the level from then on.
    pub off: Spread<u64>,
    /// Percent of time that was a stall, from then on, of a pressure.
    pub stalled: Spread<f64>,
    /// Looks from then on, and those at which the level was within the tolerance.
    looks: u64,
    within: u64,
    cpu_before_s: f64,
    /// CPU time from then on, of the calling thread and of the worker, in percent of one CPU.
    pub cpu_percent: Option<f64>,
}

impl Summary {
    pub(super) fn new(goal: Goal) -> Summary {
        Summary::of(Target::Memory(goal))
    }

    pub(super) fn of(target: Target) -> Summary {
        Summary {
            target,
            seconds: 0.0,
            reached_s: None,
            held: Spread::default(),
            off: Spread::default(),
            stalled: Spread::default(),
            looks: 0,
            within: 0,
            cpu_before_s: 0.0,
            cpu_percent: None,
        }
    }

    pub(super) fn add(
        &mut self,
        controller: &Controller,
        reading: Reading,
        status: &Status,
        worker: &Worker,
    ) {
        let (level, goal) = match controller.goal() {
            Goal::Available(goal) => (reading.available, goal),
            Goal::Held { .. } => (
                status.held,
                controller.wanted(reading, status.held, status.elapsed),
            ),
        };
        let off = level.abs_diff(goal);
        if self.count(off as f64 <= goal as f64 * TOLERANCE, status.elapsed, worker) {
            self.held.add(status.held, status.held as f64);
            self.off.add(off, off as f64);
        }
    }

    pub(super) fn add_pressure(
        &mut self,
        goal: f64,
        stalled_percent: f64,
        elapsed: Duration,
        worker: &Worker,
    ) {
        let tolerance = TOLERANCE_POINTS.min(goal / 2.0);
        if self.count((stalled_percent - goal).abs() <= tolerance, elapsed, worker) {
            self.stalled.add(stalled_percent, stalled_percent);
        }
    }

    /// Counts a look; false until the level is first reached.
    fn count(&mut self, is_within: bool, elapsed: Duration, worker: &Worker) -> bool {
        if self.reached_s.is_none() {
            if !is_within {
                return false;
            }
            self.reached_s = Some(elapsed.as_secs_f64());
            self.cpu_before_s = cpu_s(worker);
        }
        self.looks += 1;
        self.within += u64::from(is_within);
        true
    }

    pub(super) fn end(&mut self, worker: &Worker, elapsed: Duration) {
        self.seconds = elapsed.as_secs_f64();
        let held_s = self.reached_s.map(|reached_s| self.seconds - reached_s);
        self.cpu_percent =
            held_s.and_then(|seconds| ratio(100.0 * (cpu_s(worker) - self.cpu_before_s), seconds));
    }

    /// Share of the looks since the level was first reached at which it was within the tolerance.
    pub fn within(&self) -> Option<f64> {
        ratio(self.within as f64, self.looks as f64)
    }
}

/// CPU seconds of this thread and of the worker so far.
fn cpu_s(worker: &Worker) -> f64 {
    let own = resource_usage(UsageScope::Thread);
    let worker = worker.usage().unwrap_or_default();
    (own.user_us + own.system_us) as f64 / 1e6 + worker.cpu_user_s + worker.cpu_system_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_least_mean_and_most() {
        let mut spread = Spread::default();
        for value in [5_u64, 1, 9, 5] {
            spread.add(value, value as f64);
        }
        assert_eq!((spread.least, spread.most), (1, 9));
        assert!((spread.mean - 5.0).abs() < 1e-9);
    }
}
