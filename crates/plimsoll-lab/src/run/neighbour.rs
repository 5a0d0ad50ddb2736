//! The neighbour: a wake-up latency probe outside of the run's cgroup.
//!
//! One worker stays for the whole run. In each trial it wakes up a hundred times a second, from before the
//! environment is made until it is undone. It is a process with default priority and unlocked memory, and unlike the
//! other workers not the first victim of the system's OOM killer.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::Runner;
use crate::workload::probe::{Probe, ProbeKind};
use crate::workload::protocol::{Command, Reply};
use crate::workload::{WorkerError, WorkerOptions};
use plimsoll_model::exit::Failure;
use plimsoll_model::recording::{Warning, WarningCode, neighbour};

/// Seconds between two wake-ups: a tenth of the delay that a person notices.
const PERIOD: f64 = 0.01;
/// Longest wait for its answer. It answers within 10 ms on an idle machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// The reason for a trial without neighbour metrics.
#[derive(Debug, thiserror::Error)]
enum NeighbourError {
    /// The worker did not start.
    #[error("{0}")]
    Start(String),
    #[error(transparent)]
    Worker(#[from] WorkerError),
    #[error("cannot use the worker's reply: it is {0:?}; report this defect")]
    Reply(Reply),
}

impl Runner<'_> {
    /// Begins the wake-up probe of a trial. If that fails, the run warns and goes on.
    pub(super) fn start_neighbour(&mut self) -> Result<(), Failure> {
        let command = Command::Probe(Probe {
            kind: ProbeKind::Wakeup,
            period: PERIOD,
        });
        match self.ask_neighbour(&command) {
            Ok(_) => Ok(()),
            Err(error) => self.lose_neighbour(&error),
        }
    }

    /// Ends the wake-up probe of a trial, and returns its metrics.
    pub(super) fn end_neighbour(&mut self) -> Result<BTreeMap<String, f64>, Failure> {
        if self.neighbour.is_none() {
            return Ok(BTreeMap::new());
        }
        match self.ask_neighbour(&Command::ProbeEnd) {
            Ok(Reply::Found { findings, .. }) => Ok(neighbour::metrics(&findings.values)),
            Ok(other) => {
                self.lose_neighbour(&NeighbourError::Reply(other))?;
                Ok(BTreeMap::new())
            }
            Err(error) => {
                self.lose_neighbour(&error)?;
                Ok(BTreeMap::new())
            }
        }
    }

    pub(super) fn retire_neighbour(&mut self) {
        if let Some(worker) = self.neighbour.take() {
            self.retire_worker(worker);
        }
    }

    /// Carries out a command in the worker; starts the worker first if needed.
    fn ask_neighbour(&mut self, command: &Command) -> Result<Reply, NeighbourError> {
        let mut worker = match self.neighbour.take() {
            Some(worker) => worker,
            None => self
                .start_worker(&WorkerOptions {
                    neighbour: true,
                    ..WorkerOptions::default()
                })
                .map_err(|error| NeighbourError::Start(error.failure.message))?,
        };
        // After a stop the probe still returns its measurements.
        let reply = worker.call(command, PATIENCE, &AtomicBool::new(false));
        self.neighbour = Some(worker);
        Ok(reply?)
    }

    /// Warns that the trial has no neighbour metrics. The next trial starts a new worker.
    fn lose_neighbour(&mut self, error: &NeighbourError) -> Result<(), Failure> {
        self.retire_neighbour();
        self.warn(Warning::new(
            WarningCode::NeighbourFailed,
            format!("cannot measure the neighbour's wake-up latency: {error}"),
        ))
    }
}
