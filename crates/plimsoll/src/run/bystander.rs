//! The heartbeat outside of the run's cgroup: what a run does to those who have nothing to do with it.
//!
//! One worker stays for the whole run. In each trial it wakes up a hundred times a second, from before the environment
//! is made until it is undone. It is an ordinary process with ordinary priority and unlocked memory, as it stands for
//! everybody else; nor is it the first that the kernel kills when the whole machine runs out, as the other workers are.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::Laboratory;
use crate::exit::Failure;
use crate::recording::bystander;
use crate::workload::WorkerOptions;
use crate::workload::probe::{Probe, ProbeKind};
use crate::workload::protocol::{Command, Reply};

/// Seconds between two wake-ups: a tenth of what a person notices.
const PERIOD: f64 = 0.01;
/// Longest wait for its answer. It answers within a hundredth of a second, but it may be in a queue behind the run.
const PATIENCE: Duration = Duration::from_secs(10);

impl Laboratory<'_> {
    /// Begins the heartbeat of a trial. A run without one goes on, and says so.
    pub(super) fn begin_heartbeat(&mut self) -> Result<(), Failure> {
        let command = Command::Probe(Probe {
            kind: ProbeKind::Heartbeat,
            period: PERIOD,
        });
        match self.ask_bystander(&command) {
            Ok(_) => Ok(()),
            Err(error) => self.lose_bystander(&error),
        }
    }

    /// Ends the heartbeat of a trial, and returns its metrics.
    pub(super) fn end_heartbeat(&mut self) -> Result<BTreeMap<String, f64>, Failure> {
        if self.bystander.is_none() {
            return Ok(BTreeMap::new());
        }
        match self.ask_bystander(&Command::ProbeEnd) {
            Ok(Reply::Found { findings, .. }) => Ok(bystander::metrics(&findings.figures)),
            Ok(other) => {
                self.lose_bystander(&format!("it answered {other:?}"))?;
                Ok(BTreeMap::new())
            }
            Err(error) => {
                self.lose_bystander(&error)?;
                Ok(BTreeMap::new())
            }
        }
    }

    /// Ends the worker, where there is one.
    pub(super) fn retire_bystander(&mut self) {
        if let Some(worker) = self.bystander.take() {
            self.retire_worker(worker);
        }
    }

    /// Carries out a command in the worker, and starts it where it does not run yet.
    fn ask_bystander(&mut self, command: &Command) -> Result<Reply, String> {
        let mut worker = match self.bystander.take() {
            Some(worker) => worker,
            None => self
                .start_worker(&WorkerOptions {
                    bystander: true,
                    ..WorkerOptions::default()
                })
                .map_err(|trouble| trouble.reason)?,
        };
        // A stop does not keep it from saying what it saw until then.
        let reply = worker.call(command, PATIENCE, &AtomicBool::new(false));
        self.bystander = Some(worker);
        reply.map_err(|error| error.to_string())
    }

    /// Says that nothing is known of others in this trial. The next one tries with a new worker.
    fn lose_bystander(&mut self, reason: &str) -> Result<(), Failure> {
        self.retire_bystander();
        self.warn(format!(
            "what a trial did to processes outside of its cgroup is unknown: the heartbeat failed: {reason}"
        ))
    }
}
