//! The result of a hold, in constant memory however long it lasts.

use std::time::Duration;

use plimsoll_os::{UsageScope, resource_usage};
use serde::Serialize;

use super::Status;
use super::controller::{Controller, Goal, Reading};
use crate::environment::Trip;
use crate::workload::Worker;
use plimsoll_model::quantity::ratio;
use plimsoll_sample::stop::Cause;

/// Share of the level by which it may be off and still counts as held.
pub const TOLERANCE: f64 = 0.02;

/// Why a hold ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// Its duration was over.
    Elapsed,
    /// A signal or another stop.
    Stopped(Cause),
    /// The machine's reserve was reached.
    Reserve(Trip),
}

/// Least, mean and most of the looks at a level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Spread {
    pub least: u64,
    pub mean: f64,
    pub most: u64,
    #[serde(skip)]
    count: u64,
}

impl Spread {
    fn add(&mut self, value: u64) {
        self.least = if self.count == 0 { value } else { self.least.min(value) };
        self.most = self.most.max(value);
        self.count += 1;
        self.mean += (value as f64 - self.mean) / self.count as f64;
    }
}

/// The course of a hold.
#[derive(Debug, Clone)]
pub struct Summary {
    pub goal: Goal,
    pub seconds: f64,
    /// Seconds until the level was first within [`TOLERANCE`].
    pub reached_s: Option<f64>,
    /// Bytes held from then on.
    pub held: Spread,
    /// Distance from the level from then on.
    pub off: Spread,
    /// Looks from then on at which the level was within the tolerance.
    within: u64,
    cpu_before_s: f64,
    /// CPU time from then on, of this process and of the worker, in percent of one CPU.
    pub cpu_percent: Option<f64>,
}

impl Summary {
    pub(super) fn new(goal: Goal) -> Summary {
        Summary {
            goal,
            seconds: 0.0,
            reached_s: None,
            held: Spread::default(),
            off: Spread::default(),
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
        let (level, goal) = match self.goal {
            Goal::Available(goal) => (reading.available, goal),
            Goal::Held { .. } => (
                status.held,
                controller.wanted(reading, status.held, status.elapsed),
            ),
        };
        let off = level.abs_diff(goal);
        let is_within = off as f64 <= goal as f64 * TOLERANCE;
        if self.reached_s.is_none() {
            if !is_within {
                return;
            }
            self.reached_s = Some(status.elapsed.as_secs_f64());
            self.cpu_before_s = cpu_s(worker);
        }
        self.held.add(status.held);
        self.off.add(off);
        self.within += u64::from(is_within);
    }

    pub(super) fn end(&mut self, worker: &Worker, elapsed: Duration) {
        self.seconds = elapsed.as_secs_f64();
        let held_s = self.reached_s.map(|reached_s| self.seconds - reached_s);
        self.cpu_percent =
            held_s.and_then(|seconds| ratio(100.0 * (cpu_s(worker) - self.cpu_before_s), seconds));
    }

    /// Share of the looks since the level was first reached at which it was within the tolerance.
    pub fn within(&self) -> Option<f64> {
        ratio(self.within as f64, self.off.count as f64)
    }
}

/// CPU seconds of this process and of the worker so far.
fn cpu_s(worker: &Worker) -> f64 {
    let own = resource_usage(UsageScope::Process);
    let worker = worker.usage().unwrap_or_default();
    (own.user_us + own.system_us) as f64 / 1e6 + worker.cpu_user_s + worker.cpu_system_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_least_mean_and_most() {
        let mut spread = Spread::default();
        for value in [5, 1, 9, 5] {
            spread.add(value);
        }
        assert_eq!((spread.least, spread.most), (1, 9));
        assert!((spread.mean - 5.0).abs() < 1e-9);
    }
}
