//! Removal of the cgroups of a run.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_proc::cgroup::CgroupFolder;

use super::super::undo::{UndoError, Undone};
use super::kill;
use super::patience::POLL;

/// How long the processes of a cgroup may take to be gone before those that remain are moved out.
const EMPTY_WITHIN: Duration = Duration::from_secs(3);
/// How long an emptied cgroup may be busy: the kernel still frees the memory of its processes.
const REMOVED_WITHIN: Duration = Duration::from_secs(10);

/// Removes the cgroup. With `kill` all processes in it are the run's, and are killed. Else they get some time to end; those
/// that remain were not started by the run (its own are in the journal and were killed before) and are moved to the
/// parent rather than killed.
pub(in super::super) fn undo(path: &Path, kill: bool) -> Result<Undone, UndoError> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(UndoError::Outside("this is no path of a cgroup"));
    };
    let Some(parent) = open_folder(parent)? else {
        return Ok(Undone::Gone);
    };
    let cgroup = parent.child(name);
    if kill {
        let remaining =
            kill::kill_all(cgroup.path(), EMPTY_WITHIN).map_err(UndoError::system("list its processes"))?;
        if !remaining.is_empty() {
            return Err(UndoError::Occupied(remaining));
        }
        kill::remove_below(cgroup.path());
    }
    let start = Instant::now();
    loop {
        match parent.remove_child(name) {
            Ok(()) => return Ok(Undone::Gone),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Undone::Gone),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            Err(source) => return Err(UndoError::system("remove it")(source)),
        }
        let remaining = cgroup.processes().unwrap_or_default();
        if start.elapsed() >= REMOVED_WITHIN {
            return Err(match remaining.is_empty() {
                true => UndoError::Busy,
                false => UndoError::Occupied(remaining),
            });
        }
        if start.elapsed() >= EMPTY_WITHIN {
            for pid in remaining {
                // A process that cannot move appears in the error above once the time is over.
                let _ = parent.group().add_process(pid);
            }
        }
        thread::sleep(POLL);
    }
}

/// Kills the processes of a cgroup. The undoing of the cgroup says which of them live on.
pub(in super::super) fn end_processes(path: &Path) {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return;
    };
    if let Ok(Some(parent)) = open_folder(parent) {
        let _ = kill::kill_all(parent.child(name).path(), EMPTY_WITHIN);
    }
}

/// The folder of a cgroup; `None` if it does not exist.
pub(in super::super) fn open_folder(path: &Path) -> Result<Option<CgroupFolder>, UndoError> {
    match CgroupFolder::open(path) {
        Ok(Some(folder)) => Ok(Some(folder)),
        Ok(None) => Err(UndoError::Outside("this path is not in a cgroup file system")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(UndoError::system("open its folder")(source)),
    }
}

/// `None` if the open folder has the inode number that the journal has, or the journal has none. Otherwise the result
/// of the undo: the folder belongs to a later cgroup, and stays as it is.
pub(in super::super) fn other_cgroup(folder: &Path, inode: Option<u64>) -> Result<Option<Undone>, UndoError> {
    let Some(inode) = inode else {
        return Ok(None);
    };
    let found = folder.metadata().map_err(UndoError::system("read its folder"))?;
    if found.ino() == inode {
        return Ok(None);
    }
    let why = "the capped cgroup was removed; another cgroup has its name now";
    Ok(Some(Undone::NotOurs(why.to_owned())))
}

/// Whether the error says that a cgroup is not there any more.
pub(in super::super) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENODEV)
}

#[cfg(test)]
mod tests {
    use super::super::v2::undo_controller;
    use std::fs;

    use super::*;

    #[test]
    fn undo_removes_no_folder_outside_of_a_cgroup_file_system() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plimsoll-run-1");
        fs::create_dir(&path).unwrap();
        assert!(matches!(undo(&path, true), Err(UndoError::Outside(_))));
        assert!(matches!(undo_controller(&path), Err(UndoError::Outside(_))));
        assert!(path.exists());
        assert_eq!(
            undo(&path.join("absent/plimsoll-run-1"), true).unwrap(),
            Undone::Gone
        );
    }

    #[test]
    fn a_cgroup_with_another_inode_number_is_not_ours() {
        let folder = tempfile::tempdir().unwrap();
        let inode = fs::metadata(folder.path()).unwrap().ino();
        assert_eq!(other_cgroup(folder.path(), Some(inode)).unwrap(), None);
        assert_eq!(other_cgroup(folder.path(), None).unwrap(), None);
        let other = other_cgroup(folder.path(), Some(inode + 1)).unwrap();
        assert!(matches!(other, Some(Undone::NotOurs(_))), "{other:?}");
        let unknown = other_cgroup(&folder.path().join("absent"), Some(inode));
        assert!(matches!(unknown, Err(UndoError::System { .. })), "{unknown:?}");
    }
}
