//! The results of undoing a change.

use std::fmt;
use std::io;

use serde::Serialize;

/// How a change stopped being this run's.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Undone {
    /// It is gone, now or before.
    Gone,
    /// Somebody else changed it since, as the words say: it is theirs.
    NotOurs(String),
}

/// Why a change could not be undone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum UndoError {
    /// The system refused.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried, as words that follow "cannot".
        action: String,
        /// What the system answered.
        source: io::Error,
    },
    /// A swap area that is on.
    #[error("it is in use as swap")]
    InUse,
    /// The kernel keeps a swap area on.
    #[error("swapoff failed: {0}")]
    SwapOff(plimsoll_os::Errno),
    /// What a swap area holds has no room in RAM.
    #[error("swapoff failed: RAM cannot take the {used} bytes that it holds; end some programs")]
    NoRoom {
        /// Bytes in the area.
        used: u64,
    },
    /// Signals end every attempt.
    #[error("swapoff was interrupted by signals again and again")]
    Interrupted,
    /// A swap file that was deleted while it was on.
    #[error(
        "its file was deleted while it was in use, and it cannot be turned off without ({errno}): {used} bytes of memory \
         are in it, and it stays until the machine is started anew"
    )]
    Deleted {
        /// The kernel's answer.
        errno: plimsoll_os::Errno,
        /// Bytes in the area.
        used: u64,
    },
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
    NotTaken {
        /// What was written.
        before: String,
        /// What it holds.
        found: String,
    },
}

impl UndoError {
    /// What the system answered when `action` (words that follow "cannot") was tried.
    pub(super) fn system<E: Into<io::Error>>(action: impl Into<String>) -> impl FnOnce(E) -> UndoError {
        let action = action.into();
        move |source| UndoError::System {
            action,
            source: source.into(),
        }
    }
}

/// A change that could not be undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Left {
    /// The change.
    pub what: String,
    /// Why it is still there.
    pub why: String,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

/// What undoing did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[must_use]
pub struct UndoReport {
    /// What was undone.
    pub undone: Vec<String>,
    /// What somebody else changed since: it is theirs now, and was left alone.
    pub left_alone: Vec<Left>,
}
