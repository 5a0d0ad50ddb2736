//! A level of memory, held in a closed loop while other programs come and go: `plimsoll hold`.
//!
//! A worker holds the memory and is the first victim of the OOM killer; this process reads the level ten times a
//! second, and has the worker take more or give back. The end of either process frees the memory: there is nothing to
//! undo.

mod controller;
mod gauge;
mod held;
mod summary;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::environment::Tripwire;
use crate::workload::protocol::Reply;
use crate::workload::{Work, Worker, WorkerError, WorkerOptions};
use gauge::{Gauge, Look};
use held::Request;
use plimsoll_model::quantity::bytes;
use plimsoll_model::scenario::FillClass;
use plimsoll_proc::Tree;
use plimsoll_proc::ControlError;
use plimsoll_sample::stop::Stop;

pub use controller::{Controller, Goal, Reading, Step};
pub use gauge::Scope;
pub use summary::{Ending, Spread, Summary, TOLERANCE};

/// Time between two looks at the level.
const PERIOD: Duration = Duration::from_millis(100);
/// Longest wait for an answer of the worker. A step takes 64 MiB at most; memory that is reclaimed while it is
/// filled takes longer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Seed of the data; their class alone matters here.
const SEED: u64 = 1;

/// A level as it is asked for; shares are of the scope's total.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Level {
    /// This much is in use, by all programs together.
    Used(Amount),
    /// This much stays available to others.
    Available(Amount),
    /// This much is held, whatever others use; each second `leak` bytes more.
    Held { bytes: Amount, leak: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    Bytes(u64),
    /// 0 to 1.
    Share(f64),
}

#[derive(Debug, Clone)]
pub struct Options {
    pub level: Level,
    pub scope: Scope,
    /// Time over which the level is approached.
    pub ramp: Duration,
    /// Time after which the memory is released; until a signal without one.
    pub duration: Option<Duration>,
    pub class: FillClass,
    /// Time in which each page is read once.
    pub touch_every: Option<Duration>,
}

/// Why a level cannot be held.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HoldError {
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Cgroup(#[from] ControlError),
    #[error("cannot hold a share of a cgroup without a limit: {}; set its limit or name the level in bytes", path.display())]
    NoLimit { path: PathBuf },
    /// The level would leave others less than the reserve.
    #[error(
        "cannot hold this level: it leaves {} available, and {} stay reserved for the rest of the machine; leave at least \
         that much",
        bytes(*left as f64), bytes(*reserve as f64)
    )]
    Reserve { left: u64, reserve: u64 },
    /// The level is outside of the scope.
    #[error("cannot hold {} of {}: ask for less", bytes(*asked as f64), bytes(*total as f64))]
    TooMuch { asked: u64, total: u64 },
    /// The OOM killer, or a person, ended the worker.
    #[error("the worker that held {} was killed: {source}", bytes(*held as f64))]
    Killed { held: u64, source: WorkerError },
    #[error(transparent)]
    Worker(WorkerError),
    #[error("unexpected reply {0:?}")]
    Reply(Reply),
    #[error("cannot find the path of this program: {0}")]
    Executable(#[source] io::Error),
}

/// The state after a look at the level.
#[derive(Debug, Clone, Copy)]
pub struct Status {
    pub elapsed: Duration,
    pub held: u64,
    /// Bytes that others can still take in the scope.
    pub available: u64,
    /// Bytes that a share is a share of.
    pub total: Option<u64>,
}

/// The worker's side.
pub(crate) fn work(name: &str) -> Option<Box<dyn Work>> {
    (name == held::NAME).then(|| Box::<held::Holding>::default() as Box<dyn Work>)
}

/// Holds a level until a stop or the end of its duration, and shows `each` state.
///
/// # Errors
/// [`HoldError`]: the level cannot be read, cannot be had, or its worker was killed.
pub fn hold(options: &Options, stop: &Stop, each: &mut dyn FnMut(&Status)) -> Result<(Summary, Ending), HoldError> {
    let gauge = Gauge::new(options.scope.clone(), Tree::live())?;
    let goal = goal(options.level, &gauge)?;
    let executable = std::env::current_exe().map_err(HoldError::Executable)?;
    let mut holder = Holder::start(&executable, options, gauge, goal)?;
    let mut summary = Summary::new(goal);
    let ending = loop {
        if let Some(cause) = stop.cause() {
            break Ending::Stopped(cause);
        }
        let elapsed = holder.start.elapsed();
        if options.duration.is_some_and(|duration| elapsed >= duration) {
            break Ending::Elapsed;
        }
        let look = holder.gauge.look()?;
        if holder.held > 0
            && let Some(trip) = holder
                .tripwire
                .check(elapsed, look.machine_available, look.stalled_us)
        {
            break Ending::Reserve(trip);
        }
        holder.tick(look, elapsed, stop)?;
        let status = holder.status(look, elapsed);
        summary.add(&holder.controller, look.reading, &status, &holder.worker);
        each(&status);
        holder.rest(stop);
    };
    summary.end(&holder.worker, holder.start.elapsed());
    Ok((summary, ending))
}

/// The level in bytes, checked against the scope and the machine's reserve.
fn goal(level: Level, gauge: &Gauge) -> Result<Goal, HoldError> {
    let total = |amount: Amount| match (amount, gauge.total()) {
        (Amount::Bytes(bytes), total) => Ok((bytes, total)),
        (Amount::Share(share), Some(total)) => Ok(((total as f64 * share) as u64, Some(total))),
        (Amount::Share(_), None) => Err(no_limit(gauge)),
    };
    let fits = |asked: u64, total: Option<u64>| match total {
        Some(total) if asked > total => Err(HoldError::TooMuch { asked, total }),
        _ => Ok(asked),
    };
    match level {
        Level::Used(amount) => {
            let (asked, total) = total(amount)?;
            let used = fits(asked, total)?;
            spared(total.ok_or_else(|| no_limit(gauge))? - used, gauge)
        }
        Level::Available(amount) => {
            let (asked, total) = total(amount)?;
            spared(fits(asked, Some(total.ok_or_else(|| no_limit(gauge))?))?, gauge)
        }
        Level::Held { bytes, leak } => {
            let (asked, total) = total(bytes)?;
            let bytes = fits(asked, total)?;
            let look = gauge.look()?;
            let (left, reserve) = (look.machine_available.saturating_sub(bytes), gauge.reserve());
            match left < reserve {
                true => Err(HoldError::Reserve { left, reserve }),
                false => Ok(Goal::Held { bytes, leak }),
            }
        }
    }
}

fn no_limit(gauge: &Gauge) -> HoldError {
    HoldError::NoLimit {
        path: match gauge.scope() {
            Scope::Machine => PathBuf::from("/"),
            Scope::Cgroup(cgroup) => cgroup.path().to_owned(),
        },
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

/// The loop's state.
struct Holder {
    worker: Worker,
    gauge: Gauge,
    controller: Controller,
    tripwire: Tripwire,
    held: u64,
    start: Instant,
    ticks: u32,
    touch_every: Option<Duration>,
    /// Bytes to touch that no tick has touched yet.
    untouched: u64,
}

impl Holder {
    fn start(
        executable: &Path,
        options: &Options,
        gauge: Gauge,
        goal: Goal,
    ) -> Result<Holder, HoldError> {
        let cgroup_procs = match &options.scope {
            Scope::Machine => Vec::new(),
            Scope::Cgroup(cgroup) => vec![cgroup.file(plimsoll_proc::cgroup::PROCESSES)],
        };
        let mut worker = Worker::spawn(
            executable,
            &WorkerOptions {
                cgroup_procs,
                ..WorkerOptions::default()
            },
        )
        .map_err(HoldError::Worker)?;
        let look = gauge.look()?;
        let begin = Request::Begin {
            class: options.class.clone(),
            seed: SEED,
            most: look.machine_available,
        };
        ask(&mut worker, &begin, 0, &Stop::default())?;
        let ram = Gauge::new(Scope::Machine, Tree::live())?.total().unwrap_or(0);
        Ok(Holder {
            worker,
            gauge,
            controller: Controller::new(goal, options.ramp),
            tripwire: Tripwire::new(ram),
            held: 0,
            start: Instant::now(),
            ticks: 0,
            touch_every: options.touch_every,
            untouched: 0,
        })
    }

    /// One step, and the part of the pages that is to be touched.
    fn tick(&mut self, look: Look, elapsed: Duration, stop: &Stop) -> Result<(), HoldError> {
        let request = match self.controller.step(look.reading, self.held, elapsed) {
            Step::Keep => None,
            Step::Take(bytes) => Some(Request::Take { bytes }),
            Step::Give(bytes) => Some(Request::Give { bytes }),
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
        Ok(())
    }

    fn status(&self, look: Look, elapsed: Duration) -> Status {
        Status {
            elapsed,
            held: self.held,
            available: look.reading.available,
            total: self.gauge.total(),
        }
    }

    /// Sleeps until the next look; ticks that passed meanwhile are left out.
    fn rest(&mut self, stop: &Stop) {
        let elapsed = self.start.elapsed();
        while PERIOD * self.ticks <= elapsed {
            self.ticks += 1;
        }
        if !stop.requested() {
            std::thread::sleep((PERIOD * self.ticks).saturating_sub(elapsed));
        }
    }
}

/// Asks the worker; returns the bytes that it holds then.
fn ask(worker: &mut Worker, request: &Request, held: u64, stop: &Stop) -> Result<u64, HoldError> {
    match worker.call(&request.command(), PATIENCE, stop.flag()) {
        Ok(Reply::Found { findings, .. }) => {
            Ok(findings.figures.get(held::HELD_BYTES).copied().unwrap_or(0.0) as u64)
        }
        Ok(other) => Err(HoldError::Reply(other)),
        // The loop sees the stop next, and ends.
        Err(WorkerError::Interrupted) => Ok(held),
        Err(source @ WorkerError::Died { .. }) => Err(HoldError::Killed { held, source }),
        Err(error) => Err(HoldError::Worker(error)),
    }
}
