//! The state folder: the machine lock and the journals of runs.
//!
//! `cleanup` obeys the journals, possibly as root. So the state folder, its folder `runs` and the files in them must
//! belong to the effective user, and no other user may be able to write to them or to an ancestor.
//! Checked by `a_journal_that_another_user_could_write_is_not_obeyed`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};

use plimsoll_proc::{Distrust, TrustedFolder};
use rustix::fs::OFlags;

use super::error::{EnvironmentError, STATE_DIR};

const RUNS: &str = "runs";

/// A lock of the state folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    /// Of runs.
    Machine,
    /// Of guards.
    Guard,
}

impl Lock {
    pub(super) fn file(self) -> &'static str {
        match self {
            Lock::Machine => "machine.lock",
            Lock::Guard => "guard.lock",
        }
    }
}

/// The path of the state folder: `$PLIMSOLL_STATE_DIR`; or `/var/lib/plimsoll` for root; or `plimsoll` in the user's
/// state folder (`$XDG_STATE_HOME`, `~/.local/state`) or, without a home, in the user's runtime folder.
pub(super) fn path() -> Result<PathBuf, EnvironmentError> {
    let user = rustix::process::geteuid().as_raw();
    let path = path_of(|name| std::env::var_os(name), user, Path::new("/run/user"));
    path.ok_or(EnvironmentError::NoStateFolder)
}

/// `None` rather than a folder that users share: another user could create it first.
fn path_of(variable: impl Fn(&str) -> Option<OsString>, user: u32, runtime: &Path) -> Option<PathBuf> {
    if let Some(folder) = variable(STATE_DIR).filter(|folder| !folder.is_empty()) {
        return Some(PathBuf::from(folder));
    }
    if user == 0 {
        return Some(PathBuf::from("/var/lib/plimsoll"));
    }
    let absolute = |name: &str| {
        let folder = variable(name).map(PathBuf::from);
        folder.filter(|folder| folder.is_absolute())
    };
    let runtime = || Some(runtime.join(user.to_string())).filter(|folder| folder.is_dir());
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .or_else(runtime)
        .map(|folder| folder.join("plimsoll"))
}

#[derive(Debug)]
pub(super) struct StateFolder(TrustedFolder);

impl StateFolder {
    /// Opens the folder, and creates it for its user alone if it does not exist.
    pub(super) fn make(path: &Path) -> Result<StateFolder, EnvironmentError> {
        let made = TrustedFolder::make_own(path);
        made.map(StateFolder).map_err(|defect| untrusted(path, defect))
    }

    /// Opens the folder; `None` if it does not exist.
    pub(super) fn find(path: &Path) -> Result<Option<StateFolder>, EnvironmentError> {
        match TrustedFolder::own(path) {
            Ok(folder) => Ok(Some(StateFolder(folder))),
            Err(defect) if defect.is_not_found() => Ok(None),
            Err(defect) => Err(untrusted(path, defect)),
        }
    }

    /// Opens the folder of the journals, and creates it if it does not exist.
    pub(super) fn make_runs(&self) -> Result<TrustedFolder, EnvironmentError> {
        let made = self.0.make_folder(OsStr::new(RUNS));
        made.map_err(|defect| untrusted(self.0.path(), defect))
    }

    /// Opens the folder of the journals; `None` if it does not exist.
    pub(super) fn runs(&self) -> Result<Option<TrustedFolder>, EnvironmentError> {
        match self.0.folder(OsStr::new(RUNS)) {
            Ok(folder) => Ok(Some(folder)),
            Err(defect) if defect.is_not_found() => Ok(None),
            Err(defect) => Err(untrusted(self.0.path(), defect)),
        }
    }

    /// Opens the file of a lock, and creates it if it does not exist.
    pub(super) fn lock_file(&self, lock: Lock) -> Result<File, EnvironmentError> {
        let flags = OFlags::RDWR | OFlags::CREATE;
        let opened = self.0.own_file(OsStr::new(lock.file()), flags, 0o600);
        opened.map_err(|defect| untrusted(self.0.path(), defect))
    }

    /// Path of a lock, for messages.
    pub(super) fn lock_path(&self, lock: Lock) -> PathBuf {
        self.0.path().join(lock.file())
    }
}

fn untrusted(folder: &Path, defect: Distrust) -> EnvironmentError {
    EnvironmentError::StateFolder {
        folder: folder.to_owned(),
        defect,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_folder_is_never_in_a_folder_that_users_share() {
        let runtime = tempfile::tempdir().unwrap();
        let of = |user: u32, variables: &[(&str, &str)]| {
            let variable = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            };
            path_of(variable, user, runtime.path())
        };
        let path = |path: &str| Some(PathBuf::from(path));
        let (home, xdg) = (("HOME", "/h"), ("XDG_STATE_HOME", "/x"));
        assert_eq!(of(7, &[home, xdg, (STATE_DIR, "/s")]), path("/s"));
        assert_eq!(of(7, &[home, xdg, (STATE_DIR, "")]), path("/x/plimsoll"));
        assert_eq!(of(7, &[home]), path("/h/.local/state/plimsoll"));
        assert_eq!(of(0, &[home, xdg]), path("/var/lib/plimsoll"));
        for without in [&[][..], &[("HOME", "relative"), ("XDG_STATE_HOME", "")]] {
            assert_eq!(of(7, without), None);
            assert_eq!(of(0, without), path("/var/lib/plimsoll"));
        }
        std::fs::create_dir(runtime.path().join("7")).unwrap();
        assert_eq!(of(7, &[]), Some(runtime.path().join("7/plimsoll")));
    }
}
