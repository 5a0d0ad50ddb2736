//! The guard of a trial: a worker outside of the trial's cgroup guards that cgroup.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_model::scenario::GuardPolicy;
use plimsoll_model::scenario::workloads::finding;
use plimsoll_sample::stop::Stop;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::GuardError;
use super::{Options, Protection, ScopeChoice, Summary, guard};
use crate::workload::protocol::{Command, Reply};
use crate::workload::{Cost, Findings, Memory, Work, WorkError, Worker, WorkerError, WorkerOptions, typed};

/// The name that the runner asks for this work by; no workload of a scenario has it.
const NAME: &str = "guard";
/// Longest wait for an answer: a page-out may have to end.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
enum Request {
    Begin {
        policy: GuardPolicy,
        cgroup: PathBuf,
        /// Numbers of the probes.
        spared: Vec<u32>,
    },
    End,
}

impl Request {
    fn command(&self) -> Command {
        Command::Work {
            workload: NAME.to_owned(),
            // The worker refuses `null`.
            request: serde_json::to_value(self).unwrap_or_default(),
        }
    }
}

/// The worker's side.
pub(crate) fn work(name: &str) -> Option<Box<dyn Work>> {
    (name == NAME).then(|| Box::<Guarding>::default() as Box<dyn Work>)
}

/// A guard in a thread. It ends with the value.
#[derive(Debug, Default)]
struct Guarding {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<Result<Summary, GuardError>>>,
}

#[derive(Debug, thiserror::Error)]
enum GuardingError {
    #[error(transparent)]
    Guard(#[from] GuardError),
    #[error("cannot start a thread: {0}; raise the limit of processes (ulimit -u, pids.max)")]
    Thread(std::io::Error),
    #[error("cannot end the guard: it has not begun, or panicked")]
    Absent,
}

impl Guarding {
    fn end(&mut self) -> Result<Summary, GuardingError> {
        self.stop.trip("the trial is over".to_owned());
        let ended = self.thread.take().and_then(|thread| thread.join().ok());
        Ok(ended.ok_or(GuardingError::Absent)??)
    }
}

impl Work for Guarding {
    fn carry_out(&mut self, request: &Value, _: Option<&mut Memory>) -> Result<Reply, WorkError> {
        let findings = match typed(request)? {
            Request::Begin {
                policy,
                cgroup,
                spared,
            } => {
                let options = options(policy, cgroup, spared);
                let stop = Arc::clone(&self.stop);
                let thread = std::thread::Builder::new().name("guard".to_owned());
                let thread = thread.spawn(move || guard(&options, &stop, &mut |_| {}));
                let thread = thread.map_err(|error| WorkError::of_workload(GuardingError::Thread(error)))?;
                // A guard that cannot begin ends at once.
                std::thread::sleep(Duration::from_millis(100));
                let has_failed = thread.is_finished();
                self.thread = Some(thread);
                if has_failed {
                    self.end().map_err(WorkError::of_workload)?;
                }
                Findings::default()
            }
            Request::End => findings(&self.end().map_err(WorkError::of_workload)?),
        };
        Ok(Reply::Found {
            cost: Cost::default(),
            findings,
        })
    }
}

impl Drop for Guarding {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn options(policy: GuardPolicy, cgroup: PathBuf, spared: Vec<u32>) -> Options {
    Options {
        scope: ScopeChoice::Cgroup(cgroup),
        policy,
        protection: Protection {
            pids: spared,
            // The trial's workers are of the session of the run.
            own_session_is_free: true,
            ..Protection::default()
        },
        dry_run: false,
        duration: None,
    }
}

fn findings(summary: &Summary) -> Findings {
    let mut findings = Findings::default();
    findings.set(finding::GUARD_STOPS, summary.stops as f64);
    findings.set(finding::GUARD_TRIMS, summary.trims as f64);
    findings.set(finding::GUARD_CPU, summary.cpu_percent);
    findings
}

/// The options of [`WorkerOptions`] for the worker of a guard: outside of the cgroup, and no first victim of the OOM killer.
pub(crate) fn worker_options() -> WorkerOptions {
    WorkerOptions {
        neighbour: true,
        ..WorkerOptions::default()
    }
}

/// Has the worker guard the cgroup of a trial, whose processes `spared` are the probes.
pub(crate) fn begin(
    worker: &mut Worker,
    policy: GuardPolicy,
    cgroup: &Path,
    spared: Vec<u32>,
) -> Result<(), WorkerError> {
    let begin = Request::Begin {
        policy,
        cgroup: cgroup.to_owned(),
        spared,
    };
    // An interrupted call would still owe its answer when the guard is ended.
    worker
        .call(&begin.command(), PATIENCE, &AtomicBool::new(false))
        .map(drop)
}

/// Ends the guard; every process runs again. Returns its findings.
pub(crate) fn end(worker: &mut Worker) -> Result<Findings, WorkerError> {
    // Also after a stop: else the end of the worker would leave its journal.
    match worker.call(&Request::End.command(), PATIENCE, &AtomicBool::new(false))? {
        Reply::Found { findings, .. } => Ok(findings),
        other => Err(WorkerError::Protocol(format!("{other:?}"))),
    }
}
