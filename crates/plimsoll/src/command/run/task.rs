//! `plimsoll run --task`: a run as a task of a fleet.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::{SERVICES, document, overrides, planned, settings};
use crate::cli::{self, Verbosity};
use crate::command::cleanup::is_task;
use crate::progress::TerminalProgress;
use plimsoll_fleet::fingerprint::Fingerprint;
use plimsoll_fleet::plan::TaskId;
use plimsoll_fleet::task::{AttemptFolder, Ending, Published, TaskFolder, TaskProcess, TaskResult};
use plimsoll_fleet::{FleetError, Folder};
use plimsoll_lab::environment::{self, LeftCause};
use plimsoll_lab::run::{Outcome, Progress, Ready};
use plimsoll_model::exit::{Exit, Failure, OrExit};

/// The count of earlier starts by Slurm.
const RESTARTS: &str = "SLURM_RESTART_COUNT";
/// Longest program.
const MOST_BYTES: u64 = 1 << 32;
/// How often a start looks whether another attempt has ended.
const POLL: Duration = Duration::from_millis(100);

/// A start of a task on this host.
struct Start<'a> {
    options: &'a cli::Run,
    verbosity: &'a Verbosity,
    task: TaskFolder,
    process: TaskProcess,
}

/// Skips a finished task. Otherwise runs an attempt, on a machine without the changes of dead tasks.
///
/// # Errors
/// That of the run, so that the engine starts the task again.
pub(super) fn run(options: &cli::Run, id: &TaskId, verbosity: &Verbosity) -> Result<Exit, Failure> {
    let process = TaskProcess::this().map_err(failure)?;
    let start = Start {
        options,
        verbosity,
        task: TaskFolder::open(&options.output, id).map_err(failure)?,
        process,
    };
    if let Some(result) = start.settled()? {
        return start.skip(&result);
    }
    let binary_sha256 = program_sha256()?;
    let mut progress = TerminalProgress::new(verbosity.quiet, verbosity.verbose);
    let ready = take_machine(options, &progress);
    // During the wait for the machine, another attempt may have died, or finished the task.
    if let Ok(ready) = &ready {
        start.wait_for_rival(ready, &progress)?;
    }
    if let Some(result) = start.settled()? {
        return start.skip(&result);
    }
    start.attempt(ready, &binary_sha256, &mut progress)
}

impl Start<'_> {
    /// The result of the task, if it is done. Removes the parts of attempts that are of no use any more.
    fn settled(&self) -> Result<Option<TaskResult>, Failure> {
        let done = self.task.done().map_err(failure)?;
        let settled = self.task.settle(&self.process, done.as_ref());
        settled.map_err(failure)?;
        Ok(done)
    }

    /// Waits for a live attempt of this host, as long as the options say. A run gives the machine away before its result is published.
    fn wait_for_rival(&self, ready: &Ready, progress: &dyn Progress) -> Result<(), Failure> {
        let wait = Duration::from_secs(self.options.wait.unwrap_or(0));
        let start = Instant::now();
        let mut is_told = false;
        while let Some(number) = self.task.under_way(&self.process).map_err(failure)? {
            if ready.is_stopped() || start.elapsed() >= wait {
                break;
            }
            if !is_told {
                progress.warn(&format!("waiting for attempt {number} of this task to end"));
                is_told = true;
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Begins an attempt, runs the scenario in it, and publishes the result.
    fn attempt(
        &self,
        ready: Result<Ready, Failure>,
        binary_sha256: &str,
        progress: &mut TerminalProgress,
    ) -> Result<Exit, Failure> {
        // Here the host has no swap and no settings of another run.
        let host = Fingerprint::this();
        let mut attempt = match self.task.begin(&self.process, restarts()) {
            Ok(attempt) => attempt,
            Err(error) => return self.not_begun(error),
        };
        let ran = ready.and_then(|mut ready| {
            ready.set_output(attempt.path().to_owned());
            ready.run(&SERVICES, progress)
        });
        let ended = ran.and_then(|outcome| {
            let ending = Ending {
                exit: outcome.exit as u8,
                recording: outcome.directory.file_name().map(Path::new),
                host: &host,
                binary_sha256,
            };
            let published = is_result(outcome.exit).then(|| attempt.finish(&ending));
            let published = published.transpose().map_err(failure)?;
            Ok((outcome, published))
        });
        match ended {
            Ok((outcome, Some(Published::Won(result)))) => self.present(&result, outcome),
            Ok((_, Some(Published::Lost(result)))) => self.skip(&result),
            Ok((outcome, None)) => self.give_up(attempt, Ok(outcome)),
            Err(error) => self.give_up(attempt, Err(error)),
        }
    }

    /// Ends without an attempt. An attempt of another host that finishes the task removes the claims of the others.
    fn not_begun(&self, error: FleetError) -> Result<Exit, Failure> {
        match self.task.done() {
            Ok(Some(result)) => self.skip(&result),
            _ => Err(failure(error)),
        }
    }

    /// Ends an attempt that has no result.
    fn give_up(&self, mut attempt: AttemptFolder, ran: Result<Outcome, Failure>) -> Result<Exit, Failure> {
        let exit = match &ran {
            Ok(outcome) => outcome.exit,
            Err(error) => error.exit,
        };
        // The faster attempt of another host may have removed the parts of this one, so that it failed. Or it failed after its own
        // publication.
        if let Ok(Some(result)) = self.task.done() {
            let concluded = attempt.conclude(result.clone(), exit as u8);
            concluded.map_err(failure)?;
            return self.skip(&result);
        }
        let noted = attempt.fail(exit as u8).map_err(failure);
        // Rather the error of the run than that of its note: an attempt without a note is found dead later.
        let outcome = ran?;
        noted?;
        super::present(&outcome, self.options.json, self.verbosity)?;
        Ok(outcome.exit)
    }

    /// Presents the results of the run that gave the task's, with their published place.
    fn present(&self, result: &TaskResult, mut outcome: Outcome) -> Result<Exit, Failure> {
        // Parts of earlier attempts have no use any more.
        let settled = self.task.settle(&self.process, Some(result));
        settled.map_err(failure)?;
        let published = self.options.output.join(result.task.as_str());
        let published = published.join(plimsoll_fleet::task::RECORDING);
        if let Some(page) = outcome.page.file_name() {
            outcome.page = published.join(page);
        }
        outcome.directory = published;
        super::present(&outcome, self.options.json, self.verbosity)?;
        // The engine must not start it again: distrust is in the result.
        Ok(Exit::Done)
    }

    /// Ends without a result of this start.
    fn skip(&self, result: &TaskResult) -> Result<Exit, Failure> {
        if self.options.json {
            crate::command::print_json(result)?;
        } else if !self.verbosity.quiet {
            crate::command::print(&format!(
                "Task {} is finished by attempt {}\n",
                result.task, result.attempt
            ))?;
        }
        Ok(Exit::Done)
    }
}

/// Takes the machine for the run of the scenario, without the changes of dead tasks.
fn take_machine(options: &cli::Run, progress: &TerminalProgress) -> Result<Ready, Failure> {
    undo_dead_tasks()?;
    let machine = environment::machine().or_exit(Exit::Missing)?;
    let plan = document(options)?
        .resolve(&machine, &overrides(options)?)
        .or_exit(Exit::Usage)?;
    progress.bounds(&planned::bounds(&plan, options.hz));
    let mut ready = Ready::take_machine(settings(options, plan, machine), progress)?;
    // The task that had the machine has died: a cleanup takes the machine itself.
    while ready.has_machine() && !undo_dead_tasks()? {
        ready = ready.without_machine(|| undo_dead_tasks().map(drop), progress)?;
    }
    Ok(ready)
}

/// Whether a run with this exit code gives a result. Distrusted metrics are one: another attempt on the same host would not be better.
fn is_result(exit: Exit) -> bool {
    matches!(exit, Exit::Done | Exit::Untrustworthy)
}

/// Undoes what dead tasks left on this host, also those of other fleets. Leaves other dead runs alone. Returns whether there is
/// nothing left: while a run has the machine, also this one, a cleanup undoes nothing.
fn undo_dead_tasks() -> Result<bool, Failure> {
    let report = environment::cleanup_of(&is_task, None).or_exit(Exit::Missing)?;
    let left = report.runs.iter().flat_map(|run| &run.left);
    let stuck = left
        .filter(|left| !matches!(left.cause, LeftCause::MachineLocked { .. }))
        .map(ToString::to_string)
        .collect::<Vec<_>>();
    if stuck.is_empty() {
        return Ok(report.is_clean());
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

fn failure(error: FleetError) -> Failure {
    Failure::new(error.exit(), error)
}
