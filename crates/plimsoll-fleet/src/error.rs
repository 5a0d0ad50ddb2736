//! Errors of fleets.

use std::io;
use std::path::{Path, PathBuf};

use plimsoll_model::exit::Exit;
use plimsoll_proc::Distrust;
use plimsoll_report::comparison::CompareError;

use crate::name::TaskId;

/// Most tasks that an error lists.
const MOST_LISTED: usize = 20;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The failed operation: a verb whose object is the path.
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// A file has unexpected content.
    #[error("cannot use {}: {reason}", path.display())]
    Format { path: PathBuf, reason: String },
    #[error(
        "cannot read {}: it has version {found}, and this program knows version {known}; \
         use the program that wrote it", path.display()
    )]
    Version { path: PathBuf, found: u64, known: u32 },
    /// The request is wrong, or not safe.
    #[error("{reason}; {advice}")]
    Refused { reason: String, advice: String },
    /// A command of the engine failed.
    #[error("cannot run `{command}`: {}{stderr}", status(.code))]
    Engine {
        command: String,
        /// `None` if it did not start or a signal ended it.
        code: Option<i32>,
        /// Its output, sanitized, or the system's error.
        stderr: String,
    },
    /// The engine ended, but some tasks have no result.
    #[error("{} of {tasks} tasks have no result: {}; {advice}", missing.len(), first_of(missing))]
    Unfinished {
        missing: Vec<TaskId>,
        /// Number of the plan's tasks.
        tasks: usize,
        advice: String,
    },
    /// Root does not work in a folder that another user can change.
    #[error("cannot use a folder as root: {0}; use one of root that only root can write to")]
    Untrusted(Distrust),
    #[error(transparent)]
    Comparison(#[from] CompareError),
}

impl From<Distrust> for FleetError {
    fn from(distrust: Distrust) -> FleetError {
        match distrust {
            // No lack of trust: the disk is full, or the folder is missing.
            Distrust::Io { doing, path, source } => FleetError::Io {
                action: doing,
                path,
                source,
            },
            distrust => FleetError::Untrusted(distrust),
        }
    }
}

impl FleetError {
    pub fn io(action: &'static str, path: &Path, source: impl Into<io::Error>) -> FleetError {
        FleetError::Io {
            action,
            path: path.to_owned(),
            source: source.into(),
        }
    }

    pub fn format(path: &Path, reason: impl ToString) -> FleetError {
        FleetError::Format {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }

    pub fn refused(reason: impl ToString, advice: impl ToString) -> FleetError {
        FleetError::Refused {
            reason: reason.to_string(),
            advice: advice.to_string(),
        }
    }

    /// The exit code of a command that ends with it.
    pub fn exit(&self) -> Exit {
        match self {
            FleetError::Comparison(CompareError::AllFailed(_)) => Exit::WorkloadFailed,
            FleetError::Comparison(_) | FleetError::Format { .. } | FleetError::Refused { .. } => Exit::Usage,
            FleetError::Version { .. } => Exit::Unsupported,
            FleetError::Unfinished { .. } => Exit::WorkloadFailed,
            FleetError::Io { .. } | FleetError::Engine { .. } | FleetError::Untrusted(_) => Exit::Missing,
        }
    }
}

fn status(code: &Option<i32>) -> String {
    match code {
        Some(code) => format!("it exited with {code}: "),
        None => String::new(),
    }
}

fn first_of(tasks: &[TaskId]) -> String {
    let mut names: Vec<&str> = tasks.iter().take(MOST_LISTED).map(TaskId::as_str).collect();
    if tasks.len() > names.len() {
        names.push("...");
    }
    names.join(", ")
}
