//! The results of undoing a change.

use std::fmt;
use std::io;

use serde::Serialize;

/// How a change ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Undone {
    /// Undone now or before.
    Gone,
    /// Another program has changed it since; the text says how.
    NotOurs(String),
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum UndoError {
    #[error("cannot {action}: {source}")]
    System {
        /// Attempted action; follows "cannot".
        action: String,
        source: io::Error,
    },
    /// A swap area that is on.
    #[error("it is in use as swap")]
    InUse,
    /// The kernel keeps a swap area on.
    #[error("swapoff failed: {0}")]
    SwapOff(plimsoll_os::Errno),
    /// RAM has no room for the content of a swap area.
    #[error("swapoff failed: RAM cannot take the {used} bytes that it holds; end some programs")]
    NoRoom { used: u64 },
    /// Signals end every attempt.
    #[error("swapoff was interrupted by signals again and again")]
    Interrupted,
    /// A swap file that was deleted while it was on.
    #[error(
        "its file was deleted while it was in use, and it cannot be turned off without ({errno}): {used} bytes of memory \
         are in it, and it stays until the machine is started anew"
    )]
    Deleted { errno: plimsoll_os::Errno, used: u64 },
    /// A device that is there after its removal.
    #[error("it is still there")]
    Stays,
    /// A controller that is on after it was turned off.
    #[error("it stays enabled")]
    StaysEnabled,
    /// A cgroup without processes that cannot be removed.
    #[error("it stays busy: it has child cgroups, or the kernel still frees its memory")]
    Busy,
    /// A cgroup whose processes cannot be moved out.
    #[error("processes {0:?} are in it and cannot be moved out: end them")]
    Occupied(Vec<u32>),
    /// A process that outlives its killing.
    #[error("still there {0} s after SIGKILL")]
    Unkillable(u64),
    /// A value that the kernel does not take back.
    #[error("`{before}` was written back but it holds `{found}`")]
    NotTaken { before: String, found: String },
}

impl UndoError {
    /// An error of the system during `action`, which follows "cannot".
    pub(super) fn system<E: Into<io::Error>>(action: impl Into<String>) -> impl FnOnce(E) -> UndoError {
        let action = action.into();
        move |source| UndoError::System {
            action,
            source: source.into(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Left {
    pub what: String,
    pub why: String,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

/// Result of undoing changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[must_use]
pub struct UndoReport {
    pub undone: Vec<String>,
    /// Changes that another program has overwritten since; cleanup does not touch them.
    pub left_alone: Vec<Left>,
}
