//! Why a trial failed.

use plimsoll_model::exit::{Exit, Failure};
use plimsoll_model::recording::model::NOT_RUN;

use crate::environment::Missing;
use crate::workload::protocol::Reply;

/// Why a trial is not ok, and how that ends the program.
#[derive(Debug)]
pub(super) struct TrialError {
    pub(super) exit: Exit,
    pub(super) reason: String,
}

impl TrialError {
    pub(super) fn new(exit: Exit, reason: impl std::fmt::Display) -> Self {
        TrialError {
            exit,
            reason: reason.to_string(),
        }
    }

    /// An unexpected reply of a worker.
    pub(super) fn unexpected(reply: &Reply) -> Self {
        TrialError::new(
            Exit::WorkloadFailed,
            format_args!("unexpected reply of the worker: {reply:?}"),
        )
    }
}

impl From<Failure> for TrialError {
    fn from(failure: Failure) -> Self {
        TrialError::new(failure.exit, format_args!("{:#}", failure.error))
    }
}

/// An error of work that did not run for lack of requirements; the run's warnings hold the remedies.
pub(super) fn lacking(part: &str, missing: &[Missing]) -> TrialError {
    let what: Vec<&str> = missing.iter().map(|missing| missing.what.as_str()).collect();
    TrialError::new(
        Exit::Missing,
        format_args!("{part} {NOT_RUN}, for lack of {}", what.join(", ")),
    )
}
