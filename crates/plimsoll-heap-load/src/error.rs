//! Errors that end a load without metrics.

use std::{fmt, io};

/// An error that ended a load without metrics.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    Parameter(String),
    /// The allocator under test returned no memory.
    OutOfMemory {
        /// The size requested, in bytes.
        size: u32,
    },
    /// A byte of a block has not its written value: the allocator, or the machine, is broken.
    WrongByte {
        address: usize,
        size: u32,
        /// The byte's place in it.
        offset: u32,
        written: u8,
        found: u8,
    },
    /// A thread of the load could not be started.
    Thread {
        wanted: usize,
        reason: io::Error,
    },
    /// The system had no memory for the generator's own tables.
    Mapping {
        bytes: usize,
        reason: io::Error,
    },
    /// The kernel's account of this process's memory could not be read.
    Resident(io::Error),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Parameter(message) => f.write_str(message),
            LoadError::OutOfMemory { size } => write!(
                f,
                "cannot allocate a block of {size} bytes: malloc returned null; use fewer blocks or threads"
            ),
            LoadError::WrongByte {
                address,
                size,
                offset,
                written,
                found,
            } => write!(
                f,
                "byte {offset} of the block of {size} bytes at {address:#x} is {found:#04x}, but {written:#04x} was \
                 written there: the allocator returned this memory twice or wrote into it; do not use it"
            ),
            LoadError::Thread { wanted, reason } => write!(
                f,
                "cannot start {wanted} threads: {reason}; use fewer, or raise the limit (ulimit -u)"
            ),
            LoadError::Mapping { bytes, reason } => write!(
                f,
                "cannot map {bytes} bytes for the generator's own tables: {reason}; use fewer blocks or threads"
            ),
            LoadError::Resident(reason) => {
                write!(
                    f,
                    "cannot read the resident memory of this process: {reason}; mount /proc"
                )
            }
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LoadError::Thread { reason, .. }
            | LoadError::Mapping { reason, .. }
            | LoadError::Resident(reason) => Some(reason),
            _ => None,
        }
    }
}
