//! A task: a run with an id and at most one result, however often an engine starts it and wherever it dies.

use serde::{Deserialize, Serialize};

use crate::plan::TaskId;

pub const VERSION: u32 = 1;

/// `result.json` of a finished task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskResult {
    /// [`VERSION`].
    pub version: u32,
    pub task: TaskId,
    /// The attempt that it is of.
    pub attempt: u32,
    /// Exit code of the run.
    pub exit: u8,
    pub status: ResultStatus,
    /// UTC, RFC 3339.
    pub started: String,
    pub ended: String,
    /// `SLURM_RESTART_COUNT`.
    #[serde(default)]
    pub engine_restarts: Option<u32>,
    /// Of the program that ran it.
    pub binary_sha256: String,
    /// Whether it has a recording.
    pub recording: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResultStatus {
    Done,
    Failed,
}

/// `attempt.json` of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// [`VERSION`].
    pub version: u32,
    /// From 1.
    pub number: u32,
    pub task: TaskId,
    /// `uname -n`.
    pub host: String,
    pub boot_id: String,
    pub pid: u32,
    /// Start of the process in clock ticks since the boot, as another process may get the same pid.
    pub start_ticks: u64,
    /// UTC, RFC 3339.
    pub started: String,
    #[serde(default)]
    pub ended: Option<String>,
    /// Exit code of the run.
    #[serde(default)]
    pub exit: Option<u8>,
    /// `SLURM_RESTART_COUNT`.
    #[serde(default)]
    pub engine_restarts: Option<u32>,
    pub outcome: AttemptOutcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttemptOutcome {
    /// Under way, or dead on a host that has not started the task again.
    Running,
    /// Its result is the task's.
    Done,
    Failed,
    /// Its process is gone without a result.
    Dead,
    /// It ended well after another attempt.
    Superseded,
}
