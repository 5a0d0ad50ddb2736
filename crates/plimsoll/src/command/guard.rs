//! `plimsoll guard`.

use std::time::Duration;

use super::{print_json_text, print_styled};
use crate::cli::{Guard, Verbosity};
use plimsoll_lab::guard::{self, Decision, Event, Options, Protection, ScopeChoice, Summary};
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::quantity::{counted, significant};
use plimsoll_sample::stop::{Cause, Stop};

pub(super) fn guard(options: &Guard, verbosity: &Verbosity) -> Result<Exit, Failure> {
    let stop = Stop::install().or_exit(Exit::Missing)?;
    let mut broken = None;
    let guarded = guard::guard(&resolve(options), &stop, &mut |decision| {
        if let Err(failure) = tell(decision, options.json, verbosity) {
            // Without a reader, nobody sees the decisions: the guard ends, and every process runs.
            broken.get_or_insert(failure);
            stop.trip("cannot write the decisions".to_owned());
        }
    });
    if let Some(failure) = broken {
        return Err(failure);
    }
    let summary = guarded?;
    if !options.json && !verbosity.quiet {
        print_styled(&text(&summary))?;
    }
    match stop.cause() {
        // The usual end.
        None | Some(Cause::Signal(_)) => Ok(Exit::Done),
        Some(cause) => Err(Failure::message(cause.exit(), cause)),
    }
}

fn resolve(options: &Guard) -> Options {
    let scope = match (&options.cgroup, options.pid) {
        (Some(path), _) => ScopeChoice::Cgroup(path.clone()),
        (None, Some(pid)) => ScopeChoice::Tree(pid),
        (None, None) => ScopeChoice::Machine,
    };
    Options {
        scope,
        policy: options.policy,
        protection: Protection {
            names: options.protect.clone(),
            cgroups: options.protect_cgroup.clone(),
            ..Protection::default()
        },
        dry_run: options.dry_run,
        duration: options.duration.map(Duration::from_secs_f64),
    }
}

fn tell(decision: &Decision, json: bool, verbosity: &Verbosity) -> Result<(), Failure> {
    if json {
        let mut line = serde_json::to_string(decision).or_exit(Exit::WorkloadFailed)?;
        line.push('\n');
        return print_json_text(&line);
    }
    let is_problem = matches!(decision.event, Event::Failed { .. } | Event::Recovered { .. });
    match verbosity.quiet && !is_problem {
        true => Ok(()),
        false => print_styled(&format!("{:>8.1} s  {}\n", decision.t_s, decision.text)),
    }
}

fn text(summary: &Summary) -> String {
    format!(
        "guarded    {} s; {}, {}, {}, {}; {}% of a CPU\n",
        significant(summary.seconds),
        counted(summary.episodes as usize, "episode"),
        counted(summary.stops as usize, "stop"),
        counted(summary.trims as usize, "page-out"),
        counted(summary.kills as usize, "kill"),
        significant(summary.cpu_percent)
    )
}
