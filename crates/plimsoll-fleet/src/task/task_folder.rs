//! The folders of one task.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use super::checksums::is_whole;
use super::{Attempt, AttemptOutcome, RESULT, ResultStatus, TaskProcess, TaskResult, VERSION};
use crate::plan::TaskId;
use crate::text::ATTEMPTS;
use crate::{FleetError, Folder};

pub(super) const ATTEMPT: &str = "attempt.json";
/// Most attempts of a task. An engine gives up long before.
pub(super) const MOST_ATTEMPTS: u32 = 9999;
/// Longest `attempt.json`.
const MOST_BYTES: u64 = 1 << 16;
/// End of the name of a folder that has not got the number of an attempt yet.
const CLAIM: &str = ".claim";

/// The result and the attempts of a task in a folder of tasks.
#[derive(Debug, Clone)]
pub struct TaskFolder {
    pub(super) tasks: Folder,
    pub(super) id: TaskId,
}

impl TaskFolder {
    /// Opens a task to work on it, and makes the folder of tasks if it is missing.
    ///
    /// # Errors
    /// [`FleetError::Untrusted`] for root; the system's.
    pub fn open(tasks: &Path, id: &TaskId) -> Result<TaskFolder, FleetError> {
        Ok(TaskFolder::of(&Folder::make(tasks)?, id))
    }

    /// The task in an open folder of tasks. Makes nothing.
    pub fn of(tasks: &Folder, id: &TaskId) -> TaskFolder {
        TaskFolder {
            tasks: tasks.clone(),
            id: id.clone(),
        }
    }

    /// The folder of its result; `None` as long as it has none.
    ///
    /// # Errors
    /// The system's, also for a link.
    pub fn result_folder(&self) -> Result<Option<Folder>, FleetError> {
        self.tasks.folder(self.id.as_str())
    }

    /// Its result as its document says; `None` as long as it has none.
    ///
    /// # Errors
    /// A result that cannot be read, or is not of this task.
    pub fn finished(&self) -> Result<Option<TaskResult>, FleetError> {
        match self.result_folder()? {
            None => Ok(None),
            Some(folder) => self.result_in(&folder).map(Some),
        }
    }

    fn result_in(&self, folder: &Folder) -> Result<TaskResult, FleetError> {
        let path = folder.path().join(RESULT);
        let read = TaskResult::read(folder)?;
        let (result, _) = read.ok_or_else(|| FleetError::format(&path, "it is missing"))?;
        if result.task != self.id {
            let reason = format!("it is the result of the task {}", result.task);
            return Err(FleetError::format(&path, reason));
        }
        Ok(result)
    }

    /// The result of a task that need not run again. A damaged or failed result is `None`: an attempt replaces it. Reads all files of
    /// the result, as `collect` does not use one with a damaged file.
    ///
    /// # Errors
    /// The system's; [`FleetError::Version`], as a newer program can read it.
    pub fn done(&self) -> Result<Option<TaskResult>, FleetError> {
        let found = self.result_folder().and_then(|folder| match folder {
            Some(folder) => self.done_in(&folder),
            None => Ok(None),
        });
        match found {
            Err(FleetError::Format { .. }) => Ok(None),
            // A file or a link in place of a folder.
            Err(FleetError::Io { source, .. }) if is_no_folder(&source) => Ok(None),
            found => found,
        }
    }

    /// The same of the result in a folder of another name. Damage may be an error.
    pub(super) fn done_in(&self, folder: &Folder) -> Result<Option<TaskResult>, FleetError> {
        let result = self.result_in(folder)?;
        let is_done = result.status == ResultStatus::Done && is_whole(&result, folder)?;
        Ok(is_done.then_some(result))
    }

    /// The name of the folder of its attempts.
    pub(super) fn attempts_name(&self) -> String {
        format!("{}{ATTEMPTS}", self.id)
    }

    pub(super) fn attempts_folder(&self) -> Result<Option<Folder>, FleetError> {
        self.tasks.folder(self.attempts_name())
    }

    /// The numbers of its attempts, ascending.
    ///
    /// # Errors
    /// The system's.
    pub fn attempt_numbers(&self) -> Result<Vec<u32>, FleetError> {
        let Some(folder) = self.attempts_folder()? else {
            return Ok(Vec::new());
        };
        let mut numbers: Vec<u32> = folder.names()?.iter().filter_map(|name| number(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The attempt of this number. One that gave the result is done, although its process may have died before it wrote that.
    ///
    /// # Errors
    /// An attempt that cannot be read, or is not of this task and number.
    pub fn attempt(&self, number: u32) -> Result<Attempt, FleetError> {
        let mut attempt = self.recorded(number)?;
        if attempt.outcome == AttemptOutcome::Running
            && let Ok(Some(result)) = self.finished()
            && result.attempt == number
        {
            attempt.complete(&result);
        }
        Ok(attempt)
    }

    /// The attempt of this number as its file has it.
    pub(super) fn recorded(&self, number: u32) -> Result<Attempt, FleetError> {
        let name = number.to_string();
        let path = self.tasks.path().join(self.attempts_name()).join(&name);
        let missing = || FleetError::format(&path, "it has no attempt.json");
        let folder = self.attempts_folder()?.ok_or_else(missing)?;
        let folder = folder.folder(&name)?.ok_or_else(missing)?;
        let attempt: Option<Attempt> = folder.read_json(ATTEMPT, MOST_BYTES, VERSION)?;
        let attempt = attempt.ok_or_else(missing)?;
        match attempt.task == self.id && attempt.number == number {
            true => Ok(attempt),
            false => Err(FleetError::format(
                &path,
                "its attempt.json is of another attempt",
            )),
        }
    }

    /// The number of an attempt that a live process of this host works on.
    ///
    /// # Errors
    /// The system's.
    pub fn under_way(&self, process: &TaskProcess) -> Result<Option<u32>, FleetError> {
        let is_live = |number: &u32| {
            let recorded = self.recorded(*number);
            recorded.is_ok_and(|attempt| {
                attempt.outcome == AttemptOutcome::Running
                    && attempt.host == process.host
                    && !process.knows_dead(&attempt)
            })
        };
        Ok(self.attempt_numbers()?.into_iter().find(is_live))
    }

    /// Marks attempts whose process is gone, and removes their parts. Once the task is done, with the result of [`TaskFolder::done`],
    /// also the parts of all other attempts, except those of live processes of this host. A live attempt of another host loses
    /// only what it would discard. Returns the number of attempts that were found dead.
    ///
    /// # Errors
    /// The system's.
    pub fn settle(&self, process: &TaskProcess, done: Option<&TaskResult>) -> Result<u32, FleetError> {
        let mut dead = 0;
        let Some(attempts) = self.attempts_folder()? else {
            return Ok(dead);
        };
        remove_claims(&attempts, process, done.is_some())?;
        for number in self.attempt_numbers()? {
            let (Ok(mut attempt), Ok(Some(folder))) =
                (self.recorded(number), attempts.folder(number.to_string()))
            else {
                continue;
            };
            let gone = attempt.outcome == AttemptOutcome::Running && process.knows_dead(&attempt);
            if gone {
                match done {
                    Some(result) if result.attempt == number => attempt.complete(result),
                    _ => {
                        attempt.outcome = AttemptOutcome::Dead;
                        dead += 1;
                    }
                }
            }
            let may_live = attempt.outcome == AttemptOutcome::Running && attempt.host == process.host;
            if gone || (done.is_some() && !may_live) {
                self.remove_parts(number, &folder)?;
            }
            // Last: a death before it repeats the removal.
            if gone {
                folder.write_json(ATTEMPT, &attempt)?;
            }
        }
        Ok(dead)
    }

    /// Removes all files of an attempt but its `attempt.json`.
    pub(super) fn remove_parts(&self, number: u32, folder: &Folder) -> Result<(), FleetError> {
        for name in folder.names()?.iter().filter(|name| *name != ATTEMPT) {
            folder.remove(name)?;
        }
        self.tasks.remove(self.temporary(number))?;
        self.tasks.remove(self.aside(number))
    }

    /// The name of a result before it is published.
    pub(super) fn temporary(&self, number: u32) -> String {
        format!(".{}.{number}.tmp", self.id)
    }

    /// The name of a damaged result that an attempt replaces.
    pub(super) fn aside(&self, number: u32) -> String {
        format!(".{}.{number}.old", self.id)
    }
}

/// The name of the folder that a process makes in that of the attempts, to give it a number.
pub(super) fn claim_name(process: &TaskProcess) -> String {
    format!(".{}{CLAIM}", process.label())
}

/// Removes the claims of dead processes, and if the task is done, those of other hosts.
fn remove_claims(attempts: &Folder, process: &TaskProcess, is_done: bool) -> Result<(), FleetError> {
    for name in attempts.names()? {
        let label = name
            .to_str()
            .and_then(|name| name.strip_prefix('.')?.strip_suffix(CLAIM));
        let Some(label) = label else { continue };
        if process.knows_dead_label(label) || (is_done && !process.is_of_host(label)) {
            attempts.remove(&name)?;
        }
    }
    Ok(())
}

impl Attempt {
    /// Takes the end of the result that it gave.
    pub(super) fn complete(&mut self, result: &TaskResult) {
        self.outcome = AttemptOutcome::Done;
        self.ended = Some(result.ended.clone());
        self.exit = Some(result.exit);
    }
}

/// The number of an attempt's folder.
fn number(name: &OsStr) -> Option<u32> {
    let text = name.to_str()?;
    let number = text.parse().ok()?;
    (text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0') && number <= MOST_ATTEMPTS)
        .then_some(number)
}

/// Whether a folder could not be renamed because another one with content has the name.
pub(super) fn is_taken(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory
    )
}

/// Whether an entry is no folder, or a link.
fn is_no_folder(error: &io::Error) -> bool {
    let errno = rustix::io::Errno::from_io_error(error);
    matches!(errno, Some(rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP))
}
