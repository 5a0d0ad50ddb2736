//! What may go wrong when a process's heaps are looked at.

use plimsoll_lfh::inspect::{MemoryError, SpaceError};

/// Why the heaps of a process could not be told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeapStatError {
    /// No process has this number.
    #[error(
        "cannot look at the heaps of pid {pid}: there is no such process; `plimsoll heap stat --all-heaps` finds those that there are"
    )]
    NoSuchProcess {
        /// The number.
        pid: u32,
    },
    /// The process ended while it was looked at.
    #[error("pid {pid} ended while its heaps were being read")]
    Ended {
        /// The number.
        pid: u32,
    },
    /// A privilege is missing.
    #[error(
        "cannot look at the heaps of pid {pid}: its memory may not be read; run as its user with kernel.yama.ptrace_scope = 0, or as root (CAP_SYS_PTRACE)"
    )]
    Denied {
        /// The number.
        pid: u32,
    },
    /// Another allocator serves it.
    #[error(
        "pid {pid} ({name}) does not run on this heap, or has not allocated yet; start it with `plimsoll heap run -- PROGRAM`"
    )]
    NotOnThisHeap {
        /// The number.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// It runs on the heap of another version.
    #[error(
        "pid {pid} ({name}) runs on a heap of layout version {found}, and this program reads version {}; use the plimsoll of the same release as the library that it runs on",
        plimsoll_lfh::LAYOUT
    )]
    OtherLayout {
        /// The number.
        pid: u32,
        /// Its name.
        name: String,
        /// The version that it has.
        found: u32,
    },
    /// The control block makes no sense.
    #[error(
        "the control block of the heaps of pid {pid} ({name}) is damaged: {source}; something in the program wrote over it"
    )]
    Damaged {
        /// The number.
        pid: u32,
        /// Its name.
        name: String,
        /// What is wrong.
        source: SpaceError,
    },
    /// Memory that the control block names cannot be read.
    #[error("cannot read the heaps of pid {pid}: {source}")]
    Unreadable {
        /// The number.
        pid: u32,
        /// What the kernel said.
        source: MemoryError,
    },
    /// `/proc` cannot be read.
    #[error("cannot read {path}: {source}")]
    Proc {
        /// The file or folder.
        path: String,
        /// What the kernel said.
        source: std::io::Error,
    },
}
