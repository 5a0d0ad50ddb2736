//! The folder of an attempt under way, and the publication of its result.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::checksums::checksums;
use super::task_folder::{ATTEMPT, MOST_ATTEMPTS, claim_name, is_taken};
use super::{
    Attempt, AttemptOutcome, RECORDING, RESULT, ResultStatus, TaskFolder, TaskProcess, TaskResult, VERSION,
    now,
};
use crate::fingerprint::{self, Fingerprint};
use crate::{FleetError, Folder};

/// An attempt of this process.
#[derive(Debug)]
pub struct AttemptFolder {
    task: TaskFolder,
    folder: Folder,
    attempt: Attempt,
}

/// The end of a run that gives a result.
#[derive(Debug)]
pub struct Ending<'a> {
    /// Exit code of the run.
    pub exit: u8,
    /// Name of the recording in the attempt's folder.
    pub recording: Option<&'a Path>,
    pub host: &'a Fingerprint,
    pub binary_sha256: &'a str,
}

/// The fate of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Published {
    /// It is the task's.
    Won(TaskResult),
    /// Another attempt was faster, and its result is the task's.
    Lost(TaskResult),
}

impl TaskFolder {
    /// Begins an attempt with the next number.
    ///
    /// # Errors
    /// The system's; [`FleetError::Refused`] after 9,999 attempts.
    pub fn begin(&self, process: &TaskProcess, restarts: Option<u32>) -> Result<AttemptFolder, FleetError> {
        let attempts = self.tasks.make_folder(self.attempts_name())?;
        let name = claim_name(process);
        attempts.remove(&name)?;
        let claim = attempts.make_folder(&name)?;
        let mut attempt = Attempt {
            version: VERSION,
            number: self
                .attempt_numbers()?
                .last()
                .map_or(1, |last| last.saturating_add(1)),
            task: self.id.clone(),
            host: process.host.clone(),
            boot_id: process.boot_id.clone(),
            pid: process.id.pid,
            start_ticks: process.id.start_ticks,
            started: now(),
            ended: None,
            exit: None,
            engine_restarts: restarts,
            outcome: AttemptOutcome::Running,
        };
        while attempt.number <= MOST_ATTEMPTS {
            claim.write_json(ATTEMPT, &attempt)?;
            match attempts.rename(&name, &attempts, attempt.number.to_string()) {
                Ok(()) => {
                    attempts.sync()?;
                    return AttemptFolder::of(self, &attempts, attempt);
                }
                // Another attempt has begun meanwhile.
                Err(error) if is_taken(&error) => attempt.number += 1,
                Err(source) => return Err(FleetError::io("create", attempts.path(), source)),
            }
        }
        attempts.remove(&name)?;
        Err(FleetError::refused(
            format_args!("the task {} has had {MOST_ATTEMPTS} attempts", self.id),
            "find the cause in their attempt.json, then remove the folder of its attempts",
        ))
    }
}

impl AttemptFolder {
    fn of(task: &TaskFolder, attempts: &Folder, attempt: Attempt) -> Result<AttemptFolder, FleetError> {
        let name = attempt.number.to_string();
        let folder = attempts.folder(&name)?;
        let missing = || FleetError::format(&attempts.path().join(&name), "another program has removed it");
        Ok(AttemptFolder {
            task: task.clone(),
            folder: folder.ok_or_else(missing)?,
            attempt,
        })
    }

    pub fn number(&self) -> u32 {
        self.attempt.number
    }

    /// The folder in which the run makes its recording.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Publishes the result, unless another attempt has.
    ///
    /// # Errors
    /// The system's.
    pub fn finish(&mut self, ending: &Ending<'_>) -> Result<Published, FleetError> {
        let mut result = TaskResult {
            version: VERSION,
            task: self.task.id.clone(),
            attempt: self.attempt.number,
            exit: ending.exit,
            status: ResultStatus::Done,
            started: self.attempt.started.clone(),
            ended: now(),
            engine_restarts: self.attempt.engine_restarts,
            binary_sha256: ending.binary_sha256.to_owned(),
            recording: ending.recording.is_some(),
            checksums: BTreeMap::new(),
        };
        self.assemble(ending, &mut result)?;
        let result = self.publish(result)?;
        self.conclude(result, ending.exit)
    }

    /// Puts all parts of the result into its temporary folder, on disk, and adds their checksums to it.
    fn assemble(&self, ending: &Ending<'_>, result: &mut TaskResult) -> Result<(), FleetError> {
        let temporary = self.task.tasks.make_folder(self.temporary())?;
        if let Some(name) = ending.recording {
            self.folder
                .rename(name, &temporary, RECORDING)
                .map_err(|source| FleetError::io("move", &self.folder.path().join(name), source))?;
        }
        temporary.write_json(fingerprint::FILE, ending.host)?;
        result.checksums = checksums(&temporary)?;
        temporary.write_json(RESULT, result)?;
        temporary.sync_all()
    }

    fn temporary(&self) -> String {
        self.task.temporary(self.attempt.number)
    }

    /// Gives the temporary folder the name of the result. Returns the task's result, which may be that of another attempt.
    pub(super) fn publish(&self, result: TaskResult) -> Result<TaskResult, FleetError> {
        let (tasks, id) = (&self.task.tasks, self.task.id.as_str());
        loop {
            let source = match tasks.rename(self.temporary(), tasks, id) {
                Ok(()) => {
                    tasks.sync()?;
                    return Ok(result);
                }
                Err(source) => source,
            };
            // A server may have lost its answer: the client asks again, and the folder has its new name already.
            let is_gone = source.kind() == io::ErrorKind::NotFound;
            if !is_gone && !is_taken(&source) {
                return Err(FleetError::io("publish", &self.result_path(), source));
            }
            match self.task.done()? {
                Some(found) => return Ok(found),
                None if is_gone => return Err(FleetError::io("publish", &self.result_path(), source)),
                None => self.set_aside()?,
            }
        }
    }

    fn result_path(&self) -> PathBuf {
        self.task.tasks.path().join(self.task.id.as_str())
    }

    /// Frees the name of the result of an entry that is no result.
    fn set_aside(&self) -> Result<(), FleetError> {
        let (tasks, id) = (&self.task.tasks, self.task.id.as_str());
        let aside = self.task.aside(self.attempt.number);
        tasks.remove(&aside)?;
        match tasks.rename(id, tasks, &aside) {
            Ok(()) => {}
            // Another attempt did so.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(source) => return Err(FleetError::io("replace", &self.result_path(), source)),
        }
        // Another attempt may have replaced it in between: that result stays.
        let moved = tasks.folder(&aside).ok().flatten();
        let moved = moved.and_then(|folder| self.task.done_in(&folder).ok().flatten());
        if moved.is_some() {
            match tasks.rename(&aside, tasks, id) {
                Ok(()) => {}
                Err(error) if is_taken(&error) => {}
                Err(source) => return Err(FleetError::io("restore", &self.result_path(), source)),
            }
        }
        tasks.remove(&aside)
    }

    /// Records that the run failed. The attempt keeps its recording until the task is done.
    ///
    /// # Errors
    /// The system's.
    pub fn fail(&mut self, exit: u8) -> Result<(), FleetError> {
        self.take_back()?;
        for name in self.folder.names()? {
            if name != RECORDING && self.folder.is_folder(&name) {
                // Of several recordings the first is kept under this name.
                let _ = self.folder.rename(&name, &self.folder, RECORDING);
            }
        }
        self.end(AttemptOutcome::Failed, exit)
    }

    /// Moves the recording out of a result that could not be published, and removes the rest of that.
    fn take_back(&self) -> Result<(), FleetError> {
        let tasks = &self.task.tasks;
        if let Ok(Some(temporary)) = tasks.folder(self.temporary()) {
            match temporary.rename(RECORDING, &self.folder, RECORDING) {
                Ok(()) => {}
                // The error was before its move.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => {
                    return Err(FleetError::io("move", &temporary.path().join(RECORDING), source));
                }
            }
        }
        tasks.remove(self.temporary())
    }

    /// Records the end of this attempt, now that the task has a result, and removes its parts. The result may be its own although
    /// [`AttemptFolder::finish`] failed: an error may follow the publication.
    ///
    /// # Errors
    /// The system's.
    pub fn conclude(&mut self, result: TaskResult, exit: u8) -> Result<Published, FleetError> {
        if !self.has_given(&result) {
            self.supersede(exit)?;
            return Ok(Published::Lost(result));
        }
        self.attempt.complete(&result);
        self.folder.write_json(ATTEMPT, &self.attempt)?;
        self.task.remove_parts(self.attempt.number, &self.folder)?;
        Ok(Published::Won(result))
    }

    /// Whether a result is that of this attempt. Numbers begin again if somebody removes the folder of the attempts.
    fn has_given(&self, result: &TaskResult) -> bool {
        result.attempt == self.attempt.number && result.started == self.attempt.started
    }

    /// Records that the result of another attempt is the task's, and removes the parts of this one.
    fn supersede(&mut self, exit: u8) -> Result<(), FleetError> {
        self.task.remove_parts(self.attempt.number, &self.folder)?;
        self.end(AttemptOutcome::Superseded, exit)
    }

    fn end(&mut self, outcome: AttemptOutcome, exit: u8) -> Result<(), FleetError> {
        self.attempt.outcome = outcome;
        self.attempt.ended = Some(now());
        self.attempt.exit = Some(exit);
        self.folder.write_json(ATTEMPT, &self.attempt)
    }
}
