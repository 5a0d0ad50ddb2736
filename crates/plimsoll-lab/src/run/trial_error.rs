//! Why a trial failed.

use plimsoll_model::exit::{Exit, Failure};
use plimsoll_model::recording::model::NOT_RUN;
use plimsoll_model::recording::{FailureCode, TrialFailure};
use plimsoll_sample::stop::Cause;

use crate::environment::Missing;
use crate::workload::WorkerError;
use crate::workload::protocol::Reply;

/// Why a trial is not ok, and how that ends the program.
#[derive(Debug)]
pub(super) struct TrialError {
    pub(super) exit: Exit,
    pub(super) failure: TrialFailure,
}

impl TrialError {
    pub(super) fn new(exit: Exit, code: FailureCode, message: impl std::fmt::Display) -> Self {
        TrialError {
            exit,
            failure: TrialFailure::new(code, message.to_string()),
        }
    }

    /// Adds the exit code or the signal of the worker or program whose end is the error.
    pub(super) fn of_end(mut self, exit_code: Option<i32>, signal: Option<i32>) -> Self {
        self.failure.exit_code = exit_code;
        self.failure.signal = signal;
        self
    }

    pub(super) fn failed(code: FailureCode, message: impl std::fmt::Display) -> Self {
        TrialError::new(Exit::WorkloadFailed, code, message)
    }

    pub(super) fn unexpected(reply: &Reply) -> Self {
        TrialError::failed(
            FailureCode::Protocol,
            format_args!("cannot use the worker's reply: it is {reply:?}; report this defect"),
        )
    }

    pub(super) fn stopped(cause: &Cause) -> Self {
        let code = match cause {
            Cause::Signal(_) => FailureCode::Signal,
            Cause::Tripwire(_) => FailureCode::Tripwire,
            Cause::TimeLimit(_) => FailureCode::TimeLimit,
        };
        TrialError::new(cause.exit(), code, cause)
    }

    /// An error of a worker that neither a stop nor the OOM killer explains.
    pub(super) fn of_worker(error: &WorkerError) -> Self {
        let exit = match error {
            WorkerError::Died { signal: Some(_), .. } => Exit::Killed,
            _ => Exit::WorkloadFailed,
        };
        let code = match error {
            WorkerError::Spawn { .. } | WorkerError::Cgroup { .. } => FailureCode::WorkerStart,
            WorkerError::Died { signal: Some(_), .. } => FailureCode::WorkerKilled,
            WorkerError::Died { signal: None, .. } => FailureCode::WorkerExited,
            WorkerError::Timeout { .. } => FailureCode::PhaseTimeout,
            WorkerError::Interrupted => FailureCode::Signal,
            WorkerError::Failed { .. } => FailureCode::WorkerRefused,
            WorkerError::TrimFromOutside { .. } => FailureCode::Trim,
            WorkerError::Crew(_) => FailureCode::WorkerStart,
            WorkerError::Protocol(_) | WorkerError::Io { .. } => FailureCode::Protocol,
        };
        let failed = TrialError::new(exit, code, error);
        match error {
            WorkerError::Died { status, signal } => failed.of_end(*status, *signal),
            _ => failed,
        }
    }
}

/// Failures of the run itself: it cannot write its recording, or read the machine.
impl From<Failure> for TrialError {
    fn from(failure: Failure) -> Self {
        TrialError::new(
            failure.exit,
            FailureCode::Recording,
            format_args!("{:#}", failure.error),
        )
    }
}

/// An error of work that did not run for lack of requirements; the run's warnings hold the remedies.
pub(super) fn lacking(part: &str, missing: &[Missing]) -> TrialError {
    let what: Vec<&str> = missing.iter().map(|missing| missing.what.as_str()).collect();
    TrialError::new(
        Exit::Missing,
        FailureCode::NotRun,
        format_args!("{part} {NOT_RUN}, for lack of {}", what.join(", ")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code of each error of a worker, and the exit code of the run.
    #[test]
    fn errors_of_workers_have_codes() {
        let died = |status, signal| WorkerError::Died { status, signal };
        let limit = std::time::Duration::from_secs(1);
        for (error, code, exit) in [
            (died(None, Some(9)), FailureCode::WorkerKilled, Exit::Killed),
            (
                died(Some(1), None),
                FailureCode::WorkerExited,
                Exit::WorkloadFailed,
            ),
            (
                WorkerError::Timeout { limit },
                FailureCode::PhaseTimeout,
                Exit::WorkloadFailed,
            ),
            (
                WorkerError::Protocol("text".to_owned()),
                FailureCode::Protocol,
                Exit::WorkloadFailed,
            ),
        ] {
            let found = TrialError::of_worker(&error);
            assert_eq!((found.failure.code, found.exit), (code, exit), "{error}");
        }
    }

    #[test]
    fn the_failure_of_a_dead_worker_has_its_exit_code_or_signal() {
        for (status, signal) in [(None, Some(9)), (Some(1), None)] {
            let found = TrialError::of_worker(&WorkerError::Died { status, signal });
            assert_eq!((found.failure.exit_code, found.failure.signal), (status, signal));
        }
    }

    #[test]
    fn stops_have_codes() {
        let limit = std::time::Duration::from_secs(1);
        for (cause, code) in [
            (Cause::Signal(2), FailureCode::Signal),
            (Cause::Tripwire("pressure".to_owned()), FailureCode::Tripwire),
            (Cause::TimeLimit(limit), FailureCode::TimeLimit),
        ] {
            let found = TrialError::stopped(&cause);
            assert_eq!((found.failure.code, found.exit), (code, cause.exit()));
        }
    }
}
