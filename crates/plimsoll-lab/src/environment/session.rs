//! A run's right to change this machine.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use plimsoll_proc::cgroup::{CgroupVersion, Hierarchy, MemoryCgroup};

use super::cap::{Cap, CapError};
use super::cgroup::{Cgroup, CgroupSettings};
use super::change::Change;
use super::cleanup::{check_uncapped, dead_runs, undo_changes};
use super::error::EnvironmentError;
use super::journal::{Header, Journal};
use super::lock::MachineLock;
use super::process;
use super::state::{self, Lock, StateFolder};
use super::undo::UndoReport;
use super::zram;

/// A run's journal and its hold on the machine lock. Dropping it undoes the outstanding changes; [`Session::finish`]
/// also returns the result.
#[derive(Debug)]
pub struct Session {
    run: String,
    state: PathBuf,
    /// `None` only after [`Session::finish`] took it.
    journal: Option<Journal>,
    // Declared after the journal: the machine is free only when the journal is closed.
    _lock: MachineLock,
}

impl Session {
    /// Takes the machine lock and opens the run's journal. `run` names the cgroups and files of the run, and the
    /// journal keeps `command` for its readers. While another run holds the machine this waits for up to `wait`, or
    /// until `interrupted` is true.
    ///
    /// # Errors
    /// [`EnvironmentError::Busy`] with the holder's name when the machine is not free in time,
    /// [`EnvironmentError::Interrupted`], and an error of the system when the state folder cannot be written.
    pub fn open(
        run: &str,
        command: &[String],
        wait: Option<Duration>,
        interrupted: &AtomicBool,
    ) -> Result<Session, EnvironmentError> {
        Self::open_in(&state::path()?, run, command, wait, interrupted)
    }

    /// As [`Session::open`], with the lock and the journal in the folder `state`: runs with different folders do
    /// not see each other.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn open_in(
        state: &Path,
        run: &str,
        command: &[String],
        wait: Option<Duration>,
        interrupted: &AtomicBool,
    ) -> Result<Session, EnvironmentError> {
        let run = file_name_of(run);
        let folder = StateFolder::make(state)?;
        let lock = MachineLock::acquire(&folder, Lock::Machine, &run, wait, interrupted)?;
        let header = Header::new(&run, command)?;
        let journal = Journal::create(folder.make_runs()?, header).map_err(|source| {
            EnvironmentError::system(format!("make the run's journal in {}", state.display()), source)
        })?;
        Ok(Session {
            run,
            state: state.to_owned(),
            journal: Some(journal),
            _lock: lock,
        })
    }

    /// Name of the run, as it stands in names of cgroups and files.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Writes down that the process `pid` was started for this run: it is killed when the run's changes are
    /// undone and it still lives.
    ///
    /// # Errors
    /// When the process is not there, or the journal cannot be written.
    pub fn process_started(&mut self, pid: u32) -> Result<(), EnvironmentError> {
        let start_time = process::start_time(pid).map_err(|source| {
            EnvironmentError::system(format!("read the start time of process {pid}"), source)
        })?;
        self.journal_mut()
            .record(Change::Process { pid, start_time })
            .map(drop)
    }

    /// Writes down that the process `pid` has ended and was waited for.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn process_ended(&mut self, pid: u32) -> Result<(), EnvironmentError> {
        match self
            .journal()
            .find(|change| matches!(change, Change::Process { pid: other, .. } if *other == pid))
        {
            Some(number) => self.journal_mut().record_undone(number),
            None => Ok(()),
        }
    }

    /// Names of runs that died and left changes behind: a reason to recommend `plimsoll cleanup`.
    ///
    /// # Errors
    /// When the state folder cannot be read.
    pub fn dead_runs(&self) -> Result<Vec<String>, EnvironmentError> {
        dead_runs(&self.state)
    }

    /// Opens the cgroup at `folder` for a cap, without a change of the cgroup.
    ///
    /// # Errors
    /// [`CapError::KilledRun`], [`CapError::NoFile`], [`CapError::Denied`], [`CapError::Gone`], and other errors of the
    /// system.
    pub fn open_cap(&self, folder: &Path) -> Result<Cap, CapError> {
        check_uncapped(&self.state, folder, Cap::open(folder)?.inode())?;
        // Read the values again: between the first reading and the check, a cleanup may have undone the changes of a
        // dead guard.
        Cap::open(folder)
    }

    /// Sets a cap to `bytes`, in pieces: the kernel reclaims the memory above it first, until `stop` is true. Where the
    /// kernel cannot reclaim enough, the cap stays higher. Returns the cap; `None` for the one before.
    ///
    /// # Errors
    /// [`CapError::Changed`], [`CapError::Gone`], and other errors of the system.
    pub fn set_cap(
        &mut self,
        cap: &mut Cap,
        bytes: u64,
        stop: impl Fn() -> bool,
    ) -> Result<Option<u64>, CapError> {
        cap.set(self.journal_mut(), bytes, stop)
    }

    /// Restores the cap before. Does not wait for the disk before the write.
    ///
    /// # Errors
    /// As [`Session::set_cap`].
    pub fn lift_cap(&mut self, cap: &mut Cap) -> Result<(), CapError> {
        cap.lift(self.journal_mut())
    }

    /// The algorithms of this kernel's zram. Adds a device for the look, and removes it again.
    ///
    /// # Errors
    /// When no device can be added, or the added one not be removed.
    pub fn zram_algorithms(&mut self) -> Result<Vec<String>, EnvironmentError> {
        let first = self.journal().next_number();
        let found = zram::look_at_algorithms(self.journal_mut());
        self.undo_since(first).map(drop)?;
        found
    }

    /// Makes a cgroup with a limit and without swap, in this process's own or in the cgroup `within`. Undone with the
    /// session.
    ///
    /// # Errors
    /// [`EnvironmentError::NoChildren`] where cgroups in `within` cannot have a limit, and an error of the system when it
    /// refuses.
    pub fn make_cgroup(&mut self, within: Option<&Path>, limit: u64) -> Result<Cgroup, EnvironmentError> {
        let mut hierarchy = Hierarchy::of_this_process().map_err(|found| {
            EnvironmentError::system(
                "find the memory cgroup of this process",
                std::io::Error::other(found),
            )
        })?;
        if let Some(within) = within {
            let group = MemoryCgroup::new(within, hierarchy.version);
            if hierarchy.version == CgroupVersion::V2 && !group.gives_controller() {
                return Err(EnvironmentError::NoChildren);
            }
            within.clone_into(&mut hierarchy.own);
        }
        let settings = CgroupSettings {
            limit,
            swappiness: None,
            swap: false,
            kill: false,
            as_one: true,
        };
        Cgroup::create(self.journal_mut(), &hierarchy, settings)
    }

    /// Undoes the outstanding changes, removes the journal and releases the machine lock.
    ///
    /// # Errors
    /// [`EnvironmentError::LeftBehind`] when a change could not be undone; the journal then stays.
    pub fn finish(mut self) -> Result<UndoReport, EnvironmentError> {
        let report = self.undo_since(0)?;
        if let Some(journal) = self.journal.take() {
            let path = journal.path().to_owned();
            journal.close().map_err(|source| {
                EnvironmentError::system(format!("remove the journal {}", path.display()), source)
            })?;
        }
        Ok(report)
    }

    /// Undoes the changes from number `from` on, newest first.
    pub(super) fn undo_since(&mut self, from: u32) -> Result<UndoReport, EnvironmentError> {
        let journal = self.journal_mut();
        let done = undo_changes(journal, from, |_| true);
        if done.left.is_empty() {
            return Ok(done.report);
        }
        Err(EnvironmentError::LeftBehind {
            left: done.left,
            journal: journal.path().to_owned(),
        })
    }

    pub(super) fn journal(&self) -> &Journal {
        // Invariant: only `finish` takes the journal, and it consumes the session.
        self.journal
            .as_ref()
            .expect("the journal is there until the session is finished")
    }

    pub(super) fn journal_mut(&mut self) -> &mut Journal {
        // Invariant: as in `journal`.
        self.journal
            .as_mut()
            .expect("the journal is there until the session is finished")
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(mut journal) = self.journal.take()
            && undo_changes(&mut journal, 0, |_| true).left.is_empty()
        {
            // A journal with nothing to undo does no harm: the next cleanup removes it.
            let _ = journal.close();
        }
    }
}

/// `name` with everything that has a meaning in file names, cgroup names or /proc/swaps replaced by `-`.
fn file_name_of(name: &str) -> String {
    let safe = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '-'
        }
    };
    let name: String = name.chars().map(safe).take(100).collect();
    let name = name.trim_start_matches('.');
    if name.is_empty() {
        "run".to_owned()
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::file_name_of;

    #[test]
    fn a_run_name_cannot_leave_its_folder() {
        assert_eq!(file_name_of("../../etc/passwd"), "-..-etc-passwd");
        assert_eq!(
            file_name_of("compression-20260101T000000-ab12"),
            "compression-20260101T000000-ab12"
        );
        assert_eq!(file_name_of(".."), "run");
        assert_eq!(file_name_of("a b\nc"), "a-b-c");
    }
}
