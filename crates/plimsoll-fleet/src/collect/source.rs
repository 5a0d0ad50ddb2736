//! The folder of a task, which comes from another machine.
//!
//! Invariant: no link is followed, and no document is longer than its limit: a folder of a task can neither lead elsewhere nor fill the
//! memory. Checked by `hostile_results_are_corrupt_and_lead_nowhere`.

use std::io;

use plimsoll_model::recording::model::file;
use plimsoll_model::sanitize::{sanitize, shorten};
use rustix::io::Errno;

use super::state::State;
use crate::fingerprint::{self, FILE as HOST, Fingerprint};
use crate::plan::{Engine, TaskId};
use crate::task::{Attempt, AttemptOutcome, RECORDING, RESULT, ResultStatus, TaskFolder, TaskResult};
use crate::{FleetError, Folder};

/// Most bytes of a document of a task. A description of a host has about 20 KB.
const DOCUMENT_MAX: u64 = 1 << 20;
/// Most bytes of the files of a recording, as for its reader.
const MANIFEST_MAX: u64 = 64 << 20;
const RESULTS_MAX: u64 = 1 << 30;
/// Attempts that are read; a task has one and its retries.
const ATTEMPTS_MAX: usize = 1000;
/// Longest name of a host (`HOST_NAME_MAX`).
const HOST_NAME_MAX: usize = 64;
const REASON_MAX: usize = 400;

/// Version of the layout of the data set: results are copied again if another version copied them.
const LAYOUT: &str = "data set 1, result";

/// A task as its folder shows it.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) attempts: Vec<Attempt>,
    pub(super) unreadable: usize,
    /// The result, or the state of a task without a usable one.
    pub(super) result: Result<Finished, State>,
    /// Exit code of the result, else of the last attempt.
    pub(super) exit: Option<u8>,
}

/// A result that is done, not yet read but for its documents.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) result: TaskResult,
    pub(super) host: Fingerprint,
    pub(super) folder: Folder,
    pub(super) recording: Folder,
    /// Equal digests have equal rows: it is that of the document with the checksums of the other files.
    pub(super) digest: String,
}

/// Reads the documents of a task. An error of the system is the state of the task, too: it must not hide the other tasks.
pub(super) fn read(tasks: Option<&Folder>, id: &TaskId, engine: &Engine) -> Found {
    let Some(tasks) = tasks else {
        return Found {
            attempts: Vec::new(),
            unreadable: 0,
            result: Err(missing(nothing_there(engine))),
            exit: None,
        };
    };
    let (attempts, unreadable) = read_attempts(tasks, id);
    let mut exit = attempts.last().and_then(|attempt| attempt.exit);
    let result = match tasks.folder(id.as_str()) {
        Ok(Some(folder)) => read_result(&folder, id, &mut exit),
        Ok(None) => Err(without_result(&attempts, unreadable, engine)),
        Err(error) => Err(failed(&error)),
    };
    Found {
        attempts,
        unreadable,
        result,
        exit,
    }
}

/// The state of a result that cannot be used.
pub(super) fn corrupt(reason: impl ToString) -> State {
    State::Corrupt {
        reason: line(&reason.to_string()),
    }
}

/// The state of a result that cannot be read.
fn failed(error: &FleetError) -> State {
    match error {
        FleetError::Io { source, .. } => unusable(source, error),
        error => corrupt(error),
    }
}

/// A link or a file in place of a folder is a wrong result. Permissions, a file server or a limit of this process say nothing about the
/// result.
pub(super) fn unusable(source: &io::Error, error: &impl ToString) -> State {
    let is_wrong = match Errno::from_io_error(source) {
        None => true,
        Some(errno) => [
            Errno::NOENT,
            Errno::NOTDIR,
            Errno::ISDIR,
            Errno::LOOP,
            Errno::NXIO,
            Errno::NAMETOOLONG,
        ]
        .contains(&errno),
    };
    match is_wrong {
        true => corrupt(error.to_string()),
        false => State::Unreadable {
            reason: line(&error.to_string()),
        },
    }
}

/// Results of ssh arrive at the end of a task, those of Kubernetes with `fetch.sh`.
fn nothing_there(engine: &Engine) -> &'static str {
    match engine {
        Engine::Slurm { .. } => "no attempt and no result in tasks/",
        Engine::Ssh { .. } => "no attempt and no result in tasks/; logs/parallel.txt has the messages of ssh",
        Engine::Kubernetes { .. } => {
            "no attempt and no result in tasks/; fetch.sh copies them from the volume"
        }
    }
}

fn missing(reason: &str) -> State {
    State::Missing {
        reason: reason.to_owned(),
    }
}

/// A foreign text as a short line.
fn line(text: &str) -> String {
    shorten(&sanitize(text), REASON_MAX).into_owned()
}

fn read_result(folder: &Folder, id: &TaskId, exit: &mut Option<u8>) -> Result<Finished, State> {
    let (result, digest) = TaskResult::read(folder)
        .map_err(|error| failed(&error))?
        .ok_or_else(|| corrupt("its folder has no result.json"))?;
    *exit = Some(result.exit);
    if result.task != *id {
        return Err(corrupt(format_args!(
            "its result is that of the task {}",
            result.task
        )));
    }
    if result.status == ResultStatus::Failed {
        return Err(State::Failed {
            reason: format!("the run exited with {}", result.exit),
        });
    }
    let host = folder
        .read_json::<Fingerprint>(HOST, DOCUMENT_MAX, fingerprint::VERSION)
        .map_err(|error| failed(&error))?
        .ok_or_else(|| corrupt("its folder has no host.json"))?;
    check_name(&host.host).map_err(corrupt)?;
    let recording = match folder.folder(RECORDING).map_err(|error| failed(&error))? {
        Some(recording) if result.recording => recording,
        _ => return Err(corrupt("its folder has no recording")),
    };
    Ok(Finished {
        result,
        host,
        folder: folder.clone(),
        recording,
        digest: format!("{LAYOUT} {digest}"),
    })
}

/// Checks the name of a host, which becomes part of a path.
fn check_name(host: &str) -> Result<(), &'static str> {
    match host.len() {
        0 => Err("its host has no name"),
        1..=HOST_NAME_MAX if host.chars().any(char::is_control) => {
            Err("the name of its host has control characters")
        }
        1..=HOST_NAME_MAX => Ok(()),
        _ => Err("the name of its host is longer than a name of a host may be"),
    }
}

/// Checks the files of a result against its checksums, but for the samples, which the copy checks.
pub(super) fn check(finished: &Finished) -> Result<(), State> {
    let files = [
        (&finished.folder, HOST, HOST, DOCUMENT_MAX),
        (
            &finished.recording,
            file::MANIFEST,
            "recording/manifest.json",
            MANIFEST_MAX,
        ),
        (
            &finished.recording,
            file::RESULTS,
            "recording/results.json",
            RESULTS_MAX,
        ),
    ];
    for (folder, name, path, max) in files {
        let found = folder.sha256(name, max).map_err(|error| failed(&error))?;
        let Some(found) = found else {
            return Err(corrupt(format_args!("its folder has no {path}")));
        };
        if finished.result.checksums.get(path) != Some(&found) {
            let reason = format_args!("{path} is damaged: it does not have the checksum in {RESULT}");
            return Err(corrupt(reason));
        }
    }
    Ok(())
}

/// The attempts of a task in their order, and the number of those that cannot be read.
fn read_attempts(tasks: &Folder, id: &TaskId) -> (Vec<Attempt>, usize) {
    let task = TaskFolder::of(tasks, id);
    let Ok(numbers) = task.attempt_numbers() else {
        return (Vec::new(), 1);
    };
    let read = |number: &u32| {
        let mut attempt = task.attempt(*number).ok()?;
        for text in [&mut attempt.host, &mut attempt.started, &mut attempt.boot_id] {
            *text = line(text);
        }
        attempt.ended = attempt.ended.map(|ended| line(&ended));
        Some(attempt)
    };
    // The last ones tell the state.
    let last = &numbers[numbers.len().saturating_sub(ATTEMPTS_MAX)..];
    let attempts: Vec<Attempt> = last.iter().filter_map(read).collect();
    let unreadable = numbers.len() - attempts.len();
    (attempts, unreadable)
}

fn without_result(attempts: &[Attempt], unreadable: usize, engine: &Engine) -> State {
    let Some(last) = attempts.last() else {
        return match unreadable {
            0 => missing(nothing_there(engine)),
            _ => missing("an attempt began and left no document that can be read"),
        };
    };
    let (number, host) = (last.number, &last.host);
    match (last.outcome, last.exit) {
        (AttemptOutcome::Failed, Some(exit)) => State::Failed {
            reason: format!("attempt {number} on {host} exited with {exit}"),
        },
        (AttemptOutcome::Failed, None) => State::Failed {
            reason: format!("attempt {number} on {host} failed"),
        },
        (AttemptOutcome::Running, _) => State::Missing {
            reason: format!("attempt {number} on {host} runs, or died with its host"),
        },
        (AttemptOutcome::Dead, _) => State::Missing {
            reason: format!("attempt {number} on {host} died"),
        },
        (AttemptOutcome::Done | AttemptOutcome::Superseded, _) => State::Missing {
            reason: format!("attempt {number} on {host} ended, and its result is not there"),
        },
    }
}
