//! The state of each task of a plan.

use serde::Serialize;

use crate::accounting::Accounting;
use crate::plan::TaskId;
use crate::task::Attempt;

/// The tasks of a plan after their results were collected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    /// In the order of the plan.
    pub tasks: Vec<TaskState>,
    /// Names in the folder of the tasks that no task of the plan has, sanitized: the first of them.
    pub unknown: Vec<String>,
    /// The number of such names.
    pub unknown_count: usize,
    /// Tasks whose result was copied.
    pub copied: usize,
    /// Tasks whose result the data set had already.
    pub kept: usize,
    /// The reason why the engine's record of the tasks is left out.
    pub records_error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskState {
    pub id: TaskId,
    /// The host of the result, else of the last attempt, else of the plan.
    pub host: Option<String>,
    pub state: State,
    /// The attempts in their order, without those in [`TaskState::unreadable`].
    pub attempts: Vec<Attempt>,
    /// Attempts whose document is missing or damaged, or before the last thousand.
    pub unreadable: usize,
    /// Exit code of the result, else of the last attempt.
    pub exit: Option<u8>,
    /// The engine's record of the task.
    pub engine: Option<Accounting>,
    /// Rows of a task that is done.
    pub rows: Option<Rows>,
}

/// Invariant: only [`State::Done`], and a copy of an [`State::Unreadable`] result, has rows in the data set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum State {
    Done,
    /// The last attempt failed.
    Failed {
        reason: String,
    },
    /// No result has arrived.
    Missing {
        reason: String,
    },
    /// The result is damaged, or not of this task.
    Corrupt {
        reason: String,
    },
    /// The system cannot read the result now. An earlier copy stays in the data set.
    Unreadable {
        reason: String,
    },
}

/// Rows of a task in the files of the data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    pub samples: u64,
    pub trials: u64,
    pub metrics: u64,
}

impl State {
    /// The names of all states.
    pub const NAMES: [&str; 5] = ["done", "failed", "missing", "corrupt", "unreadable"];

    pub fn name(&self) -> &'static str {
        match self {
            State::Done => "done",
            State::Failed { .. } => "failed",
            State::Missing { .. } => "missing",
            State::Corrupt { .. } => "corrupt",
            State::Unreadable { .. } => "unreadable",
        }
    }

    /// The reason for a state other than done.
    pub fn reason(&self) -> Option<&str> {
        match self {
            State::Done => None,
            State::Failed { reason }
            | State::Missing { reason }
            | State::Corrupt { reason }
            | State::Unreadable { reason } => Some(reason),
        }
    }
}

impl Collected {
    /// The number of tasks that are not done.
    pub fn incomplete(&self) -> usize {
        let incomplete = |task: &&TaskState| task.state != State::Done;
        self.tasks.iter().filter(incomplete).count()
    }
}
