//! `plimsoll hold`.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::open_page;
use super::run::SERVICES;
use super::{print_json, print_recording, print_styled};
use crate::cli::{Hold, Verbosity};
use plimsoll_lab::environment::EnvironmentError;
use plimsoll_lab::hold::{self, Ending, HoldError, Level, Observer, Options, Scope, Start, Status, Summary};
use plimsoll_lab::recorded_hold::{self, RecordedHold};
use plimsoll_lab::run::FinishedRecording;
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::quantity::bytes;
use plimsoll_model::recording::hold::HeldLevel;
use plimsoll_model::sanitize::sanitize;
use plimsoll_model::scenario::{Amount, FillClass};
use plimsoll_proc::cgroup::Hierarchy;
use plimsoll_report::terminal;
use plimsoll_sample::stop::Stop;

/// The document of `--json`. The level is absent if a hold failed before its first look.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    level: Option<&'a HeldLevel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recording: Option<&'a Path>,
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<&'a Path>,
}

/// A hold that began. Without a recording it has not failed.
struct Outcome {
    held: Result<(Summary, Ending), HoldError>,
    level: Option<HeldLevel>,
    recording: Option<FinishedRecording>,
}

pub(super) fn hold(options: &Hold, verbosity: &Verbosity) -> Result<Exit, Failure> {
    let resolved = resolve(options)?;
    let stop = Stop::install().or_exit(Exit::Missing)?;
    let mut line = Line::new(verbosity.quiet);
    let outcome = carry_out(&resolved, options.output.as_deref(), &stop, &mut line);
    line.end();
    let outcome = outcome.map_err(failure)?;
    present(&outcome, options, verbosity)?;
    let page = outcome.recording.and_then(|recording| recording.page);
    if let (true, Some(page)) = (options.open, page) {
        open_page::open(&page)?;
    }
    let (summary, ending) = outcome.held.map_err(failure)?;
    match ending {
        Ending::Reserve(trip) => Err(Failure::message(
            Exit::Missing,
            format_args!("released the memory to protect the machine: {trip}"),
        )),
        Ending::Elapsed if summary.reached_s.is_none() => Err(Failure::message(
            Exit::WorkloadFailed,
            "cannot reach the level within the duration; give a longer --duration, or another level",
        )),
        Ending::Elapsed => Ok(Exit::Done),
        Ending::Stopped => Err(stop.cause().map_or_else(
            || Failure::message(Exit::Killed, "stopped"),
            |cause| Failure::message(cause.exit(), cause),
        )),
    }
}

/// Holds the level, with a recording if `output` is a folder.
fn carry_out(
    options: &Options,
    output: Option<&Path>,
    stop: &Arc<Stop>,
    line: &mut Line,
) -> Result<Outcome, HoldError> {
    let Some(output) = output else {
        let (summary, ending) = hold::hold(options, stop, line)?;
        return Ok(Outcome {
            level: Some(summary.document((&ending).into())),
            held: Ok((summary, ending)),
            recording: None,
        });
    };
    let RecordedHold { held, recording } = recorded_hold::hold(options, output, &SERVICES, stop, line)?;
    Ok(Outcome {
        held,
        level: recording.results.hold.clone(),
        recording: Some(recording),
    })
}

fn present(outcome: &Outcome, options: &Hold, verbosity: &Verbosity) -> Result<(), Failure> {
    let recording = outcome.recording.as_ref();
    let page = recording.and_then(|recording| recording.page.as_deref());
    if options.json {
        return print_json(&Document {
            level: outcome.level.as_ref(),
            recording: recording.map(|recording| recording.directory.as_path()),
            report: page,
        });
    }
    if verbosity.quiet {
        return Ok(());
    }
    let mut text = outcome.level.as_ref().map(terminal::held).unwrap_or_default();
    text.push_str(match recording {
        Some(_) => "\n",
        None => "recorded   no; --output writes a recording and a report\n",
    });
    print_styled(&text)?;
    recording.map_or(Ok(()), |recording| {
        print_recording(&recording.directory, page, verbosity)
    })
}

fn resolve(options: &Hold) -> Result<Options, Failure> {
    let level = match (options.used, options.available, options.psi) {
        (Some(amount), ..) => Level::Used(amount),
        (_, Some(amount), _) => Level::Available(amount),
        (.., Some(pressure)) => Level::Pressure(pressure),
        _ => Level::Held {
            bytes: options.bytes.unwrap_or(Amount::Bytes(0)),
            leak: options.leak.unwrap_or(0),
        },
    };
    let class: FillClass = options.class.parse().map_err(|error| {
        Failure::message(
            Exit::Usage,
            format_args!("cannot use --class `{}`: {error}", sanitize(&options.class)),
        )
    })?;
    let scope = match &options.cgroup {
        None => Scope::Machine,
        Some(path) => {
            let hierarchy = Hierarchy::of_this_process().or_exit(Exit::Missing)?;
            let (group, _) = hierarchy.find(path).map_err(|error| {
                let is_wrong = error.is_wrong_name();
                Failure::new(if is_wrong { Exit::Usage } else { Exit::Missing }, error)
            })?;
            Scope::Cgroup(group)
        }
    };
    Ok(Options {
        level,
        scope,
        ramp: Duration::from_secs_f64(options.ramp),
        duration: options.duration.map(Duration::from_secs_f64),
        class,
        touch_every: options.touch_every.map(Duration::from_secs_f64),
        reserve: options.reserve,
        folder: options.folder.clone(),
        wait: options.wait.map(Duration::from_secs),
    })
}

fn exit_of(error: &HoldError) -> Exit {
    match error {
        HoldError::TooMuch { .. } | HoldError::NoLimit { .. } => Exit::Usage,
        HoldError::Recording { exit, .. } => *exit,
        HoldError::Killed { .. } => Exit::Killed,
        HoldError::Worker(_) | HoldError::Reply(_) | HoldError::Thread(_) | HoldError::Panicked => {
            Exit::WorkloadFailed
        }
        // A signal while it waited for another run.
        HoldError::Environment(EnvironmentError::Interrupted) => Exit::Killed,
        // The machine, the cgroup or the user cannot do it.
        _ => Exit::Missing,
    }
}

fn failure(error: HoldError) -> Failure {
    Failure::new(exit_of(&error), error)
}

/// The level now, in one line of the terminal.
struct Line {
    shown: bool,
    enabled: bool,
    next: Duration,
}

impl Observer for Line {
    fn begin(&mut self, _: &Start<'_>) -> Result<(), HoldError> {
        Ok(())
    }

    fn look(&mut self, status: &Status, _: &Summary) {
        self.show(status);
    }
}

impl Line {
    fn new(quiet: bool) -> Line {
        Line {
            shown: false,
            enabled: !quiet && std::io::stderr().is_terminal(),
            next: Duration::ZERO,
        }
    }

    fn show(&mut self, status: &Status) {
        if !self.enabled || status.elapsed < self.next {
            return;
        }
        self.next = status.elapsed + Duration::from_secs(1);
        let mut text = match status.stalled_percent {
            Some(percent) => format!("\r\x1b[Ktasks wait for memory {percent:.1}% of the time; "),
            None => format!("\r\x1b[K{} held, ", bytes(status.held as f64)),
        };
        // Writing to a string cannot fail.
        let _ = write!(text, "{} available", bytes(status.available as f64));
        if let Some(total) = status.total {
            let _ = write!(text, " of {}", bytes(total as f64));
        }
        let _ = write!(std::io::stderr(), "{text}");
        self.shown = true;
    }

    fn end(&self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
