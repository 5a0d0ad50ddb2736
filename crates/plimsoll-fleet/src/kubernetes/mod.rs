//! Kubernetes: Indexed Jobs with one privileged pod a node.
//!
//! | event | reaction |
//! |---|---|
//! | a task fails | the Job starts its index again, up to the plan's retries; with a node list on the same node |
//! | an eviction, a drained node | the same: node-pressure eviction is the expected failure of a test of memory pressure |
//! | an unreachable node | its pod does not end, and its task waits, until the node object is deleted |
//! | the plan's number of failed tasks | `maxFailedIndexes`: the Job ends its pods |
//! | `fleet cancel` | the Jobs are deleted, and their pods get SIGTERM, at which a run undoes its changes; pods on dead nodes are left |
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
/// Time for the pods of deleted Jobs to end: `terminationGracePeriodSeconds`, and some. Without a limit, kubectl waits 168 hours.
const MOST_CANCEL_SECONDS: u32 = 180;
/// kubectl's error at the end of its `--timeout`.
const TIMED_OUT: &str = "timed out waiting for the condition";

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

/// Deletes the Jobs, and waits for the end of their pods. The volume with the results stays. A pod that does not end is in
/// [`Cancelled::left`] with its node.
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
        command.arg(format!("--timeout={MOST_CANCEL_SECONDS}s"));
        command.args(["--namespace", manifests.namespace(), "--selector"]);
        let error = match script::output(command.arg(manifests.selector())) {
            Ok(text) => return Ok(stopped(&text)),
            Err(error) => error,
        };
        if !is_time_out(&error) {
            return Err(error);
        }
        let left = self.left_pods(manifests)?;
        // The last pod ended meanwhile, and the Jobs go next: a second cancel finds none.
        if left.is_empty() {
            return Err(error);
        }
        Ok(Cancelled {
            stopped: Vec::new(),
            left,
        })
    }

    /// The pods of tasks that still exist, one a line. On a dead node, no kubelet confirms the end of a pod.
    fn left_pods(&self, manifests: &Manifests<'_>) -> Result<Vec<String>, FleetError> {
        let mut command = self.command("kubectl");
        command.args([
            "get",
            "pods",
            "--no-headers",
            "--output=custom-columns=POD:.metadata.name,NODE:.spec.nodeName",
        ]);
        command.args(["--namespace", manifests.namespace(), "--selector"]);
        let text = script::output(command.arg(manifests.task_pods()))?;
        Ok(text.lines().filter_map(left_pod).collect())
    }
}

/// The deleted Jobs: lines `job.batch/NAME`. kubectl prints another line if there are none.
fn stopped(text: &str) -> Cancelled {
    let jobs = text.lines().map(str::trim).filter(|line| line.contains('/'));
    Cancelled {
        stopped: jobs.map(|line| sanitize(line).into_owned()).collect(),
        left: Vec::new(),
    }
}

fn is_time_out(error: &FleetError) -> bool {
    matches!(error, FleetError::Engine { stderr, .. } if stderr.contains(TIMED_OUT))
}

/// A line `POD NODE` of kubectl as a reason and a remedy.
fn left_pod(line: &str) -> Option<String> {
    let mut words = line.split_whitespace().map(sanitize);
    let pod = words.next()?;
    let node = words.next().unwrap_or("<none>".into());
    Some(format!(
        "pod {pod} on node {node} did not end within {MOST_CANCEL_SECONDS} s (if the node is dead: \
         `kubectl delete node {node}`)"
    ))
}
