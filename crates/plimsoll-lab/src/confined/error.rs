//! Errors of a program in a cgroup of its own.

use std::io;
use std::path::PathBuf;

use plimsoll_os::Errno;

use crate::environment::EnvironmentError;

/// The program did not run in a cgroup of its own.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfinedError {
    /// The kernel refuses to execute the program.
    #[error("cannot start the program: {0}")]
    Start(io::Error),
    #[error("cannot open {} for the program: {source}", path.display())]
    Cgroup { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    #[error("cannot {action}: {source}")]
    Io { action: &'static str, source: io::Error },
}

impl ConfinedError {
    pub(super) fn io(action: &'static str) -> impl FnOnce(io::Error) -> ConfinedError {
        move |source| ConfinedError::Io { action, source }
    }

    pub(super) fn errno(action: &'static str) -> impl FnOnce(Errno) -> ConfinedError {
        move |errno| ConfinedError::Io {
            action,
            source: io::Error::from_raw_os_error(errno.raw()),
        }
    }
}
