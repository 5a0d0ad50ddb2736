//! The size of a running service: lowers the cap of its cgroup until pressure says that the rest is needed, holds it there,
//! and restores it.
//!
//! `controller` decides, `gauge` reads, [`Cap`] writes; `target` finds the cgroup, and this module records.
//!
//! - Invariant: the cap is as before after every kind of end; a killed sizing is undone by `cleanup`. Checked by
//!   `a_killed_sizing_is_undone_by_cleanup` and `a_signal_restores_the_cap`.
//! - Invariant: a cap that another program has changed meanwhile is not touched again. Checked by
//!   `a_cap_that_another_program_changes_stays_its_own`.

mod controller;
mod error;
mod gauge;
mod target;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::recording::model::{Event, EventKind};
use plimsoll_model::recording::service::{DESCENT, HOLD, SERVICE, ServiceBound, ServiceSettings};
use plimsoll_model::recording::{Warning, WarningCode};
use plimsoll_proc::ControlError;
use plimsoll_proc::cgroup::members;
use plimsoll_sample::stop::{Cause, Stop};
use plimsoll_sample::{CgroupFiles, Target as Sampled, command_line};

use crate::environment::{self, Cap, CapError, EnvironmentError, Session, Tripwire};
use crate::run::lone::LoneRecording;
use crate::run::recorder::plain_event;
use crate::run::{FinishedRecording, Services, left_alone, run_name};
use controller::{Controller, Order, Settings};
use gauge::Gauge;

pub use error::ServiceSizeError;
pub use target::ServiceChoice;

/// Longest time between two readings.
const TICK: Duration = Duration::from_millis(100);
/// Steps of the cap in the whole time, as far as the interval between two allows: more time is a slower descent.
const STEPS: u32 = 200;
const INTERVALS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(3));
/// Time between two looks at the processes of the cgroup.
const MEMBERS: Duration = Duration::from_secs(5);
/// Processes whose memory is sampled, at most.
const SAMPLED: usize = 64;

#[derive(Debug, Clone)]
pub struct Options {
    pub choice: ServiceChoice,
    /// Share of the time that tasks may stall, 0 to 1.
    pub target: f64,
    pub duration: Duration,
    /// Bytes below which the cap never sinks.
    pub floor: u64,
    /// Folder that the recording's folder is made in.
    pub output: PathBuf,
}

/// The end of a sizing before its time.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Early {
    /// A signal, or the tripwire.
    #[error("cannot size on: {0}; the cap is as before")]
    Stopped(Cause),
    #[error(
        "cannot size on: the OOM killer killed {kills} of the service's processes; the cap is as before; give the service \
         more memory or swap, or raise --floor"
    )]
    OomKilled { kills: u64 },
    #[error("cannot size on: process {pid} ended; the cap is as before; size the service again")]
    ProcessEnded { pid: u32 },
    #[error(
        "cannot size on: process {pid} left the cgroup, and the cap does not hold for it; the cap is as before; size the \
         cgroup that it is in now"
    )]
    ProcessMoved { pid: u32 },
    #[error("cannot size on: no process is left in the cgroup; the cap is as before; size the service again")]
    Empty,
    #[error(transparent)]
    Cap(#[from] CapError),
    /// A file of the cgroup cannot be read.
    #[error("cannot size on: {0}; the cap is as before")]
    Unreadable(ControlError),
    /// The recording cannot be written.
    #[error("cannot size on: {0}; the cap is as before")]
    Recording(String),
}

impl Early {
    /// How the program ends for it.
    pub fn exit(&self) -> Exit {
        match self {
            Early::Stopped(cause) => cause.exit(),
            Early::OomKilled { .. } => Exit::Killed,
            Early::ProcessEnded { .. } | Early::ProcessMoved { .. } | Early::Empty => Exit::WorkloadFailed,
            Early::Cap(error) => error::exit_of(error),
            Early::Unreadable(_) | Early::Recording(_) => Exit::Missing,
        }
    }
}

#[derive(Debug)]
pub struct Outcome {
    pub recording: FinishedRecording,
    /// `None` where the time was up.
    pub early: Option<Early>,
    /// Whether everything is undone.
    pub undone: bool,
}

/// Shows a message to the user.
pub type Notice<'a> = &'a mut dyn FnMut(&str);

/// Sizes a service and leaves its cgroup as it was.
///
/// # Errors
/// When the sizing cannot begin, or its recording cannot be written. An early end is in the outcome.
pub fn size(
    options: &Options,
    services: &Services,
    begin: impl FnOnce(&ServiceSettings),
    warn: Notice<'_>,
) -> Result<Outcome, Failure> {
    let stop = Stop::install()
        .map_err(|error| anyhow::anyhow!("cannot take over signals: {error}"))
        .or_exit(Exit::Missing)?;
    let target = target::Target::find(&options.choice)?;
    let name = run_name(SERVICE);
    let command = command_line();
    // Before a look at the cap: it must not be that of another run.
    let session = Session::open(&name, &command, None, stop.flag())
        .or_exit(stop.cause().map_or(Exit::Missing, |cause| cause.exit()))?;
    let cap = session.open_cap(&target.folder).map_err(ServiceSizeError::from)?;
    let gauge = Gauge::new(cap.group())
        .map_err(|error| Failure::message(Exit::Missing, format_args!("{error}; run as root")))?;
    let interval = (options.duration / STEPS).clamp(INTERVALS.0, INTERVALS.1);
    let settings = ServiceSettings {
        cgroup: target.name.clone(),
        cap_file: Cap::file(target.version).to_owned(),
        cap_before: cap.before().to_owned(),
        target_percent: 100.0 * options.target,
        floor_bytes: options.floor,
        interval_s: interval.as_secs_f64(),
        signal: gauge.signal(),
    };
    begin(&settings);
    let mut sizing = Sizing::open(options, &settings, target, session, cap, gauge, name, stop)?;
    for warning in sizing.warnings()? {
        sizing.warn(warning, warn)?;
    }
    let early = sizing.go(options.duration);
    sizing.conclude(early, services, warn)
}

/// A sizing in progress.
struct Sizing {
    recording: LoneRecording,
    target: target::Target,
    session: Session,
    cap: Cap,
    gauge: Gauge,
    controller: Controller,
    tick: Duration,
    stop: Arc<Stop>,
    /// The phase that the recording has.
    phase: Option<ServiceBound>,
    oom_kills_before: u64,
    /// The processes that are sampled, and the time of the next look at them.
    sampled: Vec<u32>,
    look_at: Instant,
}

impl Sizing {
    #[allow(
        clippy::too_many_arguments,
        reason = "the parts of a sizing, each made in turn"
    )]
    fn open(
        options: &Options,
        settings: &ServiceSettings,
        target: target::Target,
        session: Session,
        cap: Cap,
        gauge: Gauge,
        name: String,
        stop: Arc<Stop>,
    ) -> Result<Sizing, Failure> {
        let machine = environment::machine().or_exit(Exit::Missing)?;
        let title = format!("size of the cgroup {}", settings.cgroup);
        let tripwire = Some(Tripwire::new(machine.ram));
        let recording =
            LoneRecording::open(&options.output, name, (SERVICE, title), settings, tripwire, &stop)?;
        recording.event(phase_event(None))?;
        let interval = Duration::from_secs_f64(settings.interval_s);
        let oom_kills_before = cap.group().oom_kills().unwrap_or(0);
        Ok(Sizing {
            controller: Controller::new(Settings {
                target: options.target,
                interval,
                floor: options.floor,
                ceiling: cap.ceiling(),
            }),
            recording,
            target,
            session,
            cap,
            gauge,
            tick: TICK.min(interval / 2),
            stop,
            phase: None,
            oom_kills_before,
            sampled: Vec::new(),
            look_at: Instant::now(),
        })
    }

    /// The warnings before the start.
    fn warnings(&self) -> Result<Vec<Warning>, Failure> {
        let mut warnings = Vec::new();
        for run in self.session.dead_runs().or_exit(Exit::Missing)? {
            let text = format!(
                "the killed run {run} left changes on this machine; undo them with `plimsoll cleanup`"
            );
            warnings.push(Warning::new(WarningCode::KilledRun, text));
        }
        if let (Some(process), [first, ..]) = (self.target.process, self.target.strangers.as_slice()) {
            let text = format!(
                "the cgroup {} of process {} has other processes too ({} in all, for example {first}): their memory is \
                 sized too; start the service in a cgroup of its own to size it alone",
                self.target.name,
                process.pid,
                self.target.strangers.len()
            );
            warnings.push(Warning::new(WarningCode::SharedCgroup, text));
        }
        Ok(warnings)
    }

    fn warn(&self, Warning { code, text }: Warning, show: &mut dyn FnMut(&str)) -> Result<(), Failure> {
        show(&text);
        let mut event = plain_event(EventKind::Warning, text);
        event.code = Some(code);
        self.recording.event(event).map(drop)
    }

    /// Controls the cap until the time is up, or until an early end.
    fn go(&mut self, duration: Duration) -> Option<Early> {
        let start = Instant::now();
        while start.elapsed() < duration {
            if let Some(cause) = self.stop.cause() {
                return Some(Early::Stopped(cause));
            }
            if let Err(early) = self.step() {
                return Some(early);
            }
            std::thread::sleep(self.tick.min(duration.saturating_sub(start.elapsed())));
        }
        None
    }

    /// One reading and its order.
    fn step(&mut self) -> Result<(), Early> {
        self.check()?;
        let reading = self.gauge.read().map_err(|error| self.unreadable(error))?;
        match self.controller.take(reading) {
            Order::Keep if reading.waiting && self.cap.lowered().is_none() => self.cap.wake()?,
            Order::Keep => {}
            Order::Lift => {
                self.session.lift_cap(&mut self.cap)?;
                self.controller.applied(None);
            }
            Order::Cap(bytes) => {
                let stop = Arc::clone(&self.stop);
                let applied = self.session.set_cap(&mut self.cap, bytes, || stop.requested())?;
                self.controller.applied(applied);
            }
        }
        let phase = self.controller.bound();
        if phase != self.phase {
            self.phase = phase;
            self.note(phase_event(phase))?;
        }
        Ok(())
    }

    /// Checks that the service lives and that its cap is as this run left it.
    fn check(&mut self) -> Result<(), Early> {
        self.cap.check()?;
        let kills = self.cap.group().oom_kills().unwrap_or(0);
        if kills > self.oom_kills_before {
            return Err(Early::OomKilled {
                kills: kills - self.oom_kills_before,
            });
        }
        if let Some(process) = self.target.process
            && !process.is_alive()
        {
            return Err(Early::ProcessEnded { pid: process.pid });
        }
        if Instant::now() < self.look_at {
            return Ok(());
        }
        self.look_at = Instant::now() + MEMBERS;
        // A cgroup that is removed meanwhile shows in the next check of the cap.
        let found = members(&self.target.folder);
        // It may have ended meanwhile.
        if let (Ok(now), Some(process)) = (&found, self.target.process)
            && !now.contains(&process.pid)
            && process.is_alive()
        {
            return Err(Early::ProcessMoved { pid: process.pid });
        }
        let mut now = found.unwrap_or_default();
        if now.is_empty() && self.cap.check().is_ok() {
            return Err(Early::Empty);
        }
        now.truncate(SAMPLED);
        if now != self.sampled {
            let files = CgroupFiles::of(&self.target.folder, self.target.version);
            self.recording.set_target(&Sampled {
                workers: now.clone(),
                cgroup: Some(files.with_cap(self.cap.path().to_owned())),
                ..Sampled::default()
            });
            self.sampled = now;
        }
        Ok(())
    }

    fn unreadable(&self, error: ControlError) -> Early {
        match gauge::is_gone(&error) {
            true => Early::Cap(CapError::Gone {
                path: self.target.folder.clone(),
            }),
            false => Early::Unreadable(error),
        }
    }

    fn note(&self, event: Event) -> Result<(), Early> {
        let written = self.recording.event(event);
        written
            .map(drop)
            .map_err(|failure| Early::Recording(format!("{:#}", failure.error)))
    }

    /// Restores the cap, ends the recording, and computes its results and report.
    fn conclude(
        mut self,
        early: Option<Early>,
        services: &Services,
        warn: Notice<'_>,
    ) -> Result<Outcome, Failure> {
        // If this fails, the end of the session restores the cap.
        let _ = self.session.lift_cap(&mut self.cap);
        let (undone, warnings) = restored(self.session.finish());
        for warning in warnings {
            warn(&warning.text);
            let mut event = plain_event(EventKind::Warning, warning.text);
            event.code = Some(warning.code);
            self.recording.event(event)?;
        }
        if let Some(early) = &early {
            self.recording
                .event(plain_event(EventKind::Stopped, early.to_string()))?;
        }
        Ok(Outcome {
            recording: self.recording.close()?.analyse(services)?,
            early,
            undone,
        })
    }
}

/// Whether everything is undone, and warnings of the rest.
fn restored(finished: Result<environment::UndoReport, EnvironmentError>) -> (bool, Vec<Warning>) {
    match finished {
        Ok(report) => (true, report.left_alone.iter().map(left_alone).collect()),
        Err(error) => {
            let warning = Warning::new(WarningCode::UndoFailed, error.to_string());
            (false, vec![warning])
        }
    }
}

/// The event at the start of a phase.
fn phase_event(bound: Option<ServiceBound>) -> Event {
    let text = bound.and_then(|bound| serde_json::to_value(bound).ok());
    let text = text.as_ref().and_then(|text| text.as_str()).unwrap_or_default();
    Event {
        phase: Some(if bound.is_some() { HOLD } else { DESCENT }.to_owned()),
        number: Some(if bound.is_some() { 2 } else { 1 }),
        ..plain_event(EventKind::PhaseStart, text)
    }
}
