//! `plimsoll run --task`: a run as a task of a fleet.

use std::path::Path;
use std::time::Duration;

use super::{document, measure, overrides};
use crate::cli::{self, Verbosity};
use plimsoll_fleet::fingerprint::Fingerprint;
use plimsoll_fleet::plan::TaskId;
use plimsoll_fleet::task::{AttemptFolder, Ending, Published, TaskFolder, TaskProcess, TaskResult};
use plimsoll_fleet::{FleetError, Folder};
use plimsoll_lab::environment::{self, LeftCause};
use plimsoll_lab::run::Outcome;
use plimsoll_model::exit::{Exit, Failure, OrExit};

/// Option of the command line that tells the journal of a task from those of other runs.
const OPTION: &str = "--task";
/// The count of earlier starts by Slurm.
const RESTARTS: &str = "SLURM_RESTART_COUNT";
/// Longest program.
const MOST_BYTES: u64 = 1 << 32;

/// Skips a finished task. Otherwise undoes dead tasks of this host, and runs an attempt.
///
/// # Errors
/// That of the run, so that the engine starts the task again.
pub(super) fn run(options: &cli::Run, id: &TaskId, verbosity: &Verbosity) -> Result<Exit, Failure> {
    let process = TaskProcess::this().map_err(failure)?;
    let task = TaskFolder::open(&options.output, id).map_err(failure)?;
    task.settle(&process).map_err(failure)?;
    if let Some(result) = task.done().map_err(failure)? {
        return skip(options, &result, verbosity);
    }
    undo_dead_tasks(options.wait.map(Duration::from_secs))?;
    let host = Fingerprint::this();
    let binary_sha256 = program_sha256()?;
    let mut attempt = task.begin(&process, restarts()).map_err(failure)?;
    let ran = attempted(options, &attempt, verbosity).and_then(|outcome| {
        if !is_result(outcome.exit) {
            return Ok((outcome, None));
        }
        let published = attempt.finish(&Ending {
            exit: outcome.exit as u8,
            recording: outcome.directory.file_name().map(Path::new),
            host: &host,
            binary_sha256: &binary_sha256,
        });
        Ok((outcome, Some(published.map_err(failure)?)))
    });
    let exit = match &ran {
        Ok((outcome, _)) => outcome.exit,
        Err(error) => error.exit,
    };
    if let Ok((outcome, Some(Published::Won(_)))) = ran {
        // Parts of earlier attempts have no use any more.
        task.settle(&process).map_err(failure)?;
        return present(options, id, outcome, verbosity);
    }
    // The faster attempt of another host may have removed the parts of this one, so that it failed.
    if let Ok(Some(result)) = task.done() {
        attempt.supersede(exit as u8).map_err(failure)?;
        return skip(options, &result, verbosity);
    }
    let noted = attempt.fail(exit as u8).map_err(failure);
    // Rather the error of the run than that of its note: an attempt without a note is found dead later.
    let (outcome, _) = ran?;
    noted?;
    super::present(&outcome, options.json, verbosity)?;
    Ok(outcome.exit)
}

/// Whether a run with this exit code gives a result. Distrusted metrics are one: another attempt on the same host would not be better.
fn is_result(exit: Exit) -> bool {
    matches!(exit, Exit::Done | Exit::Untrustworthy)
}

/// Undoes what dead tasks left on this host, also those of other fleets. Leaves other dead runs alone.
fn undo_dead_tasks(wait: Option<Duration>) -> Result<(), Failure> {
    let is_task = |command: &[String]| {
        let assigned = |argument: &str| {
            argument
                .strip_prefix(OPTION)
                .is_some_and(|rest| rest.starts_with('='))
        };
        command
            .iter()
            .any(|argument| argument == OPTION || assigned(argument))
    };
    let report = environment::cleanup_of(&is_task, wait).or_exit(Exit::Missing)?;
    let left = report.runs.iter().flat_map(|run| &run.left);
    // A live run has the machine: so this task fails when it begins.
    let stuck = left
        .filter(|left| !matches!(left.cause, LeftCause::MachineLocked { .. }))
        .map(ToString::to_string)
        .collect::<Vec<_>>();
    if stuck.is_empty() {
        return Ok(());
    }
    Err(Failure::message(
        Exit::Missing,
        format_args!(
            "cannot run the task: a killed one left changes on this machine: {}; undo them with `plimsoll cleanup`",
            stuck.join("; ")
        ),
    ))
}

fn restarts() -> Option<u32> {
    std::env::var(RESTARTS).ok()?.parse().ok()
}

/// Of this program.
fn program_sha256() -> Result<String, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| anyhow::anyhow!("cannot find this program's own file: {error}"))
        .or_exit(Exit::Missing)?;
    let hash = || -> Result<Option<String>, FleetError> {
        match (program.parent(), program.file_name()) {
            (Some(folder), Some(name)) => Folder::open(folder)?.sha256(name, MOST_BYTES),
            _ => Ok(None),
        }
    };
    let hash = hash().map_err(failure)?;
    hash.ok_or_else(|| {
        let text = format!(
            "cannot read this program's own file {}: it is gone",
            program.display()
        );
        Failure::message(Exit::Missing, text)
    })
}

/// Runs the scenario; its recording is made in the attempt's folder.
fn attempted(options: &cli::Run, attempt: &AttemptFolder, verbosity: &Verbosity) -> Result<Outcome, Failure> {
    let machine = environment::machine().or_exit(Exit::Missing)?;
    let plan = document(options)?
        .resolve(&machine, &overrides(options)?)
        .or_exit(Exit::Usage)?;
    measure(options, plan, machine, attempt.path().to_owned(), verbosity)
}

/// Presents the results with their published place.
fn present(
    options: &cli::Run,
    id: &TaskId,
    mut outcome: Outcome,
    verbosity: &Verbosity,
) -> Result<Exit, Failure> {
    let published = options
        .output
        .join(id.as_str())
        .join(plimsoll_fleet::task::RECORDING);
    if let Some(page) = outcome.page.file_name() {
        outcome.page = published.join(page);
    }
    outcome.directory = published;
    super::present(&outcome, options.json, verbosity)?;
    // The engine must not start it again: distrust is in the result.
    Ok(Exit::Done)
}

/// Ends without a run.
fn skip(options: &cli::Run, result: &TaskResult, verbosity: &Verbosity) -> Result<Exit, Failure> {
    if options.json {
        crate::command::print_json(result)?;
    } else if !verbosity.quiet {
        crate::command::print(&format!(
            "Task {} is finished by attempt {}\n",
            result.task, result.attempt
        ))?;
    }
    Ok(Exit::Done)
}

fn failure(error: FleetError) -> Failure {
    Failure::new(error.exit(), error)
}
