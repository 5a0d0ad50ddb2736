//! Kubernetes: Indexed Jobs with one privileged pod a node.
//!
//! | event | reaction |
//! |---|---|
//! | a task fails | the Job starts its index again, up to the plan's retries; with a node list on the same node |
//! | an eviction, a drained node | the Job starts the index again; this is no retry |
//! | the plan's number of failed tasks | `maxFailedIndexes`: the Job ends its pods |
//! | `fleet cancel` | the Jobs are deleted, and their pods get SIGTERM, at which a run undoes its changes |
//!
//! A volume of a claim has the files of the fleet's folder and the results. With a node list, each node has a Job of its own: all pods
//! of a Job have the same node selector.

mod manifests;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use plimsoll_model::sanitize::sanitize;
use plimsoll_proc::TrustedFolder;

use crate::plan::Plan;
use crate::{Cancelled, FleetError, Folder, Submitted, script};
use manifests::Manifests;

const SUBMIT: &str = "submit.sh";
const LOGS: &str = "logs";

/// Writes the files of the engine.
///
/// # Errors
/// Those of [`Folder::write`]; [`FleetError::Refused`] for a plan that Kubernetes cannot carry out.
pub fn write(plan: &Plan, folder: &Path) -> Result<(), FleetError> {
    let manifests = Manifests::of(plan)?;
    let folder = Folder::open(folder)?;
    folder.make_folder(LOGS)?;
    script::write_task(plan, &folder)?;
    for (name, text) in manifests.files() {
        script::write(&folder, name, &text)?;
    }
    Ok(())
}

/// Runs `submit.sh`.
///
/// # Errors
/// [`FleetError::Untrusted`] for root, if another user could write to the folder; [`FleetError::Engine`] if `kubectl` fails.
pub fn submit(_: &Plan, folder: &Path) -> Result<Submitted, FleetError> {
    Cluster::default().submit(folder)
}

/// Deletes the Jobs, and waits for the end of their pods. The volume with the results stays.
///
/// # Errors
/// [`FleetError::Engine`] if `kubectl` fails.
pub fn cancel(plan: &Plan, _: &Path, _: &Submitted) -> Result<Cancelled, FleetError> {
    Cluster::default().cancel(&Manifests::of(plan)?)
}

/// The cluster of `kubectl`.
#[derive(Debug, Default)]
struct Cluster {
    /// Where to find `kubectl`, other than in the `PATH` of this process.
    path: Option<OsString>,
}

impl Cluster {
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        if let Some(path) = &self.path {
            command.env("PATH", path);
        }
        command
    }

    fn submit(&self, folder: &Path) -> Result<Submitted, FleetError> {
        if rustix::process::geteuid().is_root() {
            TrustedFolder::own(folder)?;
        }
        let text = script::output(self.command("sh").arg(SUBMIT).current_dir(folder))?;
        Ok(Submitted::now("kubernetes", text.trim()))
    }

    fn cancel(&self, manifests: &Manifests<'_>) -> Result<Cancelled, FleetError> {
        let mut command = self.command("kubectl");
        command.args([
            "delete",
            "jobs",
            "--wait",
            "--cascade=foreground",
            "--output=name",
        ]);
        command.args(["--namespace", manifests.namespace(), "--selector"]);
        let text = script::output(command.arg(manifests.selector()))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        Ok(Cancelled {
            stopped: lines.map(|line| sanitize(line).into_owned()).collect(),
            left: Vec::new(),
        })
    }
}
