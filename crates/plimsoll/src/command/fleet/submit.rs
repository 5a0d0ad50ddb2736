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
    require_new(&plan, folder)?;
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

/// Refuses a second job beside the first. Over ssh, a submission goes on with an interrupted one, and a lock refuses two at once.
fn require_new(plan: &Plan, folder: &Path) -> Result<(), Failure> {
    if let Engine::Ssh { .. } = plan.engine {
        return Ok(());
    }
    let Some(before) = Submitted::read(folder).map_err(failure)? else {
        return Ok(());
    };
    let shown = folder.display();
    Err(Failure::message(
        Exit::Usage,
        format_args!(
            "cannot submit {shown}: already submitted as job {} at {}; to run the tasks without a result again, run \
             `plimsoll fleet cancel {shown}`, then `plimsoll fleet submit {shown}`",
            sanitize(&before.job),
            sanitize(&before.at)
        ),
    ))
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
    let submitted = job(&plan, folder)?;
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
    // The last question about this job: the record says which tasks were cancelled, and is of no other use.
    let _ = super::keep_accounting(&plan, folder, &submitted);
    Submitted::remove(folder).map_err(failure)?;
    Ok(Exit::Done)
}

/// The job to cancel. Only Slurm needs its id: over ssh and on Kubernetes, tasks are found by the name of the run, also those of an
/// interrupted submission.
fn job(plan: &Plan, folder: &Path) -> Result<Submitted, Failure> {
    if let Some(submitted) = Submitted::read(folder).map_err(failure)? {
        return Ok(submitted);
    }
    match plan.engine {
        Engine::Ssh { .. } | Engine::Kubernetes { .. } => Ok(Submitted::now(plan.engine.name(), &plan.run)),
        Engine::Slurm { .. } => Err(Failure::message(
            Exit::Usage,
            format_args!(
                "cannot cancel {}: it is not submitted by `fleet submit`; to cancel a job that `sh submit.sh` \
                 submitted, run `scancel JOB`",
                folder.display()
            ),
        )),
    }
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
