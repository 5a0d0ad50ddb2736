//! The right of a guard to stop processes of other programs.
//!
//! A stop changes nothing of the machine that a run measures by itself, so a vigil has a journal of its own and does not hold
//! the machine: a guard works beside runs and beside `cleanup`. It holds a lock of its own instead, as two guards would
//! continue what the other has stopped.
//!
//! Invariant: each process that a guard stops is in its journal before, and a vigil begins with the undo of the stops of dead
//! guards. Checked by `a_new_vigil_continues_the_processes_of_a_dead_one`.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use plimsoll_proc::ProcessId;

use super::change::Change;
use super::cleanup::{continue_stopped, undo_changes};
use super::error::EnvironmentError;
use super::journal::Journal;
use super::lock::MachineLock;
use super::state::{self, Lock, StateFolder};
use super::stopped::KIND;
use super::undo::UndoReport;

/// A guard does not wait for another one.
static NEVER: AtomicBool = AtomicBool::new(false);

/// The journal and the lock of a guard. Dropping it continues all processes; [`Vigil::finish`] also returns the result.
#[derive(Debug)]
pub struct Vigil {
    /// `None` only after [`Vigil::finish`] took it.
    journal: Option<Journal>,
    // Declared after the journal: the next guard may begin only when the journal is closed.
    _lock: MachineLock,
}

impl Vigil {
    /// Takes the guard lock, continues the processes that dead guards have stopped, and opens a journal. The journal keeps
    /// `command` for its readers. Returns the processes that it continued, too.
    ///
    /// # Errors
    /// [`EnvironmentError::Guarded`] beside another guard, and an error of the system when the state folder cannot be
    /// written.
    pub fn open(command: &[String]) -> Result<(Vigil, Vec<String>), EnvironmentError> {
        Self::open_in(&state::path()?, command)
    }

    fn open_in(state: &Path, command: &[String]) -> Result<(Vigil, Vec<String>), EnvironmentError> {
        let folder = StateFolder::make(state)?;
        let lock = MachineLock::acquire(&folder, Lock::Guard, KIND, None, &NEVER)?;
        let continued = continue_stopped(&folder)?;
        let journal = Journal::create_for(&folder, KIND, command)?;
        let vigil = Vigil {
            journal: Some(journal),
            _lock: lock,
        };
        Ok((vigil, continued))
    }

    /// Path of the journal.
    pub fn journal_path(&self) -> Option<PathBuf> {
        self.journal.as_ref().map(|journal| journal.path().to_owned())
    }

    /// Writes down that the process is about to be stopped; once for all its stops.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn stopping(&mut self, process: ProcessId) -> Result<(), EnvironmentError> {
        let change = Change::Stopped {
            pid: process.pid,
            start_time: process.start_ticks,
        };
        match &mut self.journal {
            Some(journal) if journal.find(|known| *known == change).is_none() => {
                journal.record(change).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Writes down that nothing is to be undone for the process: it runs, has ended, or another program has stopped it.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn released(&mut self, process: ProcessId) -> Result<(), EnvironmentError> {
        let change = Change::Stopped {
            pid: process.pid,
            start_time: process.start_ticks,
        };
        let Some(journal) = &mut self.journal else {
            return Ok(());
        };
        match journal.find(|known| *known == change) {
            Some(number) => journal
                .record_undone(number)
                .and_then(|()| journal.forget_undone()),
            None => Ok(()),
        }
    }

    /// Continues all processes, and removes the journal.
    ///
    /// # Errors
    /// [`EnvironmentError::LeftBehind`] when a process cannot be continued; the journal then stays, for `cleanup`.
    pub fn finish(mut self) -> Result<UndoReport, EnvironmentError> {
        let Some(mut journal) = self.journal.take() else {
            return Ok(UndoReport::default());
        };
        let done = undo_changes(&mut journal, 0, |_| true);
        let path = journal.path().to_owned();
        if !done.left.is_empty() {
            return Err(EnvironmentError::LeftBehind {
                left: done.left,
                journal: path,
            });
        }
        let closed = journal.close();
        closed.map_err(|source| {
            EnvironmentError::system(format!("remove the journal {}", path.display()), source)
        })?;
        Ok(done.report)
    }
}

impl Drop for Vigil {
    fn drop(&mut self) {
        if let Some(mut journal) = self.journal.take()
            && undo_changes(&mut journal, 0, |_| true).left.is_empty()
        {
            // A journal with nothing to undo does no harm: the next cleanup removes it.
            let _ = journal.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::cleanup::cleanup_in;
    use super::*;

    fn names(state: &Path) -> usize {
        fs::read_dir(state.join("runs")).unwrap().count()
    }

    #[test]
    fn two_guards_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let (first, _) = Vigil::open_in(&state, &[]).unwrap();
        assert!(matches!(
            Vigil::open_in(&state, &[]),
            Err(EnvironmentError::Guarded { holder, .. }) if holder.pid == std::process::id()
        ));
        let _ = first.finish().unwrap();
        let (second, _) = Vigil::open_in(&state, &[]).unwrap();
        drop(second);
        assert_eq!(names(&state), 0);
    }

    /// A new guard took the stops of a killed one for those of another program, and never continued the processes.
    #[test]
    fn a_new_vigil_continues_the_processes_of_a_dead_one() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let mut child = plimsoll_testkit::command("sleep").arg("60").spawn().unwrap();
        let process = ProcessId::of(child.id()).unwrap();
        let pidfd = plimsoll_os::Pidfd::open(process.pid).unwrap();
        for by_cleanup in [false, true] {
            let (mut dead, _) = Vigil::open_in(&state, &[]).unwrap();
            dead.stopping(process).unwrap();
            dead.stopping(process).unwrap();
            pidfd.send_signal(libc::SIGSTOP).unwrap();
            // As a kill leaves it: the lock is free, and the journal stays.
            drop(dead.journal.take());
            drop(dead);
            assert_eq!(names(&state), 1);
            let continued = match by_cleanup {
                true => {
                    // A run that holds the machine relies on no process.
                    let made = StateFolder::make(&state).unwrap();
                    let _run = MachineLock::acquire(&made, Lock::Machine, "run", None, &NEVER).unwrap();
                    let report = cleanup_in(&state, None).unwrap();
                    assert!(report.is_clean());
                    report.runs[0].undone.clone()
                }
                false => Vigil::open_in(&state, &[]).unwrap().1,
            };
            assert_eq!(continued, [format!("stop of process {}", process.pid)]);
            assert_eq!(names(&state), 0);
            let stat = plimsoll_proc::PidStat::read(process.pid, &mut Vec::new())
                .unwrap()
                .state;
            assert_ne!(stat, 'T');
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_journal_of_released_processes_does_not_grow() {
        let folder = tempfile::tempdir().unwrap();
        let (mut vigil, _) = Vigil::open_in(&folder.path().join("state"), &[]).unwrap();
        let path = vigil.journal_path().unwrap();
        let length = fs::metadata(&path).unwrap().len();
        for pid in 1..100 {
            let process = ProcessId { pid, start_ticks: 1 };
            vigil.stopping(process).unwrap();
            vigil.released(process).unwrap();
        }
        assert_eq!(fs::metadata(&path).unwrap().len(), length);
        let kept = ProcessId {
            pid: 7,
            start_ticks: 1,
        };
        vigil.stopping(kept).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
    }
}
