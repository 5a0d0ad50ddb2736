//! `plimsoll size`: runs a program without pressure, searches the RAM that it needs on each engine, and prints the result.
//!
//! ```text
//! options -> request -> pilot (peak and time) -> plan of the search -> run -> size in results.json -> text or JSON
//! ```

mod document;
mod engines;
mod error;
mod request;
mod service;

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::open_page;
use super::run::{SERVICES, planned};
use crate::cli::{self, Verbosity};
use crate::progress::TerminalProgress;
use document::Pilot;
use error::SizeError;
use plimsoll_lab::environment;
use plimsoll_lab::run::{self, Outcome, Silent};
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::recording::model::Results;
use plimsoll_model::recording::size::ProgramSize;
use plimsoll_model::recording::{FailureCode, WarningCode};
use plimsoll_model::scenario::{Machine, Plan};
use plimsoll_report as report;
use plimsoll_report::workloads::command::{BASE_PEAK, BASE_WALL};
use plimsoll_sample::stop::Stop;
use request::Request;

/// Samples a second.
const HZ: u32 = 10;

pub(super) fn size(options: &cli::Size, verbosity: &Verbosity) -> Result<Exit, Failure> {
    if options.service.cgroup.is_some() || options.service.pid.is_some() {
        return service::size(options, verbosity);
    }
    let machine = environment::machine().or_exit(Exit::Missing)?;
    let mut request = Request::of(options)?;
    engines::choose(&mut request, &machine)?;
    // Each run has a stop of its own; this one also sees a signal between them.
    let stop = Stop::install().or_exit(Exit::Missing)?;
    let mut progress = TerminalProgress::new(verbosity.quiet, verbosity.verbose);
    progress.bounds(&format!(
        "{}: one run without pressure, for its peak and its time",
        request.program()
    ));
    let pilot = pilot(&request, options, machine)?;
    // The memory of the pilot is free again.
    let machine = environment::machine().or_exit(Exit::Missing)?;
    let plan = document::search(&request, &pilot, &machine)?;
    progress.bounds(&planned::bounds(&plan, HZ));
    if let Some(cause) = stop.cause() {
        return Err(Failure::message(cause.exit(), cause));
    }
    let outcome = run::run(settings(plan, machine, options), &SERVICES, &mut progress)?;
    present(&outcome, options, verbosity)?;
    let exit = judged(&request, &outcome)?;
    if options.open {
        open_page::open(&outcome.page)?;
    }
    Ok(exit)
}

fn settings(plan: Plan, machine: Machine, options: &cli::Size) -> run::Options {
    run::Options {
        size: planned::recording_size(&plan, HZ),
        plan,
        machine,
        hz: HZ,
        output: options.output.clone(),
        resume: None,
        wait: options.wait.map(Duration::from_secs),
    }
}

/// Runs the program once without pressure. Removes the recording of that run.
fn pilot(request: &Request, options: &cli::Size, machine: Machine) -> Result<Pilot, Failure> {
    let is_new = !options.output.exists();
    let plan = document::pilot(request, &machine)?;
    let outcome = run::run(settings(plan, machine, options), &SERVICES, &mut Silent);
    let found = outcome.and_then(|outcome| {
        let found = of_pilot(request, &outcome);
        remove(&outcome.directory).and(found)
    });
    if found.is_err() && is_new {
        // A folder that has something else stays.
        let _ = fs::remove_dir(&options.output);
    }
    found
}

fn remove(folder: &Path) -> Result<(), Failure> {
    fs::remove_dir_all(folder)
        .map_err(|error| anyhow::anyhow!("cannot remove {}: {error}", folder.display()))
        .or_exit(Exit::Missing)
}

/// Peak and time of the pilot, or the reason for its failure.
fn of_pilot(request: &Request, outcome: &Outcome) -> Result<Pilot, Failure> {
    let metric = |name: &str| {
        let trial = outcome.results.trials.first()?;
        trial.metrics.get(name).copied()
    };
    let ended = matches!(outcome.exit, Exit::Done | Exit::Untrustworthy);
    match (metric(BASE_PEAK), metric(BASE_WALL)) {
        (Some(peak), Some(wall_s)) if ended => Ok(Pilot {
            peak: peak as u64,
            wall_s,
        }),
        _ => {
            let (program, reason) = (request.program().to_owned(), reason(&outcome.results));
            let error = match was_stopped(&outcome.results) {
                true => SizeError::Stopped { program, reason },
                false => SizeError::Pilot { program, reason },
            };
            let exit = match ended {
                true => Exit::WorkloadFailed,
                false => outcome.exit,
            };
            Err(Failure::new(exit, error))
        }
    }
}

fn was_stopped(results: &Results) -> bool {
    use FailureCode::{Signal, TimeLimit, Tripwire};
    let mut failures = results.trials.iter().flat_map(|trial| &trial.failures);
    let by_warning = results
        .warnings
        .iter()
        .any(|one| one.code == WarningCode::Stopped);
    by_warning || failures.any(|failure| matches!(failure.code, Signal | TimeLimit | Tripwire))
}

/// The reasons of a failed trial or, without one, the cause of the stop.
fn reason(results: &Results) -> String {
    let of_trial = results.trials.iter().flat_map(|trial| trial.reasons.iter());
    let reasons: Vec<&str> = of_trial.map(String::as_str).collect();
    if !reasons.is_empty() {
        return reasons.join("; ");
    }
    let stopped = results
        .warnings
        .iter()
        .find(|one| one.code == WarningCode::Stopped);
    stopped.map_or_else(|| "it has no result".to_owned(), |one| one.text.clone())
}

/// Prints the result, as text or JSON.
fn present(outcome: &Outcome, options: &cli::Size, verbosity: &Verbosity) -> Result<(), Failure> {
    let Some(size) = &outcome.results.size else {
        return Ok(());
    };
    if options.json {
        return super::print_json(size);
    }
    let colour = super::colour_on_stdout(verbosity);
    let width = super::width_of_stdout();
    let mut text = report::terminal::program_size(size, width, colour);
    text.push('\n');
    text.push_str(&report::terminal::notes(&outcome.results, width));
    text.push('\n');
    super::print_styled(&text)?;
    super::print_recording(&outcome.directory, Some(&outcome.page), verbosity)
}

/// The exit code of the run or, if it went well, of the budget.
fn judged(request: &Request, outcome: &Outcome) -> Result<Exit, Failure> {
    match (request.budget, &outcome.results.size) {
        (Some(budget), Some(size)) if matches!(outcome.exit, Exit::Done | Exit::Untrustworthy) => {
            check(request.program(), size, budget)?;
            Ok(outcome.exit)
        }
        _ => Ok(outcome.exit),
    }
}

/// Checks that the program needs no more than the budget on any engine.
fn check(program: &str, size: &ProgramSize, budget: u64) -> Result<(), SizeError> {
    let trusted = |engine: &&plimsoll_model::recording::size::EngineSize| !engine.untrustworthy;
    for engine in size.engines.iter().filter(trusted) {
        if let Some(needed) = engine.recommended_bytes.filter(|needed| *needed > budget) {
            return Err(SizeError::OverBudget {
                program: program.to_owned(),
                engine: engine.engine.clone(),
                needed,
                budget,
            });
        }
    }
    let mut engines = size.engines.iter();
    match engines.find(|engine| engine.untrustworthy || engine.recommended_bytes.is_none()) {
        Some(engine) => Err(SizeError::Unknown {
            engine: engine.engine.clone(),
            budget,
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
