//! Errors, and the state that they leave.

use std::path::PathBuf;

use plimsoll_os::Errno;
use thiserror::Error;

use super::units::{Block, Slot};

/// A page file that cannot be created. Nothing of it is left.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CreateError {
    /// A file, or a link, has this path.
    #[error("cannot create page file {}: the path exists; name a folder, or a path where nothing is", .0.display())]
    Exists(PathBuf),
    /// The folder is a symbolic link.
    #[error("cannot create a page file in {}: it is a symbolic link; name the folder that it points to", .0.display())]
    Link(PathBuf),
    /// The folder cannot be opened.
    #[error("cannot open folder {}: {source}; name a folder that exists and that this user can search", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The error of `open(2)`.
        source: Errno,
    },
    /// The folder takes no new file.
    #[error("cannot create a page file in {}: {source}; name a folder that this user can write to", path.display())]
    Create {
        /// The folder.
        path: PathBuf,
        /// The error of `open(2)` or `unlink(2)`.
        source: Errno,
    },
    /// The file system keeps its files in RAM.
    #[error("cannot create a page file in {}: its file system is in RAM; name a folder on a disk", .0.display())]
    InMemory(PathBuf),
    /// The size is below 1 MiB or above 4 TiB.
    #[error("cannot make a page file of {0} bytes: the size is out of range; give 1 MiB to 4 TiB")]
    Size(u64),
    /// The file system has no space for the first MiB.
    #[error("cannot allocate the page file in {}: {source}; free disk space, or raise the quota or RLIMIT_FSIZE", path.display())]
    Space {
        /// The folder.
        path: PathBuf,
        /// The error of `fallocate(2)`.
        source: Errno,
    },
    /// A first write and read failed.
    #[error("cannot write to the page file in {} and read it back: {source}; name a folder of another file system", path.display())]
    Probe {
        /// The folder.
        path: PathBuf,
        /// The error of the call; `EIO` for other bytes than those written.
        source: Errno,
    },
    /// The pager's descriptor numbers ([`use_descriptors_from`](crate::use_descriptors_from)) are all in use or above the
    /// limit.
    #[error(
        "cannot move the descriptor of the page file to the pager's numbers: {0}; raise RLIMIT_NOFILE (`ulimit -n`)"
    )]
    Descriptor(#[source] Errno),
    /// The kernel gives no random bytes.
    #[error("cannot make a key: {0}; allow getrandom(2)")]
    Key(#[source] Errno),
    /// There is no memory for the tables.
    #[error(
        "cannot map memory for the tables of the page file: {0}; raise RLIMIT_AS or reduce the size of the file"
    )]
    Memory(#[source] Errno),
}

impl CreateError {
    /// The kernel's error, or the one that is nearest to the cause.
    pub(crate) fn errno(&self) -> Errno {
        match self {
            CreateError::Exists(_) => Errno::EXIST,
            CreateError::Link(_) => Errno::NOTDIR,
            CreateError::InMemory(_) => Errno::OPNOTSUPP,
            CreateError::Size(_) => Errno::INVAL,
            CreateError::Folder { source, .. }
            | CreateError::Create { source, .. }
            | CreateError::Space { source, .. }
            | CreateError::Probe { source, .. }
            | CreateError::Descriptor(source)
            | CreateError::Key(source)
            | CreateError::Memory(source) => *source,
        }
    }
}

/// A write that was not started. The segments stay where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StartError {
    /// All buffers are in flight.
    #[error("cannot start a write to the page file: all buffers are in flight; complete a write first")]
    Busy,
    /// Too few slots are free, and the file cannot grow.
    #[error(
        "cannot write {wanted} segments to the page file: {free} slots are free; free slots, or give a larger file"
    )]
    Full {
        /// Segments of the write.
        wanted: usize,
        /// Free slots.
        free: u64,
    },
    /// An earlier write failed: the file takes no more writes.
    #[error("{0}")]
    Failed(WriteFailure),
    /// The caller is a forked child of the process that created the file.
    #[error(
        "cannot write to the page file of the parent process: its nonces would be used twice; create another page file"
    )]
    Forked,
    /// No segments, or more than [`SLOTS_PER_WRITE`](super::SLOTS_PER_WRITE).
    #[error("cannot write {0} segments to the page file at once: a write has 1 to 16; split it")]
    Count(usize),
}

/// The error of the write that made the file read-only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WriteFailure {
    /// The kernel refused to write.
    #[error(
        "cannot write {length} bytes at {position} of the page file: {errno}; the data stays in RAM, make a new page file"
    )]
    Write {
        /// First byte of the write in the file.
        position: u64,
        /// Bytes of the write.
        length: usize,
        /// The kernel's error.
        errno: Errno,
    },
    /// The kernel wrote a part, and no more when it was asked for the rest.
    #[error(
        "cannot write {length} bytes at {position} of the page file: the write ended after {written}; the data stays in RAM, make a new page file"
    )]
    Short {
        /// First byte of the write in the file.
        position: u64,
        /// Bytes of the write.
        length: usize,
        /// Bytes that were written.
        written: usize,
    },
    /// The key has encrypted as many blocks as it safely can (4 PiB).
    #[error(
        "cannot encrypt more data with the key of the page file: its limit is reached; make a new page file"
    )]
    KeyWorn,
}

/// A block that was not read. The buffer then is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names of the fields describe them")]
pub enum ReadError {
    /// The block holds no data, or its slot was freed meanwhile.
    #[error("cannot read {0:?} of the page file: it holds no data; this is a fault of the caller")]
    NotWritten(Block),
    /// The bytes on the disk are not those that were written.
    #[error(
        "cannot read {0:?} of the page file: its bytes were changed on the disk; the data is lost, check the disk"
    )]
    Damaged(Block),
    /// The kernel refused to read.
    #[error("cannot read {block:?} of the page file: {errno}; check the disk")]
    Io { block: Block, errno: Errno },
}

/// A slot that cannot be freed, because it holds no data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("cannot free {0:?} of the page file: it holds no data; this is a fault of the caller")]
pub struct NotWritten(pub Slot);

/// The ability of a page file to write. `Limited` and `Failed` last as long as the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// It grows up to its size. A deferred file is in this state from the start.
    Writable,
    /// It cannot grow any more. Slots in the space that it has are used again.
    Limited {
        /// Bytes of that space; 0 if the file could not be opened or created.
        bytes: u64,
        /// The error of the last `fallocate(2)`: `ENOSPC`, `EDQUOT`, or `EFBIG` for RLIMIT_FSIZE. If the file could not be
        /// opened or created, the error of the system call that failed.
        errno: Errno,
    },
    /// A write failed, or the test of a new file failed. The pager writes nothing more; written blocks stay readable.
    Failed(WriteFailure),
    /// This process reads the page file of an ancestor, and has none of its own: it has not needed one yet, or eight ancestors
    /// have files.
    OfParent,
}

impl State {
    /// The error for which the file cannot grow, or cannot be written.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            State::Limited { errno, .. } | State::Failed(WriteFailure::Write { errno, .. }) => Some(*errno),
            State::Failed(WriteFailure::Short { .. }) => Some(Errno::IO),
            State::Failed(WriteFailure::KeyWorn) | State::Writable | State::OfParent => None,
        }
    }
}

/// A violated invariant of a page file: a fault of this crate, or memory that was overwritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Violation {
    /// The slot is free and written, or neither, or has no disk space.
    #[error("{0:?} of the page file has none of the states")]
    State(Slot),
    /// The slot has a nonce that was not given out.
    #[error("{0:?} of the page file has a nonce of the future")]
    Nonce(Slot),
    /// The counters do not count the slots.
    #[error("the page file has {used} written and {free} free slots, and its counters say otherwise")]
    Counts {
        /// Written slots.
        used: u64,
        /// Free slots.
        free: u64,
    },
}

impl Violation {
    /// The invariant, in words without numbers.
    pub fn invariant(&self) -> &'static str {
        match self {
            Violation::State(_) => "state of a slot of the page file",
            Violation::Nonce(_) => "nonce of a slot of the page file",
            Violation::Counts { .. } => "counters of the page file",
        }
    }
}
