//! The results of undoing a change.

use std::fmt;
use std::io;

use plimsoll_proc::Distrust;
use serde::Serialize;

use super::holder::Holder;

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
    /// No run makes such a change.
    #[error("cannot undo it: {0}; check this machine by hand, then remove the journal")]
    Outside(&'static str),
    /// Another user could replace the file meanwhile.
    #[error("cannot remove it safely: {0}; correct the owner and the permissions, or remove it by hand")]
    Untrusted(Distrust),
    #[error("cannot reset it: it is in use as swap; turn it off with swapoff")]
    InUse,
    /// The kernel keeps a swap area on.
    #[error("cannot turn it off: {0}")]
    SwapOff(plimsoll_os::Errno),
    #[error("cannot turn it off: RAM has no room for its {used} bytes; end some programs")]
    NoRoom { used: u64 },
    #[error("cannot turn it off: signals interrupted every swapoff; repeat `plimsoll cleanup`")]
    Interrupted,
    #[error(
        "cannot turn it off: its file was deleted during use ({errno}), and holds {used} bytes of memory; reboot the \
         machine"
    )]
    Deleted { errno: plimsoll_os::Errno, used: u64 },
    #[error(
        "cannot remove it: it exists after its removal; repeat `plimsoll cleanup`, or reboot the machine"
    )]
    Stays,
    #[error("cannot disable it: it stays enabled; remove the cgroups below it that use it")]
    StaysEnabled,
    /// The empty cgroup cannot be removed.
    #[error(
        "cannot remove it: it has child cgroups, or the kernel still frees its memory; remove them, or wait"
    )]
    Busy,
    #[error("cannot remove it: processes {0:?} are in it and cannot move out; end them")]
    Occupied(Vec<u32>),
    #[error(
        "cannot end it: it lives {0} s after SIGKILL; wait until the kernel ends it, or reboot the machine"
    )]
    Unkillable(u64),
    /// The kernel does not restore the value.
    #[error("cannot restore `{before}`: the file holds `{found}` after the write; write it by hand")]
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

/// A change, or a journal, that stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Left {
    pub what: String,
    pub why: String,
    #[serde(flatten)]
    pub cause: LeftCause,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "code", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LeftCause {
    /// Another program has changed it since.
    ChangedSince,
    UndoFailed,
    /// It is undone, but its journal can be neither written nor removed.
    NotRecorded,
    /// A live run, or another holder, has the lock of the machine.
    MachineLocked {
        /// Name of the run, if known.
        holder: Option<String>,
    },
    /// A line of the journal cannot be read.
    JournalLine {
        /// Line, from 1.
        line: usize,
    },
    /// The first line of the journal is not a header.
    JournalHeader,
    /// The journal has a format of another version.
    JournalFormat {
        format: u32,
    },
    /// Another user may have written the journal.
    JournalUntrusted,
}

impl LeftCause {
    /// The cause of changes that wait for the lock of the machine.
    pub(super) fn of_holder(holder: &Holder) -> LeftCause {
        LeftCause::MachineLocked {
            holder: Some(holder.run.clone()).filter(|run| !run.is_empty()),
        }
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[must_use]
pub struct UndoReport {
    pub undone: Vec<String>,
    /// Changes that another program has overwritten since; cleanup does not touch them.
    pub left_alone: Vec<Left>,
}
