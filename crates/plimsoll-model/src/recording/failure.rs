//! Failures of trials: a stable code for programs and a message for people.

use serde::{Deserialize, Serialize};

/// One cause of a failed trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialFailure {
    pub code: FailureCode,
    /// The failed action, its cause, and the remedy.
    pub message: String,
    /// Exit code of the worker or program whose end failed the trial. `None` if a signal ended the process, if the
    /// failure is of another kind, and in recordings of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Signal that ended the worker or program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}

impl TrialFailure {
    /// A failure other than the end of a process.
    pub fn new(code: FailureCode, message: impl Into<String>) -> TrialFailure {
        TrialFailure {
            code,
            message: message.into(),
            exit_code: None,
            signal: None,
        }
    }
}

/// The kind of a failure. The JSON name of a code never changes its meaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FailureCode {
    /// A phase did not run: a requirement is missing, or the subject has no swap.
    NotRun,
    /// A signal stopped the run.
    Signal,
    /// The time limit stopped the run.
    TimeLimit,
    /// The tripwire stopped the run.
    Tripwire,
    /// The environment could not be set up.
    Environment,
    /// The environment could not be undone.
    Undo,
    /// The hold of the level `background` failed.
    Background,
    /// A worker could not be started or watched.
    WorkerStart,
    /// The OOM killer ended a worker.
    OutOfMemory,
    /// A worker without a cgroup held more than its limit, and the runner ended it.
    OverLimit,
    /// A signal ended a worker.
    WorkerKilled,
    /// A worker exited before its answer.
    WorkerExited,
    /// A command took longer than `phase-timeout`.
    PhaseTimeout,
    /// A worker could not carry out a command.
    WorkerRefused,
    /// The runner and a worker did not understand each other.
    Protocol,
    /// Bytes, pages or counts differ from those that the worker wrote.
    WrongBytes,
    /// The filled memory was not in the working set.
    SizeNotReached,
    /// A trim moved too little memory, or the kernel refused it.
    Trim,
    /// A limit of the cgroup could not be changed.
    Limit,
    /// The cgroup held memory or swap of ended workers.
    NotDrained,
    /// A worker used another allocator than requested, or its heap could not be read.
    Allocator,
    /// The program of the scenario could not be started.
    ProgramStart,
    /// The program of the scenario failed under its largest limit.
    ProgramFailed,
    /// The program of the scenario moved out of its cgroup.
    ProgramMoved,
    /// The measurement contradicts itself.
    Inconsistent,
    /// The recording could not be written, or the machine not be read.
    Recording,
    /// The code of a later version.
    #[default]
    #[serde(other)]
    Other,
}

impl FailureCode {
    pub const ALL: [FailureCode; 27] = [
        FailureCode::NotRun,
        FailureCode::Signal,
        FailureCode::TimeLimit,
        FailureCode::Tripwire,
        FailureCode::Environment,
        FailureCode::Undo,
        FailureCode::Background,
        FailureCode::WorkerStart,
        FailureCode::OutOfMemory,
        FailureCode::OverLimit,
        FailureCode::WorkerKilled,
        FailureCode::WorkerExited,
        FailureCode::PhaseTimeout,
        FailureCode::WorkerRefused,
        FailureCode::Protocol,
        FailureCode::WrongBytes,
        FailureCode::SizeNotReached,
        FailureCode::Trim,
        FailureCode::Limit,
        FailureCode::NotDrained,
        FailureCode::Allocator,
        FailureCode::ProgramStart,
        FailureCode::ProgramFailed,
        FailureCode::ProgramMoved,
        FailureCode::Inconsistent,
        FailureCode::Recording,
        FailureCode::Other,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> TrialFailure {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn every_code_reads_back() {
        for code in FailureCode::ALL {
            let failure = TrialFailure::new(code, "a message");
            assert_eq!(read(&serde_json::to_string(&failure).unwrap()), failure);
        }
    }

    #[test]
    fn exit_codes_and_signals_read_back_and_earlier_versions_have_none() {
        let earlier = read(r#"{"code":"program-failed","message":"a message"}"#);
        assert_eq!(
            earlier,
            TrialFailure::new(FailureCode::ProgramFailed, "a message")
        );
        for (exit_code, signal) in [(Some(3), None), (None, Some(6))] {
            let failure = TrialFailure {
                exit_code,
                signal,
                ..earlier.clone()
            };
            assert_eq!(read(&serde_json::to_string(&failure).unwrap()), failure);
        }
    }

    #[test]
    fn the_code_of_a_later_version_reads_as_other() {
        let later = read(r#"{"code":"moon-phase","message":"full"}"#);
        assert_eq!(later.code, FailureCode::Other);
    }
}
