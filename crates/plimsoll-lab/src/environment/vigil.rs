//! The right of a guard to stop processes of other programs, and to throttle cgroups.
//!
//! A stop changes nothing of the machine that a run measures by itself, so a vigil has a journal of its own and does not hold
//! the machine: a guard works beside runs and beside `cleanup`. It holds a lock of its own instead, as two guards would
//! undo what the other has done. While a cgroup is throttled, it holds the machine too: a sizing changes the same files.
//!
//! Invariant: each process that a guard stops, and each cgroup that it throttles, is in its journal before, and a vigil begins
//! with the undo of the changes of dead guards. Checked by `a_new_vigil_continues_the_processes_of_a_dead_one`, and in the VM
//! with cgroup v2.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use plimsoll_proc::ProcessId;

use super::cap::CapError;
use super::change::Change;
use super::cleanup::{check_uncapped, undo_changes, undo_guards};
use super::error::EnvironmentError;
use super::journal::Journal;
use super::lock::MachineLock;
use super::state::{self, Lock, StateFolder};
use super::stopped::KIND;
use super::throttle::Throttle;
use super::undo::UndoReport;

/// A guard does not wait for another one.
static NEVER: AtomicBool = AtomicBool::new(false);

/// The journal and the lock of a guard. Dropping it undoes all changes; [`Vigil::finish`] also returns the result.
#[derive(Debug)]
pub struct Vigil {
    /// By the inode numbers of their folders.
    throttled: BTreeMap<u64, Throttle>,
    /// `None` only after [`Vigil::finish`] took it.
    journal: Option<Journal>,
    // Declared after the journal: the next guard or run may begin only when the journal is closed.
    /// While a cgroup is throttled.
    machine: Option<MachineLock>,
    _lock: MachineLock,
    state: StateFolder,
    state_path: PathBuf,
}

impl Vigil {
    /// Takes the guard lock, undoes the changes of dead guards, and opens a journal. The journal keeps `command` for its
    /// readers. Returns the undone changes, too.
    ///
    /// # Errors
    /// [`EnvironmentError::Guarded`] beside another guard, and an error of the system when the state folder cannot be
    /// written.
    pub fn open(command: &[String]) -> Result<(Vigil, Vec<String>), EnvironmentError> {
        Self::open_in(&state::path()?, command)
    }

    pub(crate) fn open_in(
        state: &Path,
        command: &[String],
    ) -> Result<(Vigil, Vec<String>), EnvironmentError> {
        let folder = StateFolder::make(state)?;
        let lock = MachineLock::acquire(&folder, Lock::Guard, KIND, None, &NEVER)?;
        let continued = undo_guards(&folder)?;
        let journal = Journal::create_for(&folder, KIND, command)?;
        let vigil = Vigil {
            throttled: BTreeMap::new(),
            journal: Some(journal),
            machine: None,
            _lock: lock,
            state: folder,
            state_path: state.to_owned(),
        };
        Ok((vigil, continued))
    }

    pub fn journal_path(&self) -> Option<PathBuf> {
        self.journal.as_ref().map(|journal| journal.path().to_owned())
    }

    /// Writes down that the process is about to be stopped, whose parent runs; once for all its stops beside the same parent.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn stopping(
        &mut self,
        process: ProcessId,
        parent: Option<ProcessId>,
    ) -> Result<(), EnvironmentError> {
        let change = Change::Stopped {
            pid: process.pid,
            start_time: process.start_ticks,
            parent: parent.map(|parent| (parent.pid, parent.start_ticks)),
        };
        match &mut self.journal {
            Some(journal) if journal.find(|known| *known == change).is_none() => {
                let former = find_stop(journal, process);
                journal.record(change)?;
                former.map_or(Ok(()), |former| journal.record_undone(former))
            }
            _ => Ok(()),
        }
    }

    /// Writes down that nothing is to be undone for the process: it runs, has ended, or another program has stopped it.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn released(&mut self, process: ProcessId) -> Result<(), EnvironmentError> {
        let Some(journal) = &mut self.journal else {
            return Ok(());
        };
        match find_stop(journal, process) {
            Some(number) => journal
                .record_undone(number)
                .and_then(|()| journal.forget_undone()),
            None => Ok(()),
        }
    }

    /// Throttles the cgroup at `folder` with the inode number `id`: little CPU time, and little memory, by reclaim until
    /// `stop`. A further call goes on with the latter. Returns whether it was not throttled before; `None` if the cgroup was
    /// removed.
    ///
    /// # Errors
    /// [`EnvironmentError::Busy`] while a run holds the machine, and those of a cap: the cgroup has no memory controller, or
    /// another program changes the same files.
    pub fn throttle(
        &mut self,
        id: u64,
        folder: &Path,
        stop: impl Fn() -> bool,
    ) -> Result<Option<bool>, CapError> {
        let (mut throttle, is_new) = match self.throttled.remove(&id) {
            Some(throttle) => (throttle, false),
            None => {
                self.hold_machine()?;
                match self.open_cgroup(id, folder) {
                    Ok(Some(throttle)) => (throttle, true),
                    other => {
                        self.leave_machine();
                        return match other {
                            Err(CapError::Gone { .. }) | Ok(_) => Ok(None),
                            Err(error) => Err(error),
                        };
                    }
                }
            }
        };
        let Some(journal) = &mut self.journal else {
            return Ok(None);
        };
        let set = throttle.set(journal, stop);
        journal.forget_undone()?;
        // Also after an error: one of its two files may be changed.
        self.throttled.insert(id, throttle);
        match set {
            Ok(()) => Ok(Some(is_new)),
            Err(CapError::Gone { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn hold_machine(&mut self) -> Result<(), EnvironmentError> {
        if self.machine.is_none() {
            let lock = MachineLock::acquire(&self.state, Lock::Machine, KIND, None, &NEVER)?;
            self.machine = Some(lock);
        }
        Ok(())
    }

    fn leave_machine(&mut self) {
        if self.throttled.is_empty() {
            self.machine = None;
        }
    }

    fn open_cgroup(&self, id: u64, folder: &Path) -> Result<Option<Throttle>, CapError> {
        check_uncapped(&self.state_path, folder, id)?;
        Throttle::open(folder, id)
    }

    /// Lifts the throttle of a cgroup. Returns whether it had one and exists.
    ///
    /// # Errors
    /// [`CapError::Changed`] when another program changed the files meanwhile: they stay so.
    pub fn unthrottle(&mut self, id: u64) -> Result<bool, CapError> {
        let (Some(journal), Some(mut throttle)) = (&mut self.journal, self.throttled.remove(&id)) else {
            return Ok(false);
        };
        let lifted = throttle.lift(journal);
        journal.forget_undone()?;
        self.leave_machine();
        match lifted {
            Ok(()) => Ok(true),
            Err(CapError::Gone { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub fn throttled(&self) -> impl Iterator<Item = u64> {
        self.throttled.keys().copied()
    }

    /// Undoes all changes, and removes the journal.
    ///
    /// # Errors
    /// [`EnvironmentError::LeftBehind`] when a change cannot be undone; the journal then stays, for `cleanup`.
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

/// Number of the change of a stop.
fn find_stop(journal: &Journal, process: ProcessId) -> Option<u32> {
    journal.find(|known| {
        matches!(known, Change::Stopped { pid, start_time, .. }
            if (*pid, *start_time) == (process.pid, process.start_ticks))
    })
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
            dead.stopping(process, None).unwrap();
            dead.stopping(process, None).unwrap();
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
            let [change] = &continued[..] else {
                panic!("{continued:?}")
            };
            assert!(change.ends_with(&format!(" {}", process.pid)), "{change}");
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
            vigil.stopping(process, None).unwrap();
            vigil.released(process).unwrap();
        }
        assert_eq!(fs::metadata(&path).unwrap().len(), length);
        let kept = ProcessId {
            pid: 7,
            start_ticks: 1,
        };
        vigil.stopping(kept, None).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
    }
}
