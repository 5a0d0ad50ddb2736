//! The loop of a level of memory: look, one step of the worker, rest.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::controller::{Controller, Goal, Step};
use super::error::HoldError;
use super::gauge::{Gauge, Look, Scope};
use super::held::{self, Request};
use super::level::Level;
use super::options::{Options, Status};
use super::summary::{Ending, Summary};
use super::tick::{PERIOD, Ticks};
use crate::environment::{Trip, Tripwire};
use crate::workload::protocol::Reply;
use crate::workload::{Worker, WorkerError, WorkerOptions};
use plimsoll_model::recording::hold::HoldSettings;
use plimsoll_model::scenario::Amount;
use plimsoll_proc::Tree;

/// Longest wait for an answer of the worker. A step takes 64 MiB at most; memory that is reclaimed while it is
/// filled takes longer.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Seed of the data; their class alone matters here.
const SEED: u64 = 1;
/// Share of the bytes that a level leaves by which the start may lack them.
pub(super) const LACK_DIVISOR: u64 = 50;

/// The worker of a level of memory, and the loop's state.
pub(super) struct Holder {
    pub(super) worker: Worker,
    pub(super) settings: HoldSettings,
    gauge: Gauge,
    controller: Controller,
    tripwire: Tripwire,
    held: u64,
    touch_every: Option<Duration>,
    duration: Option<Duration>,
    /// Bytes to touch that no tick has touched yet.
    untouched: u64,
}

/// Checks that the level can be held now, before anything is taken.
pub(super) fn check(level: Level, gauge: &Gauge) -> Result<Goal, HoldError> {
    let goal = goal(level, gauge)?;
    let look = gauge.look()?;
    if let Goal::Available(left) = goal
        && look.reading.available < left - left / LACK_DIVISOR
    {
        return Err(HoldError::AlreadyUsed {
            available: look.reading.available,
            goal: left,
        });
    }
    let needed = Controller::new(goal, Duration::ZERO).wanted(look.reading, 0, Duration::ZERO);
    match gauge.room()? {
        Some(room) if needed > room.bytes => Err(HoldError::Confined {
            needed,
            room: room.bytes,
            path: room.path,
        }),
        _ => Ok(goal),
    }
}

impl Holder {
    /// Starts the worker, where `spawn` starts one.
    pub(super) fn start(
        options: &Options,
        spawn: impl FnOnce(&WorkerOptions) -> Result<Worker, HoldError>,
    ) -> Result<Holder, HoldError> {
        let gauge = Gauge::new(options.scope.clone(), Tree::live(), options.reserve)?;
        let goal = check(options.level, &gauge)?;
        let cgroup = match &options.scope {
            Scope::Machine => None,
            Scope::Cgroup(cgroup) => Some(cgroup.clone()),
        };
        let mut worker = spawn(&WorkerOptions {
            cgroup,
            ..WorkerOptions::default()
        })?;
        let most = match goal {
            Goal::Held { bytes, leak: 0 } => bytes,
            _ => gauge.look()?.machine_available,
        };
        let begin = Request::Begin {
            class: options.class.clone(),
            seed: SEED,
            most,
        };
        ask(&mut worker, &begin, 0, &AtomicBool::new(false))?;
        Ok(Holder {
            worker,
            settings: options.settings(goal.into(), gauge.total(), gauge.reserve()),
            tripwire: Tripwire::with_reserve(gauge.reserve()),
            gauge,
            controller: Controller::new(goal, options.ramp),
            held: 0,
            touch_every: options.touch_every,
            duration: options.duration,
            untouched: 0,
        })
    }

    /// Holds the level until `stop` or the end of its duration, and shows `each` state. The memory stays with the worker.
    pub(super) fn run(
        &mut self,
        stop: &AtomicBool,
        each: &mut dyn FnMut(&Status, &Summary),
    ) -> Result<(Summary, Ending), HoldError> {
        let mut summary = Summary::of(self.settings.clone());
        let start = Instant::now();
        let mut ticks = Ticks::since(start);
        let ending = loop {
            let elapsed = start.elapsed();
            if stop.load(Ordering::Acquire) {
                break Ending::Stopped;
            }
            if self.duration.is_some_and(|duration| elapsed >= duration) {
                break Ending::Elapsed;
            }
            let look = self.gauge.look()?;
            if let Some(trip) = self.trip(look, elapsed) {
                break Ending::Reserve(trip);
            }
            if !self.tick(look, elapsed, stop)? {
                break Ending::Reserve(Trip::Reserve {
                    available: look.machine_available,
                    reserve: self.gauge.reserve(),
                });
            }
            // The step may fill memory for long.
            let status = self.status(look, elapsed, start.elapsed());
            summary.add(&status, &self.worker);
            each(&status, &summary);
            ticks.rest(stop);
        };
        summary.end(&self.worker, start.elapsed());
        Ok((summary, ending))
    }

    fn trip(&mut self, look: Look, elapsed: Duration) -> Option<Trip> {
        let trip = self
            .tripwire
            .check(elapsed, look.machine_available, look.stalled_us);
        trip.filter(|_| self.held > 0)
    }

    /// One step, and the part of the pages that is to be touched. False where the reserve forbids the step.
    fn tick(&mut self, look: Look, elapsed: Duration, stop: &AtomicBool) -> Result<bool, HoldError> {
        // An amount that is held needs no step.
        self.worker
            .check()
            .map_err(|error| held_error(error, self.held))?;
        let request = match self.controller.step(look.reading, self.held, elapsed) {
            Step::Keep => None,
            Step::Take(bytes) => Some(Request::Take { bytes }),
            Step::Give(bytes) => Some(Request::Give { bytes }),
            Step::Full => return Ok(false),
        };
        if let Some(request) = request {
            self.held = ask(&mut self.worker, &request, self.held, stop)?;
        }
        if let Some(every) = self.touch_every {
            let share = PERIOD.as_secs_f64() / every.as_secs_f64().max(PERIOD.as_secs_f64());
            self.untouched += (self.held as f64 * share) as u64;
            let bytes = std::mem::take(&mut self.untouched).min(self.held);
            if bytes > 0 {
                ask(&mut self.worker, &Request::Touch { bytes }, self.held, stop)?;
            }
        }
        Ok(true)
    }

    /// The state at `now`, after a step to the goal at `goal_at`.
    fn status(&self, look: Look, goal_at: Duration, now: Duration) -> Status {
        Status {
            elapsed: now,
            held: self.held,
            available: look.reading.available,
            goal: Some(self.controller.goal_now(look.reading, self.held, goal_at)),
            total: self.gauge.total(),
            stalled_percent: None,
        }
    }
}

/// Starts a worker of this program.
pub(super) fn spawn(options: &WorkerOptions) -> Result<Worker, HoldError> {
    let executable = std::env::current_exe().map_err(HoldError::Executable)?;
    Worker::spawn(&executable, options).map_err(|error| match error {
        WorkerError::Cgroup { path, source } => HoldError::Enter { path, source },
        error => HoldError::Worker(error),
    })
}

/// The level in bytes, checked against the scope and the machine's reserve.
fn goal(level: Level, gauge: &Gauge) -> Result<Goal, HoldError> {
    let no_limit = || HoldError::NoLimit {
        path: match gauge.scope() {
            Scope::Machine => "/".into(),
            Scope::Cgroup(cgroup) => cgroup.path().to_owned(),
        },
    };
    let fits = |asked: u64, total: u64| match asked > total {
        true => Err(HoldError::TooMuch { asked, total }),
        false => Ok(asked),
    };
    match level {
        Level::Used(amount) => {
            let total = gauge.total().ok_or_else(no_limit)?;
            spared(total - fits(amount.of(total), total)?, gauge)
        }
        Level::Available(amount) => {
            let total = gauge.total().ok_or_else(no_limit)?;
            spared(fits(amount.of(total), total)?, gauge)
        }
        Level::Held { bytes, leak } => {
            let total = match (bytes, gauge.total()) {
                (_, Some(total)) => total,
                (Amount::Bytes(_), None) => u64::MAX,
                (Amount::Share(_), None) => return Err(no_limit()),
            };
            let bytes = fits(bytes.of(total), total)?;
            let available = gauge.look()?.machine_available;
            let (left, reserve) = (available.saturating_sub(bytes), gauge.reserve());
            match left < reserve {
                true => Err(HoldError::Reserve { left, reserve }),
                false => Ok(Goal::Held { bytes, leak }),
            }
        }
        // It holds no memory.
        Level::Pressure(_) => Ok(Goal::Held { bytes: 0, leak: 0 }),
    }
}

/// A level that leaves `left` bytes. On the machine, that is at least the reserve; a cgroup may be filled.
fn spared(left: u64, gauge: &Gauge) -> Result<Goal, HoldError> {
    let reserve = gauge.reserve();
    match gauge.scope() {
        Scope::Machine if left < reserve => Err(HoldError::Reserve { left, reserve }),
        _ => Ok(Goal::Available(left)),
    }
}

/// Asks the worker; returns the bytes that it holds then.
fn ask(worker: &mut Worker, request: &Request, held: u64, stop: &AtomicBool) -> Result<u64, HoldError> {
    match worker.call(&request.command(), PATIENCE, stop) {
        Ok(Reply::Found { findings, .. }) => {
            Ok(findings.values.get(held::HELD_BYTES).copied().unwrap_or(0.0) as u64)
        }
        Ok(other) => Err(HoldError::Reply(other)),
        // The loop sees the stop next, and ends.
        Err(WorkerError::Interrupted) => Ok(held),
        Err(error) => Err(held_error(error, held)),
    }
}

/// The error of a worker that holds so many bytes.
pub(super) fn held_error(error: WorkerError, held: u64) -> HoldError {
    match error {
        source @ WorkerError::Died { signal: Some(_), .. } => HoldError::Killed { held, source },
        error => HoldError::Worker(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker that panicked was reported as a victim of the OOM killer.
    #[test]
    fn a_worker_that_no_signal_ended_has_failed() {
        let died = |status, signal| held_error(WorkerError::Died { status, signal }, 7);
        assert!(matches!(died(None, Some(9)), HoldError::Killed { held: 7, .. }));
        assert!(matches!(died(Some(101), None), HoldError::Worker(_)));
    }
}
