//! A pressure, held: the share of time in which tasks wait for memory (`avg10` of PSI).
//!
//! A worker in a cgroup of its own, with a limit of 32 MiB, reads pages of a larger file at random, and waits for
//! them. No other cgroup loses pages. The cgroup is a change of the machine: a journal has it, and `plimsoll cleanup`
//! removes it after a `kill -9`.

mod controller;
mod stall;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::error::HoldError;
use super::gauge::{Gauge, Scope};
use super::holder::{PATIENCE, held_error, spawn};
use super::level::{Pressure, PressureKind};
use super::observer::{Observer, Start};
use super::options::{Options, Status};
use super::summary::{Ending, Summary};
use super::tick::Ticks;
use crate::environment::{self, Session, Tripwire};
use crate::workload::{Work, Worker, WorkerError, WorkerOptions};
use controller::{Controller, Meter};
use plimsoll_model::recording::hold::HoldGoal;
use plimsoll_proc::cgroup::MemoryCgroup;
use plimsoll_proc::{Tree, psi};
use plimsoll_sample::stop::Stop;
use stall::Request;

/// Limit of the worker's cgroup: several times the worker's own memory.
const LIMIT: u64 = 32 << 20;
/// Bytes of the file: a little more than the limit keeps in RAM. The kernel counts a wait as a stall for memory only if the
/// page was in use shortly before: of a file of 128 MiB, it counted one wait in six.
const FILE: u64 = 40 << 20;

/// Threads of the worker for each CPU, for `some`: one alone stalls for a tenth of its time where other programs use the CPUs. For
/// `full` it has one: a CPU counts as stalled while all of its threads are.
const THREADS: u32 = 4;
/// So many threads are more than one for each CPU at most.
const MOST_THREADS: u32 = 64;

/// Time in which the pressure of other programs is measured.
const OTHERS: Duration = Duration::from_secs(1);

/// The pressure file of a scope.
struct Source {
    path: PathBuf,
    kind: PressureKind,
    remedy: &'static str,
}

impl Source {
    fn of(scope: &Scope, kind: PressureKind) -> Result<Source, HoldError> {
        let (path, remedy) = match scope {
            Scope::Machine => (PathBuf::from(psi::MEMORY), "boot with `psi=1`"),
            Scope::Cgroup(cgroup) => match cgroup.version().pressure_file() {
                Some(name) => (
                    cgroup.file(name),
                    "boot with `psi=1`, and write 1 to its cgroup.pressure",
                ),
                None => {
                    return Err(HoldError::PressureOnV1 {
                        path: cgroup.path().to_owned(),
                    });
                }
            },
        };
        Ok(Source { path, kind, remedy })
    }

    /// The stalled time, in microseconds from any start.
    fn read(&self) -> Result<u64, HoldError> {
        let error = |source| HoldError::NoPressure {
            path: self.path.clone(),
            source,
            remedy: self.remedy,
        };
        let text = fs::read(&self.path).map_err(error)?;
        let pressure = psi::parse(&text);
        let stall = match self.kind {
            PressureKind::Some => pressure.some,
            PressureKind::Full => pressure.full,
        };
        let total = stall.total_us.and_then(|total| u64::try_from(total).ok());
        total.ok_or_else(|| error(std::io::ErrorKind::InvalidData.into()))
    }
}

/// The worker's side.
pub(super) fn work(name: &str) -> Option<Box<dyn Work>> {
    (name == stall::NAME).then(|| Box::<stall::Stalling>::default() as Box<dyn Work>)
}

/// Holds a pressure until a stop or the end of its duration.
pub(super) fn hold(
    goal: Pressure,
    options: &Options,
    stop: &Stop,
    observer: &mut dyn Observer,
) -> Result<(Summary, Ending), HoldError> {
    let source = Source::of(&options.scope, goal.kind)?;
    source.read()?;
    if let Some(defect) = environment::not_on_disk(&options.folder) {
        let folder = options.folder.clone();
        return Err(HoldError::Folder { folder, defect });
    }
    let within = options.scope.cgroup().map(MemoryCgroup::path);
    let mut session = open_session(within, options.wait, stop)?;
    let reachable = check_others(&source, goal, stop);
    let held = reachable.and_then(|()| hold_in(&mut session, within, &source, goal, options, stop, observer));
    // The cgroup goes in any case; the first error counts.
    let undone = session.finish().map_err(HoldError::Environment);
    held.and_then(|held| undone.map(|_| held))
}

/// Rejects a pressure that other programs exceed in a second: `avg10` has that of a run which has just ended.
fn check_others(source: &Source, goal: Pressure, stop: &Stop) -> Result<(), HoldError> {
    let (start, before) = (Instant::now(), source.read()?);
    while start.elapsed() < OTHERS && !stop.requested() {
        thread::sleep(OTHERS / 20);
    }
    let stalled_us = source.read()?.saturating_sub(before);
    let now = 100.0 * stalled_us as f64 / 1e6 / start.elapsed().as_secs_f64();
    if now > goal.percent + HoldGoal::from(goal).tolerance(goal.percent) {
        let goal = goal.percent;
        return Err(HoldError::AlreadyStalled { now, goal });
    }
    Ok(())
}

/// The right to make a cgroup, which is a change of the machine.
fn open_session(within: Option<&Path>, wait: Option<Duration>, stop: &Stop) -> Result<Session, HoldError> {
    if within.is_none()
        && let Some(missing) = environment::cgroup_missing()
    {
        return Err(HoldError::Missing(missing));
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let name = format!("hold-{}-{}", since.as_secs(), std::process::id());
    let command = plimsoll_sample::command_line();
    Session::open(&name, &command, wait, stop.flag()).map_err(HoldError::Environment)
}

fn hold_in(
    session: &mut Session,
    within: Option<&Path>,
    source: &Source,
    goal: Pressure,
    options: &Options,
    stop: &Stop,
    observer: &mut dyn Observer,
) -> Result<(Summary, Ending), HoldError> {
    let cgroup = session.make_cgroup(within, LIMIT).map_err(|error| match within {
        Some(path) if matches!(error, environment::EnvironmentError::NoChildren) => HoldError::NoChildren {
            path: path.to_owned(),
        },
        _ => HoldError::Environment(error),
    })?;
    let mut worker = spawn(&WorkerOptions {
        cgroup: Some(cgroup.group().clone()),
        ..WorkerOptions::default()
    })?;
    let pid = worker.pid();
    session.process_started(pid).map_err(HoldError::Environment)?;
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
    let threads = match goal.kind {
        PressureKind::Some => cpus.saturating_mul(THREADS).min(MOST_THREADS.max(cpus)),
        PressureKind::Full => cpus,
    };
    let begin = Request::Begin {
        folder: options.folder.clone(),
        bytes: FILE,
        threads,
    };
    ask(&mut worker, &begin, stop.flag())?;
    let held = press(&mut worker, threads, source, goal, options, stop, observer);
    drop(worker);
    session.process_ended(pid).map_err(HoldError::Environment)?;
    held
}

/// The loop: read the pressure, and have more or fewer threads of the worker read pages.
fn press(
    worker: &mut Worker,
    threads: u32,
    source: &Source,
    goal: Pressure,
    options: &Options,
    stop: &Stop,
    observer: &mut dyn Observer,
) -> Result<(Summary, Ending), HoldError> {
    let machine = Gauge::new(Scope::Machine, Tree::live(), options.reserve)?;
    let mut tripwire = Tripwire::with_reserve(machine.reserve());
    let settings = options.settings(goal.into(), machine.total(), machine.reserve());
    observer.begin(&Start {
        settings: &settings,
        worker: worker.pid(),
        cgroup: options.scope.cgroup(),
    })?;
    let mut summary = Summary::of(settings);
    let mut controller = Controller::new(goal.percent / 100.0, options.ramp, threads);
    let mut meter = Meter::default();
    let start = Instant::now();
    let mut ticks = Ticks::since(start);
    let ending = loop {
        let elapsed = start.elapsed();
        if stop.requested() {
            break Ending::Stopped;
        }
        if options.duration.is_some_and(|duration| elapsed >= duration) {
            break Ending::Elapsed;
        }
        let look = machine.look()?;
        // The load makes stalls on purpose: only a lack of memory trips.
        if let Some(trip) = tripwire.check(elapsed, look.machine_available, None) {
            break Ending::Reserve(trip);
        }
        let total_us = source.read()?;
        let threads = controller.step(elapsed, total_us);
        ask(worker, &Request::Read { threads }, stop.flag())?;
        let percent = 100.0 * meter.add(elapsed, total_us);
        let status = Status {
            elapsed,
            held: 0,
            available: look.machine_available,
            goal: None,
            total: machine.total(),
            stalled_percent: Some(percent),
        };
        summary.add(&status, worker);
        observer.look(&status, &summary);
        ticks.rest(stop.flag());
    };
    summary.end(worker, start.elapsed());
    Ok((summary, ending))
}

fn ask(worker: &mut Worker, request: &Request, stop: &AtomicBool) -> Result<(), HoldError> {
    match worker.call(&request.command(), PATIENCE, stop) {
        // The loop sees the stop next, and ends.
        Ok(_) | Err(WorkerError::Interrupted) => Ok(()),
        Err(error) => Err(held_error(error, 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_proc::cgroup::CgroupVersion;

    #[test]
    fn a_cgroup_of_v2_has_a_pressure_of_its_own_and_one_of_v1_has_none() {
        let folder = tempfile::tempdir().unwrap();
        let text = "some avg10=1.50 avg60=0.00 avg300=0.00 total=70\nfull avg10=0.50 avg60=0.00 avg300=0.00 total=9\n";
        fs::write(folder.path().join("memory.pressure"), text).unwrap();
        let scope = |version| Scope::Cgroup(MemoryCgroup::new(folder.path(), version));
        for (kind, expected) in [(PressureKind::Some, 70), (PressureKind::Full, 9)] {
            let source = Source::of(&scope(CgroupVersion::V2), kind).unwrap();
            assert_eq!(source.read().unwrap(), expected);
        }
        assert!(matches!(
            Source::of(&scope(CgroupVersion::V1), PressureKind::Some),
            Err(HoldError::PressureOnV1 { .. })
        ));
        fs::remove_file(folder.path().join("memory.pressure")).unwrap();
        let source = Source::of(&scope(CgroupVersion::V2), PressureKind::Some).unwrap();
        assert!(matches!(source.read(), Err(HoldError::NoPressure { .. })));
    }
}
