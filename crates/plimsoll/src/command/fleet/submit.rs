//! `plimsoll fleet submit` and `plimsoll fleet cancel`.

use std::fmt::Write;
use std::path::Path;

use super::{failure, read_plan};
use crate::cli::{FleetFolder, FleetSubmit, Verbosity};
use plimsoll_fleet::plan::{Engine, Plan};
use plimsoll_fleet::{Cancelled, Submitted, kubernetes, slurm, ssh};
use plimsoll_model::exit::{Exit, Failure};
use plimsoll_model::sanitize::sanitize;

pub(super) fn submit(options: &FleetSubmit, verbosity: &Verbosity) -> Result<Exit, Failure> {
    let folder = &options.folder;
    let plan = read_plan(folder)?;
    if options.dry_run {
        let commands = plimsoll_fleet::submit_commands(folder).map_err(failure)?;
        super::super::print(&commands)?;
        return Ok(Exit::Done);
    }
    if let Some(before) = Submitted::read(folder).map_err(failure)? {
        return Err(Failure::message(
            Exit::Usage,
            format_args!(
                "cannot submit {}: it is job {} since {}; `plimsoll fleet cancel` ends that one, and then a submission \
                 runs the tasks that are not done",
                folder.display(),
                sanitize(&before.job),
                sanitize(&before.at)
            ),
        ));
    }
    let submitted = send(&plan, folder)?;
    submitted.write(folder).map_err(failure)?;
    if !verbosity.quiet {
        let text = format!(
            "Submitted  {} tasks as job {} of {}\nNext       plimsoll fleet collect {}\n",
            plan.tasks.len(),
            submitted.job,
            submitted.engine,
            folder.display()
        );
        super::super::print(&text)?;
    }
    Ok(Exit::Done)
}

fn send(plan: &Plan, folder: &Path) -> Result<Submitted, Failure> {
    let submitted = match plan.engine {
        Engine::Slurm { .. } => slurm::submit(plan, folder),
        Engine::Ssh { .. } => ssh::submit(plan, folder),
        Engine::Kubernetes { .. } => kubernetes::submit(plan, folder),
    };
    submitted.map_err(failure)
}

/// Returns code 3 if a task could not be ended.
pub(super) fn cancel(options: &FleetFolder, verbosity: &Verbosity) -> Result<Exit, Failure> {
    let folder = &options.folder;
    let plan = read_plan(folder)?;
    let Some(submitted) = Submitted::read(folder).map_err(failure)? else {
        return Err(Failure::message(
            Exit::Usage,
            format_args!("cannot cancel {}: it is not submitted", folder.display()),
        ));
    };
    let cancelled = match plan.engine {
        Engine::Slurm { .. } => slurm::cancel(&plan, folder, &submitted),
        Engine::Ssh { .. } => ssh::cancel(&plan, folder, &submitted),
        Engine::Kubernetes { .. } => kubernetes::cancel(&plan, folder, &submitted),
    };
    let cancelled = cancelled.map_err(failure)?;
    if !verbosity.quiet {
        super::super::print(&summary(&cancelled))?;
    }
    if !cancelled.left.is_empty() {
        return Err(Failure::message(
            Exit::Missing,
            format_args!(
                "cannot end every task: {}; cancel again",
                cancelled.left.join("; ")
            ),
        ));
    }
    Submitted::remove(folder).map_err(failure)?;
    Ok(Exit::Done)
}

fn summary(cancelled: &Cancelled) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "Ended  {}", cancelled.stopped.len());
    for stopped in &cancelled.stopped {
        let _ = writeln!(text, "  {stopped}");
    }
    text
}
