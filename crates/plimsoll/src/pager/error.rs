//! Errors of `pager stat`.

use plimsoll_os::MemoryError;

/// The pagers of a process cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PagerStatError {
    #[error("cannot read the pagers of pid {pid}: no such process; list all with `plimsoll ps`")]
    NoSuchProcess { pid: u32 },
    #[error("cannot read the pagers of pid {pid}: the process ended; start it again")]
    Ended { pid: u32 },
    #[error(
        "cannot read the pagers of pid {pid}: permission denied; run as its user with kernel.yama.ptrace_scope = 0, or as root (CAP_SYS_PTRACE)"
    )]
    Denied { pid: u32 },
    /// The process built no pager, or has dropped it.
    #[error(
        "cannot read the pagers of pid {pid} ({name}): it has none; name a process that uses the library plimsoll-pager"
    )]
    NoPager { pid: u32, name: String },
    /// The library in the process has another version than this program.
    #[error(
        "cannot read the pagers of pid {pid} ({name}): their record has layout {found} or other sizes than layout {} of this program; use the plimsoll of the release of its library",
        plimsoll_pager::published::LAYOUT
    )]
    OtherLayout { pid: u32, name: String, found: u32 },
    #[error(
        "cannot read the pagers of pid {pid} ({name}): the record at {record:#x} is damaged: {source}; the program overwrote it"
    )]
    Damaged {
        pid: u32,
        name: String,
        record: usize,
        source: plimsoll_pager::published::OpenError,
    },
    /// Memory that a record refers to is unreadable.
    #[error("cannot read the pagers of pid {pid}: {source}")]
    Unreadable { pid: u32, source: MemoryError },
    #[error("cannot read {path}: {source}")]
    Proc {
        /// A file or folder in `/proc`.
        path: String,
        source: std::io::Error,
    },
}
