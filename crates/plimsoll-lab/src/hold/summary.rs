//! The result of a hold, in constant memory however long it lasts.

use std::time::Duration;

use plimsoll_os::{UsageScope, resource_usage};

use super::options::Status;
use crate::environment::Trip;
use crate::workload::Worker;
use plimsoll_model::quantity::ratio;
use plimsoll_model::recording::hold::{HOLD_SCHEMA, HeldLevel, HoldEnd, HoldGoal, HoldSettings, Spread};

/// Why a hold ended without an error.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    Elapsed,
    /// The caller stopped it.
    Stopped,
    /// The machine's reserve was reached.
    Reserve(Trip),
}

impl From<&Ending> for HoldEnd {
    fn from(ending: &Ending) -> HoldEnd {
        match ending {
            Ending::Elapsed => HoldEnd::Duration,
            Ending::Stopped => HoldEnd::Signal,
            Ending::Reserve(_) => HoldEnd::Reserve,
        }
    }
}

/// The course of a hold.
#[derive(Debug, Clone)]
pub struct Summary {
    pub settings: HoldSettings,
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
    pub(super) fn of(settings: HoldSettings) -> Summary {
        Summary {
            settings,
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

    pub(super) fn add(&mut self, status: &Status, worker: &Worker) {
        let goal = self.settings.goal;
        if let (Some(percent), Some(stalled)) = (goal.percent(), status.stalled_percent) {
            if self.count(goal.is_within(stalled, percent), status.elapsed, worker) {
                self.stalled.add(stalled, stalled);
            }
            return;
        }
        let level = match goal {
            HoldGoal::AvailableBytes(_) => status.available,
            _ => status.held,
        };
        let wanted = status.goal.unwrap_or(level);
        if self.count(
            goal.is_within(level as f64, wanted as f64),
            status.elapsed,
            worker,
        ) {
            let off = level.abs_diff(wanted);
            self.held.add(status.held, status.held as f64);
            self.off.add(off, off as f64);
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

    /// The document of a hold that ended so.
    pub fn document(&self, ended: HoldEnd) -> HeldLevel {
        let of_pressure = self.settings.goal.percent().is_some();
        HeldLevel {
            schema: HOLD_SCHEMA,
            ended: Some(ended),
            seconds: self.seconds,
            settings: self.settings.clone(),
            reached_s: self.reached_s,
            within: self.within(),
            held_bytes: self.held.known(),
            off_bytes: self.off.known(),
            stalled_percent: self.stalled.known().filter(|_| of_pressure),
            cpu_percent: self.cpu_percent,
        }
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
