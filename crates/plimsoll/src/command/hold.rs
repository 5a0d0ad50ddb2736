//! `plimsoll hold`.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::Duration;

use serde::Serialize;

use crate::cli::{Hold, Verbosity};
use plimsoll_lab::environment::EnvironmentError;
use plimsoll_lab::hold::{
    self, Ending, Goal, HoldError, Level, Options, PressureKind, Scope, Spread, Status, Summary, Target,
};
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::quantity::{bytes, seconds};
use plimsoll_model::sanitize::sanitize;
use plimsoll_model::scenario::{Amount, FillClass};
use plimsoll_proc::cgroup::{Hierarchy, MemoryCgroup};
use plimsoll_sample::stop::Stop;

/// Version of the document of `--json`.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Document {
    schema: u32,
    /// Why it ended: `duration`, `signal`, `reserve`.
    ended: &'static str,
    seconds: f64,
    /// Bytes that stay available to others, bytes that are held, or percent of time that is a stall.
    goal: GoalDocument,
    /// Seconds until the level was first within its tolerance: 2%, of a pressure 5 points.
    reached_s: Option<f64>,
    /// Share of the looks since then at which the level was within the tolerance.
    within: Option<f64>,
    /// Since then.
    #[serde(flatten)]
    course: Course,
    cpu_percent: Option<f64>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum GoalDocument {
    AvailableBytes(u64),
    HeldBytes(u64),
    SomePercent(f64),
    FullPercent(f64),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Course {
    Memory {
        held_bytes: Spread<u64>,
        off_bytes: Spread<u64>,
    },
    Pressure {
        stalled_percent: Spread<f64>,
    },
}

pub(super) fn hold(options: &Hold, verbosity: &Verbosity) -> Result<Exit, Failure> {
    let resolved = resolve(options)?;
    let stop = Stop::install().or_exit(Exit::Missing)?;
    let mut line = Line::new(verbosity.quiet);
    let held = hold::hold(&resolved, &stop, &mut |status| line.show(status));
    line.end();
    let (summary, ending) = held.map_err(|error| {
        let exit = exit_of(&error);
        Failure::new(exit, error)
    })?;
    if options.json {
        super::print_json(&document(&summary, &ending))?;
    } else if !verbosity.quiet {
        super::print(&render(&summary, &ending))?;
    }
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
            let (found, _) = hierarchy.find(path).or_exit(Exit::Usage)?;
            Scope::Cgroup(MemoryCgroup::new(found, hierarchy.version))
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

/// The level now, in one line of the terminal.
struct Line {
    shown: bool,
    enabled: bool,
    next: Duration,
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

fn document(summary: &Summary, ending: &Ending) -> Document {
    Document {
        schema: SCHEMA,
        ended: match ending {
            Ending::Elapsed => "duration",
            Ending::Stopped => "signal",
            Ending::Reserve(_) => "reserve",
        },
        seconds: summary.seconds,
        goal: match summary.target {
            Target::Memory(Goal::Available(bytes)) => GoalDocument::AvailableBytes(bytes),
            Target::Memory(Goal::Held { bytes, .. }) => GoalDocument::HeldBytes(bytes),
            Target::Pressure(goal) => match goal.kind {
                PressureKind::Some => GoalDocument::SomePercent(goal.percent),
                PressureKind::Full => GoalDocument::FullPercent(goal.percent),
            },
        },
        reached_s: summary.reached_s,
        within: summary.within(),
        course: match summary.target {
            Target::Memory(_) => Course::Memory {
                held_bytes: summary.held,
                off_bytes: summary.off,
            },
            Target::Pressure(_) => Course::Pressure {
                stalled_percent: summary.stalled,
            },
        },
        cpu_percent: summary.cpu_percent,
    }
}

fn render(summary: &Summary, ending: &Ending) -> String {
    let mut lines = vec![format!(
        "level      {}, for {}",
        goal(summary.target),
        seconds(summary.seconds)
    )];
    match (summary.reached_s, summary.within()) {
        (Some(reached_s), Some(within)) => {
            lines.push(format!("reached    after {}", seconds(reached_s)));
            lines.extend(course(summary, within * 100.0));
        }
        _ => lines.push("reached    never".to_owned()),
    }
    if let Some(percent) = summary.cpu_percent {
        lines.push(format!("CPU        {percent:.2}% of one CPU while holding"));
    }
    if let Ending::Elapsed = ending {
        lines.push("ended      after its duration; everything is released".to_owned());
    }
    lines.join("\n") + "\n"
}

fn goal(target: Target) -> String {
    match target {
        Target::Memory(Goal::Available(left)) => {
            format!("{} available to other programs", bytes(left as f64))
        }
        Target::Memory(Goal::Held { bytes: held, leak: 0 }) => format!("{} held", bytes(held as f64)),
        Target::Memory(Goal::Held { bytes: held, leak }) => {
            format!(
                "{} held and {} more each second",
                bytes(held as f64),
                bytes(leak as f64)
            )
        }
        Target::Pressure(pressure) => {
            let tasks = match pressure.kind {
                PressureKind::Some => "some task waits",
                PressureKind::Full => "all tasks wait",
            };
            format!("{tasks} for memory {}% of the time", pressure.percent)
        }
    }
}

/// The lines of a level that was reached.
fn course(summary: &Summary, within_percent: f64) -> [String; 2] {
    match summary.target {
        Target::Memory(_) => [
            format!(
                "kept       within {:.0}% at {within_percent:.1}% of the looks; off by {} at most",
                hold::TOLERANCE * 100.0,
                bytes(summary.off.most as f64)
            ),
            format!(
                "held       {} to {}",
                bytes(summary.held.least as f64),
                bytes(summary.held.most as f64)
            ),
        ],
        Target::Pressure(_) => [
            format!(
                "kept       within {:.0} points at {within_percent:.1}% of the looks",
                hold::TOLERANCE_POINTS
            ),
            format!(
                "average    {:.1}%, from {:.1}% to {:.1}%",
                summary.stalled.mean, summary.stalled.least, summary.stalled.most
            ),
        ],
    }
}
