//! `plimsoll fleet`: a scenario on many hosts.

mod collect;
mod plan;
mod report;
mod submit;

use std::path::{Path, PathBuf};

use crate::cli::{FleetCommand, Verbosity};
use plimsoll_fleet::plan::{Engine, Plan};
use plimsoll_fleet::{FleetError, Submitted, slurm};
use plimsoll_model::exit::{Exit, Failure};

pub(super) fn fleet(command: &FleetCommand, verbosity: &Verbosity) -> Result<Exit, Failure> {
    match command {
        FleetCommand::Plan(options) => plan::plan(options, verbosity),
        FleetCommand::Submit(options) => submit::submit(options, verbosity),
        FleetCommand::Cancel(options) => submit::cancel(options, verbosity),
        FleetCommand::Collect(options) => collect::collect(options, verbosity),
        FleetCommand::Report(options) => report::report(options, verbosity),
    }
}

fn failure(error: FleetError) -> Failure {
    Failure::new(error.exit(), error)
}

fn read_plan(folder: &Path) -> Result<Plan, Failure> {
    Plan::read(folder).map_err(failure)
}

/// Keeps the engine's own record of the tasks of a submitted job in the fleet's folder. Slurm alone has such records.
fn keep_accounting(plan: &Plan, folder: &Path, submitted: &Submitted) -> Result<(), FleetError> {
    match plan.engine {
        Engine::Slurm { .. } => slurm::keep_accounting(plan, folder, submitted),
        Engine::Ssh { .. } | Engine::Kubernetes { .. } => Ok(()),
    }
}

/// The data set of a fleet's folder.
fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}
