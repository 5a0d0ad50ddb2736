//! Errors of `heap stat`.

use plimsoll_lfh::inspect::{MemoryError, SpaceError};

/// The heaps of a process cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeapStatError {
    #[error(
        "cannot read the heaps of pid {pid}: no such process; list all with `plimsoll heap stat --all-heaps`"
    )]
    NoSuchProcess { pid: u32 },
    #[error("cannot read the heaps of pid {pid}: the process ended; start it again")]
    Ended { pid: u32 },
    #[error(
        "cannot read the heaps of pid {pid}: permission denied; run as its user with kernel.yama.ptrace_scope = 0, or as root (CAP_SYS_PTRACE)"
    )]
    Denied { pid: u32 },
    /// Another allocator serves the process, or it has not allocated yet.
    #[error(
        "cannot read the heaps of pid {pid} ({name}): it does not run on this heap, or has not allocated yet; start it with `plimsoll heap run -- PROGRAM`"
    )]
    NotOnThisHeap { pid: u32, name: String },
    /// The library of the process has another layout version than this program.
    #[error(
        "cannot read the heaps of pid {pid} ({name}): they have layout version {found}, not {}; use the plimsoll of the release of its library",
        plimsoll_lfh::LAYOUT
    )]
    OtherLayout { pid: u32, name: String, found: u32 },
    #[error(
        "cannot read the heaps of pid {pid} ({name}): their control block is damaged: {source}; the program overwrote it"
    )]
    Damaged {
        pid: u32,
        name: String,
        source: SpaceError,
    },
    /// Memory that the control block refers to is unreadable.
    #[error("cannot read the heaps of pid {pid}: {source}")]
    Unreadable { pid: u32, source: MemoryError },
    #[error("cannot read {path}: {source}")]
    Proc {
        /// A file or folder in `/proc`.
        path: String,
        source: std::io::Error,
    },
}
