//! The folders of one task.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use super::{Attempt, AttemptOutcome, ResultStatus, TaskProcess, TaskResult, VERSION};
use crate::plan::TaskId;
use crate::{FleetError, Folder};

pub const RESULT: &str = "result.json";
pub(super) const ATTEMPT: &str = "attempt.json";
/// Most attempts of a task. An engine gives up long before.
pub(super) const MOST_ATTEMPTS: u32 = 9999;
/// Longest document of a task or an attempt.
const MOST_BYTES: u64 = 1 << 16;

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

    /// Its result; `None` as long as it has none.
    ///
    /// # Errors
    /// A result that cannot be read, or is not of this task.
    pub fn finished(&self) -> Result<Option<TaskResult>, FleetError> {
        match self.result_folder()? {
            None => Ok(None),
            Some(folder) => self.result_in(&folder).map(Some),
        }
    }

    pub(super) fn result_in(&self, folder: &Folder) -> Result<TaskResult, FleetError> {
        let path = folder.path().join(RESULT);
        let result = folder.read_json::<TaskResult>(RESULT, MOST_BYTES, VERSION)?;
        let result = result.ok_or_else(|| FleetError::format(&path, "it is missing"))?;
        if result.task != self.id {
            let reason = format!("it is the result of the task {}", result.task);
            return Err(FleetError::format(&path, reason));
        }
        Ok(result)
    }

    /// The result of a task that need not run again. A damaged or failed result is `None`: an attempt replaces it.
    ///
    /// # Errors
    /// The system's; [`FleetError::Version`], as a newer program can read it.
    pub fn done(&self) -> Result<Option<TaskResult>, FleetError> {
        match self.finished() {
            Ok(result) => Ok(result.filter(|result| result.status == ResultStatus::Done)),
            Err(FleetError::Format { .. }) => Ok(None),
            // A file or a link in place of the folder.
            Err(FleetError::Io { source, .. }) if is_no_folder(&source) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn attempts_folder(&self) -> Result<Option<Folder>, FleetError> {
        self.tasks.folder(format!("{}.attempts", self.id))
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

    /// Its attempts by number. An attempt that gave the result is done, although its process may have died before it wrote
    /// that. An attempt without a readable `attempt.json` is left out; [`TaskFolder::attempt`] has its error.
    ///
    /// # Errors
    /// The system's.
    pub fn attempts(&self) -> Result<Vec<Attempt>, FleetError> {
        let numbers = self.attempt_numbers()?;
        Ok(numbers
            .into_iter()
            .filter_map(|number| self.attempt(number).ok())
            .collect())
    }

    /// The attempt of this number.
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
        let path = self
            .tasks
            .path()
            .join(format!("{}.attempts", self.id))
            .join(&name);
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

    /// Marks attempts whose process is gone, and removes their parts. Once the task is done, also the parts of all other
    /// attempts, except those of live processes of this host. A live attempt of another host loses only what it would discard.
    /// Returns the number of attempts that were found dead.
    ///
    /// # Errors
    /// The system's.
    pub fn settle(&self, process: &TaskProcess) -> Result<u32, FleetError> {
        let mut dead = 0;
        let done = self.done()?;
        self.remove_claims(process, done.is_some())?;
        let Some(attempts) = self.attempts_folder()? else {
            return Ok(dead);
        };
        for number in self.attempt_numbers()? {
            let (Ok(mut attempt), Ok(Some(folder))) =
                (self.recorded(number), attempts.folder(number.to_string()))
            else {
                continue;
            };
            let gone = attempt.outcome == AttemptOutcome::Running && process.knows_dead(&attempt);
            if gone {
                match &done {
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

    /// Removes the claims of dead processes, and if the task is done, those of other hosts.
    fn remove_claims(&self, process: &TaskProcess, is_done: bool) -> Result<(), FleetError> {
        let prefix = format!(".{}.", self.id);
        for name in self.tasks.names()? {
            let label = name
                .to_str()
                .and_then(|name| name.strip_prefix(&prefix)?.strip_suffix(CLAIM));
            let Some(label) = label else { continue };
            if process.knows_dead_label(label) || (is_done && !process.is_of_host(label)) {
                self.tasks.remove(&name)?;
            }
        }
        Ok(())
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

/// End of the name of a claimed number's folder before it has the number.
pub(super) const CLAIM: &str = ".claim";

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
