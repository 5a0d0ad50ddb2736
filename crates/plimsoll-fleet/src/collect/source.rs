//! The folder of a task, which comes from another machine.
//!
//! Invariant: no link is followed, and no document is longer than its limit: a folder of a task can neither lead elsewhere nor fill the
//! memory. Checked by `hostile_results_are_corrupt_and_lead_nowhere`.

use std::io::Read;

use plimsoll_model::recording::model::file;
use plimsoll_model::sanitize::{sanitize, shorten};
use sha2::{Digest as _, Sha256};

use super::state::State;
use crate::fingerprint::{self, Fingerprint};
use crate::plan::TaskId;
use crate::task::{self, Attempt, AttemptOutcome, ResultStatus, TaskResult};
use crate::{FleetError, Folder};

const RESULT: &str = "result.json";
const HOST: &str = "host.json";
const RECORDING: &str = "recording";
const ATTEMPT: &str = "attempt.json";

/// Most bytes of a document of a task. A description of a host has about 20 KB.
const DOCUMENT_MAX: u64 = 1 << 20;
/// Most bytes of the files of a recording, as for its reader.
const MANIFEST_MAX: u64 = 64 << 20;
const RESULTS_MAX: u64 = 1 << 30;
const SAMPLES_MAX: u64 = 8 << 30;
/// Attempts that are read; a task has one and its retries.
const ATTEMPTS_MAX: usize = 1000;
/// Longest name of a host (`HOST_NAME_MAX`).
const HOST_NAME_MAX: usize = 64;
const REASON_MAX: usize = 400;

/// Version of the layout of the data set: results are copied again if another version copied them.
const LAYOUT: &str = "plimsoll data set 1";

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
    pub(super) recording: Folder,
    /// SHA-256 of the documents, in hexadecimal. Equal digests have equal rows: the manifest has a checksum of the samples.
    pub(super) digest: String,
}

/// Reads the documents of a task. An error of the system is the state of the task, too: it must not hide the other tasks.
pub(super) fn read(tasks: Option<&Folder>, id: &TaskId) -> Found {
    let Some(tasks) = tasks else {
        return Found {
            attempts: Vec::new(),
            unreadable: 0,
            result: Err(missing("no attempt has begun")),
            exit: None,
        };
    };
    let (attempts, unreadable) = read_attempts(tasks, id);
    let mut exit = attempts.last().and_then(|attempt| attempt.exit);
    let result = match tasks.folder(id.as_str()) {
        Ok(Some(folder)) => read_result(&folder, id, &mut exit),
        Ok(None) => Err(without_result(&attempts, unreadable)),
        Err(error) => Err(corrupt(error)),
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
    let result = folder
        .read_json::<TaskResult>(RESULT, DOCUMENT_MAX, task::VERSION)
        .map_err(corrupt)?
        .ok_or_else(|| corrupt("its folder has no result.json"))?;
    *exit = Some(result.exit);
    if result.task != *id {
        return Err(corrupt(format_args!("its result is that of the task {}", result.task)));
    }
    if result.status == ResultStatus::Failed {
        return Err(State::Failed {
            reason: format!("the run exited with {}", result.exit),
        });
    }
    let host = folder
        .read_json::<Fingerprint>(HOST, DOCUMENT_MAX, fingerprint::VERSION)
        .map_err(corrupt)?
        .ok_or_else(|| corrupt("its folder has no host.json"))?;
    check_name(&host.host).map_err(corrupt)?;
    let recording = match folder.folder(RECORDING).map_err(corrupt)? {
        Some(recording) if result.recording => recording,
        _ => return Err(corrupt("its folder has no recording")),
    };
    let digest = digest(folder, &recording).map_err(corrupt)?;
    Ok(Finished {
        result,
        host,
        recording,
        digest,
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

fn digest(folder: &Folder, recording: &Folder) -> Result<String, FleetError> {
    let mut digest = Sha256::new();
    digest.update(LAYOUT);
    for (folder, name, max) in [
        (folder, RESULT, DOCUMENT_MAX),
        (folder, HOST, DOCUMENT_MAX),
        (recording, file::MANIFEST, MANIFEST_MAX),
        (recording, file::RESULTS, RESULTS_MAX),
    ] {
        let failed = |source| FleetError::io("read", &folder.path().join(name), source);
        let Some(mut file) = folder.file(name, max)? else {
            return Err(failed(std::io::ErrorKind::NotFound.into()));
        };
        let mut length = 0_u64;
        let mut buffer = vec![0; 1 << 16];
        loop {
            match file.read(&mut buffer).map_err(failed)? {
                0 => break,
                count => {
                    digest.update(&buffer[..count]);
                    length += count as u64;
                }
            }
        }
        digest.update(length.to_le_bytes());
    }
    for name in [file::SAMPLES, file::SAMPLES_LIVE] {
        let samples = recording.file(name, SAMPLES_MAX)?;
        let length = match samples {
            Some(file) => file
                .metadata()
                .map_err(|source| FleetError::io("read", &recording.path().join(name), source))?
                .len(),
            None => u64::MAX,
        };
        digest.update(length.to_le_bytes());
    }
    let digest = digest.finalize();
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The attempts of a task in their order, and the number of those that cannot be read.
fn read_attempts(tasks: &Folder, id: &TaskId) -> (Vec<Attempt>, usize) {
    let folder = match tasks.folder(format!("{id}.attempts")) {
        Ok(Some(folder)) => folder,
        Ok(None) => return (Vec::new(), 0),
        Err(_) => return (Vec::new(), 1),
    };
    let Ok(names) = folder.names() else {
        return (Vec::new(), 1);
    };
    let number = |name: &std::ffi::OsString| name.to_str()?.parse::<u32>().ok().filter(|number| *number > 0);
    let mut numbers: Vec<u32> = names.iter().filter_map(number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let more = numbers.len().saturating_sub(ATTEMPTS_MAX);
    numbers.truncate(ATTEMPTS_MAX);
    let read = |number: u32| {
        let folder = folder.folder(number.to_string()).ok().flatten()?;
        let attempt = folder.read_json::<Attempt>(ATTEMPT, DOCUMENT_MAX, task::VERSION);
        let mut attempt = attempt.ok().flatten()?;
        if attempt.number != number || attempt.task != *id {
            return None;
        }
        for text in [&mut attempt.host, &mut attempt.started, &mut attempt.boot_id] {
            *text = line(text);
        }
        attempt.ended = attempt.ended.map(|ended| line(&ended));
        Some(attempt)
    };
    let attempts: Vec<Attempt> = numbers.iter().filter_map(|number| read(*number)).collect();
    let unreadable = numbers.len() - attempts.len() + more;
    (attempts, unreadable)
}

fn without_result(attempts: &[Attempt], unreadable: usize) -> State {
    let Some(last) = attempts.last() else {
        return match unreadable {
            0 => missing("no attempt has begun"),
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
