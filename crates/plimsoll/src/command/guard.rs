//! `plimsoll guard`.

use std::time::Duration;

use super::{print_news, print_styled};
use crate::cli::{Guard, Verbosity};
use plimsoll_lab::guard::{self, Decision, Event, Options, Protection, ScopeChoice, Summary};
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::quantity::{counted, significant};
use plimsoll_sample::stop::Stop;

pub(super) fn guard(options: &Guard, verbosity: &Verbosity) -> Result<Exit, Failure> {
    if options.release {
        return release(options.json, verbosity);
    }
    let stop = Stop::install().or_exit(Exit::Missing)?;
    stop.outlast_terminal().or_exit(Exit::Missing)?;
    let mut unwritten = None;
    let guarded = guard::guard(&resolve(options), &stop, &mut |decision| {
        if unwritten.is_some() {
            return;
        }
        // No process is stopped unseen: without a reader the guard ends.
        unwritten = match tell(decision, options.json, verbosity) {
            Ok(true) => return,
            Ok(false) => {
                let cause = "cannot print the decisions: no program reads standard output; all processes run";
                Some(Failure::message(Exit::Missing, cause))
            }
            Err(failure) => Some(failure),
        };
        stop.trip("standard output".to_owned());
    });
    let summary = guarded?;
    if let Some(failure) = unwritten {
        return Err(failure);
    }
    if !options.json && !verbosity.quiet {
        print_styled(&text(&summary))?;
    }
    Ok(Exit::Done)
}

/// Undoes the stops and throttles of a killed guard.
fn release(json: bool, verbosity: &Verbosity) -> Result<Exit, Failure> {
    let undone = guard::release()?;
    match (json, verbosity.quiet) {
        (true, _) => super::print_json(&serde_json::json!({"undone": undone}))?,
        (false, true) => {}
        (false, false) => print_styled(&format!("undone     {}\n", counted(undone.len(), "change")))?,
    }
    Ok(Exit::Done)
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

/// Prints a decision. Returns whether a reader is left.
fn tell(decision: &Decision, json: bool, verbosity: &Verbosity) -> Result<bool, Failure> {
    if json {
        return print_news(&format!("{}\n", decision.json()));
    }
    let is_problem = matches!(decision.event, Event::Failed { .. } | Event::Recovered { .. });
    match verbosity.quiet && !is_problem {
        true => Ok(true),
        false => print_news(&format!("{:>8.1} s  {}\n", decision.t_s, decision.text)),
    }
}

fn text(summary: &Summary) -> String {
    format!(
        "guarded    {} s; {}, {}, {}, {}, {}; {}% of a CPU\n",
        significant(summary.seconds),
        counted(summary.episodes as usize, "episode"),
        counted(summary.stops as usize, "stop"),
        counted(summary.trims as usize, "page-out"),
        counted(summary.throttles as usize, "throttle"),
        counted(summary.kills as usize, "kill"),
        significant(summary.cpu_percent)
    )
}
