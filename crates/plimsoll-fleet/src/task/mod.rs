//! A task: a run with an id and at most one result, however often an engine starts it and wherever it dies.
//!
//! ```text
//!   tasks/ID.attempts/.HOST.PID.TICKS.claim  --rename-->  tasks/ID.attempts/N   TaskFolder::begin
//!   tasks/ID.attempts/N/RECORDING            --rename-->  tasks/.ID.N.tmp/recording
//!   tasks/.ID.N.tmp                          --rename-->  tasks/ID              AttemptFolder::finish
//! ```
//! A rename gives a folder its name only while no other folder with content has it, on every file system that hosts share. So one attempt has a
//! number, and one attempt gives the result. No start lists the folder of tasks: it may have very many, on a file server.
//!
//! An [`Attempt`] is `running` from [`TaskFolder::begin`] on. It becomes `done` or `superseded` in [`AttemptFolder::finish`],
//! `failed` in [`AttemptFolder::fail`], and `dead` in [`TaskFolder::settle`] of a later start on its host. Only a process of the
//! same host can know that another one is gone.
//!
//! Invariant: a folder `tasks/ID` is a whole result, and is on disk before it has that name; a later attempt replaces only a
//! folder that is no result, or is damaged. Checked by `two_attempts_at_once_give_one_result`, `a_death_at_any_step_leaves_one_result` and
//! `a_damaged_result_is_replaced`.

mod attempt_folder;
mod checksums;
mod process;
mod task_folder;
#[cfg(test)]
mod tests;

pub use attempt_folder::{AttemptFolder, Ending, Published};
pub use process::TaskProcess;
pub use task_folder::TaskFolder;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::plan::TaskId;
use crate::{FleetError, Folder};

pub const VERSION: u32 = 1;
/// The document in the folder of a result.
pub const RESULT: &str = "result.json";
/// The recording in the folder of a result, or of a failed attempt.
pub const RECORDING: &str = "recording";
/// Longest `result.json`. It has about 2 KB.
const RESULT_MAX: u64 = 1 << 20;

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
    /// SHA-256 of the other files of the result by path, so that damage on the way is seen.
    #[serde(default)]
    pub checksums: BTreeMap<String, String>,
}

impl TaskResult {
    /// Reads the document of a result, with the SHA-256 of the bytes that were read; `None` if the folder has none.
    ///
    /// # Errors
    /// As [`Folder::read_json`].
    pub fn read(folder: &Folder) -> Result<Option<(TaskResult, String)>, FleetError> {
        folder.read_json_hashed(RESULT, RESULT_MAX, VERSION)
    }
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

/// UTC, RFC 3339, to the second.
fn now() -> String {
    humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string()
}
