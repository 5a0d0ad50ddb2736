//! `plimsoll hold`.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::Duration;

use serde::Serialize;

use crate::cli::{Hold, Verbosity};
use plimsoll_lab::hold::{self, Ending, Goal, HoldError, Level, Options, Scope, Spread, Status, Summary};
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::quantity::{bytes, seconds};
use plimsoll_model::sanitize::sanitize;
use plimsoll_model::scenario::FillClass;
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
    /// Bytes that stay available to others, or bytes that are held.
    goal: Target,
    /// Seconds until the level was first within 2%.
    reached_s: Option<f64>,
    /// Share of the looks since then at which the level was within 2%.
    within: Option<f64>,
    held_bytes: Spread,
    off_bytes: Spread,
    cpu_percent: Option<f64>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Target {
    AvailableBytes(u64),
    HeldBytes(u64),
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
        Ending::Elapsed => Ok(Exit::Done),
        Ending::Stopped(cause) => Err(Failure::message(cause.exit(), cause)),
        Ending::Reserve(trip) => Err(Failure::message(
            Exit::Missing,
            format_args!("released the memory to protect the machine: {trip}"),
        )),
    }
}

fn resolve(options: &Hold) -> Result<Options, Failure> {
    let level = match (options.used, options.available, options.bytes) {
        (Some(amount), ..) => Level::Used(amount),
        (_, Some(amount), _) => Level::Available(amount),
        (.., start) => Level::Held {
            bytes: start.unwrap_or(hold::Amount::Bytes(0)),
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
    })
}

fn exit_of(error: &HoldError) -> Exit {
    match error {
        HoldError::TooMuch { .. } | HoldError::NoLimit { .. } => Exit::Usage,
        HoldError::Killed { .. } => Exit::Killed,
        HoldError::Reserve { .. } | HoldError::Unreadable { .. } | HoldError::Cgroup(_) => Exit::Missing,
        _ => Exit::WorkloadFailed,
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
        let mut text = format!(
            "\r\x1b[K{} held, {} available",
            bytes(status.held as f64),
            bytes(status.available as f64)
        );
        if let Some(total) = status.total {
            // Writing to a string cannot fail.
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
            Ending::Stopped(_) => "signal",
            Ending::Reserve(_) => "reserve",
        },
        seconds: summary.seconds,
        goal: match summary.goal {
            Goal::Available(bytes) => Target::AvailableBytes(bytes),
            Goal::Held { bytes, .. } => Target::HeldBytes(bytes),
        },
        reached_s: summary.reached_s,
        within: summary.within(),
        held_bytes: summary.held,
        off_bytes: summary.off,
        cpu_percent: summary.cpu_percent,
    }
}

fn render(summary: &Summary, ending: &Ending) -> String {
    let goal = match summary.goal {
        Goal::Available(left) => format!("{} available to other programs", bytes(left as f64)),
        Goal::Held { bytes: held, leak: 0 } => format!("{} held", bytes(held as f64)),
        Goal::Held { bytes: held, leak } => {
            format!("{} held and {} more each second", bytes(held as f64), bytes(leak as f64))
        }
    };
    let mut lines = vec![format!("level      {goal}, for {}", seconds(summary.seconds))];
    match (summary.reached_s, summary.within()) {
        (Some(reached_s), Some(within)) => {
            lines.push(format!("reached    after {}", seconds(reached_s)));
            lines.push(format!(
                "kept       within {:.0}% at {:.1}% of the looks; off by {} at most",
                hold::TOLERANCE * 100.0,
                within * 100.0,
                bytes(summary.off.most as f64)
            ));
            lines.push(format!(
                "held       {} to {}",
                bytes(summary.held.least as f64),
                bytes(summary.held.most as f64)
            ));
        }
        _ => lines.push("reached    never".to_owned()),
    }
    if let Some(percent) = summary.cpu_percent {
        lines.push(format!("CPU        {percent:.2}% of one CPU while holding"));
    }
    if let Ending::Elapsed = ending {
        lines.push("ended      after its duration; the memory is released".to_owned());
    }
    lines.join("\n") + "\n"
}
