//! Errors of a worker's memory.

use std::path::PathBuf;

use plimsoll_os::Errno;
use plimsoll_pager::{MapError, RangeError};

use super::area::PagerError;
use super::crew::CrewError;
use super::fill::StreamError;
use super::protocol::RefusalCode;

/// Most mappings of one fill: below the kernel's usual `vm.max_map_count` of 65530.
pub(super) const MOST_REQUESTS: u64 = 60_000;

/// Why a worker's memory could not be filled, trimmed or released.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum MemoryError {
    #[error("cannot fill 0 bytes, or in requests of 0 bytes; ask for at least one page")]
    Nothing,
    #[error(
        "cannot fill {asked} bytes: this machine has {ram} bytes of RAM and {swap} bytes of swap; ask for less or add swap"
    )]
    TooMuch { asked: u64, ram: u64, swap: u64 },
    #[error(
        "cannot fill {bytes} bytes in requests of {request}: more than {MOST_REQUESTS} mappings; use larger requests"
    )]
    TooManyRequests { bytes: u64, request: u64 },
    #[error(
        "cannot map request {number} of {length} bytes: {errno}; ask for less memory or raise the limit (ulimit -v, vm.overcommit_memory)"
    )]
    Map {
        number: usize,
        length: u64,
        errno: Errno,
    },
    #[error("cannot make a file in {}: {errno}; name a folder on a disk with room with `--set swap-dir=...`", folder.display())]
    File { folder: PathBuf, errno: Errno },
    #[error("cannot write dirty pages to their file: {0}; is the disk of `swap-dir` full or faulty?")]
    WriteBack(Errno),
    #[error("cannot ask which pages are in RAM: {0}")]
    InCore(Errno),
    #[error("cannot call {call}: {errno}; {advice}")]
    Advise {
        call: &'static str,
        errno: Errno,
        advice: &'static str,
    },
    #[error("cannot unmap {length} bytes: {errno}")]
    Unmap { length: usize, errno: Errno },
    #[error(transparent)]
    Pager(#[from] PagerError),
    #[error(transparent)]
    Region(#[from] MapError),
    #[error(transparent)]
    Part(#[from] RangeError),
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error(transparent)]
    Crew(#[from] CrewError),
}

impl MemoryError {
    pub(crate) fn code(&self) -> RefusalCode {
        match self {
            MemoryError::Nothing => RefusalCode::ZeroBytes,
            MemoryError::TooMuch { .. } => RefusalCode::TooMuch,
            MemoryError::TooManyRequests { .. } => RefusalCode::TooManyRequests,
            MemoryError::Map { .. } => RefusalCode::Map,
            MemoryError::File { .. } | MemoryError::WriteBack(_) | MemoryError::InCore(_) => {
                RefusalCode::File
            }
            MemoryError::Advise { .. } => RefusalCode::Advise,
            MemoryError::Unmap { .. } => RefusalCode::Unmap,
            MemoryError::Pager(_) | MemoryError::Region(_) | MemoryError::Part(_) => RefusalCode::Pager,
            MemoryError::Stream(_) => RefusalCode::Data,
            MemoryError::Crew(_) => RefusalCode::Threads,
        }
    }
}
