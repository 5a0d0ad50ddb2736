//! The OOM killer of a cgroup v1 of other programs: off while a sizing holds its limit lowered. Tasks that meet the limit
//! then wait until the sizing lifts it.
//!
//! - Invariant: the OOM killer is off before the limit sinks, and on again after the limit has its value before: the journal
//!   has the changes in this order, and an undo goes from the newest to the oldest.
//! - Invariant: where another program had turned the OOM killer off, it stays off.
//!
//! Checked by `a_killed_sizing_is_undone_by_cleanup` and `an_oom_killer_that_was_off_stays_off`.

use std::path::Path;
use std::time::Duration;

use plimsoll_proc::ControlError;
use plimsoll_proc::cgroup::{CgroupVersion, MemoryCgroup, OOM_CONTROL};

use super::cgroup::{is_gone, open_folder, other_cgroup};
use super::change::Change;
use super::error::EnvironmentError;
use super::journal::Journal;
use super::undo::{UndoError, Undone};

/// Attempts at waking the tasks that wait at the limit, and the time between two.
const WAKES: u32 = 20;
const WAKE_INTERVAL: Duration = Duration::from_millis(5);

/// The OOM killer of one cgroup.
#[derive(Debug)]
pub(super) struct OomKiller {
    /// Whether it has to be off while the limit is lowered.
    guarded: bool,
    /// Number of the change in the journal, while it is off.
    number: Option<u32>,
}

/// Why the OOM killer cannot be turned off or on.
#[derive(Debug, thiserror::Error)]
pub(super) enum OomKillerError {
    #[error(transparent)]
    Control(#[from] ControlError),
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
}

impl OomKiller {
    /// # Errors
    /// When the file of v1 cannot be read.
    pub(super) fn open(group: &MemoryCgroup) -> Result<OomKiller, ControlError> {
        let guarded = match group.version() {
            CgroupVersion::V1 => !group.oom_control()?.kill_disabled,
            // The cap of v2 throttles, and never kills.
            CgroupVersion::V2 => false,
        };
        Ok(OomKiller {
            guarded,
            number: None,
        })
    }

    pub(super) fn is_guarded(&self) -> bool {
        self.guarded
    }

    /// Records the change in the journal, and turns the OOM killer off. `folder` is the real path of the cgroup,
    /// `inode` its inode number.
    pub(super) fn disable(
        &mut self,
        group: &MemoryCgroup,
        folder: &Path,
        inode: u64,
        journal: &mut Journal,
    ) -> Result<(), OomKillerError> {
        if !self.guarded || self.number.is_some() {
            return Ok(());
        }
        self.number = Some(journal.record(Change::OomKiller {
            path: folder.join(OOM_CONTROL),
            inode: Some(inode),
        })?);
        Ok(group.let_oom_kill(false)?)
    }

    /// Turns it on again, after the limit has its value before.
    pub(super) fn enable(
        &mut self,
        group: &MemoryCgroup,
        journal: &mut Journal,
    ) -> Result<(), OomKillerError> {
        let Some(number) = self.number else {
            return Ok(());
        };
        wake(group)?;
        self.number = None;
        Ok(journal.record_undone(number)?)
    }

    /// Wakes the tasks that wait although the limit is not lowered.
    pub(super) fn wake(&self, group: &MemoryCgroup) -> Result<(), ControlError> {
        match self.guarded && self.number.is_none() {
            true => group.let_oom_kill(true),
            false => Ok(()),
        }
    }
}

/// Turns the OOM killer on. A task that met the lowered limit before may begin to wait only now, and the kernel wakes it in
/// the next write alone.
fn wake(group: &MemoryCgroup) -> Result<(), ControlError> {
    group.let_oom_kill(true)?;
    for _ in 0..WAKES {
        if !group.oom_control()?.waiting {
            break;
        }
        std::thread::sleep(WAKE_INTERVAL);
        group.let_oom_kill(true)?;
    }
    Ok(())
}

/// Whether a run changes the file: that of a cgroup v1.
pub(super) fn is_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == OOM_CONTROL)
}

/// Turns the OOM killer on if its cgroup has this inode number, or the journal has none.
pub(super) fn undo(path: &Path, inode: Option<u64>) -> Result<Undone, UndoError> {
    let Some(cgroup) = path.parent() else {
        return Err(UndoError::Outside("this is no path of a cgroup"));
    };
    let Some(folder) = open_folder(cgroup)? else {
        return Ok(Undone::Gone);
    };
    let group = folder.group();
    if let Some(other) = other_cgroup(group.path(), inode)? {
        return Ok(other);
    }
    match wake(&group) {
        Ok(()) => Ok(Undone::Gone),
        Err(error) if is_gone(error.io()) => Ok(Undone::Gone),
        Err(error) => Err(UndoError::system("turn it on")(error.into_io())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_an_oom_killer_that_is_on_is_turned_off() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(OOM_CONTROL);
        for (text, guarded) in [
            ("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", true),
            ("oom_kill_disable 1\nunder_oom 1\noom_kill 0\n", false),
        ] {
            fs::write(&file, text).unwrap();
            let v1 = MemoryCgroup::new(folder.path(), CgroupVersion::V1);
            let killer = OomKiller::open(&v1).unwrap();
            assert_eq!(killer.is_guarded(), guarded, "{text}");
            assert_eq!(v1.oom_control().unwrap().waiting, !guarded, "{text}");
        }
        let v2 = MemoryCgroup::new(folder.path(), CgroupVersion::V2);
        assert!(!OomKiller::open(&v2).unwrap().is_guarded());
        let absent = Path::new("/sys/fs/cgroup/plimsoll_absent/memory.oom_control");
        assert_eq!(undo(absent, None).unwrap(), Undone::Gone);
    }
}
