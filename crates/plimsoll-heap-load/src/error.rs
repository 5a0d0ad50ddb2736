//! Why a load ended without figures.

use std::{fmt, io};

/// Why a load ended without figures.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// A parameter makes no sense.
    Parameter(String),
    /// The allocator under test returned no memory.
    OutOfMemory {
        /// The size that was asked for, in bytes.
        size: u32,
    },
    /// A byte of a block was not what had been written there: the allocator, or the machine, is broken.
    WrongByte {
        /// Where the block is.
        address: usize,
        /// Its size in bytes.
        size: u32,
        /// The byte's place in it.
        offset: u32,
        /// What had been written.
        written: u8,
        /// What is there.
        found: u8,
    },
    /// A thread of the load could not be started.
    Thread {
        /// How many the load wants.
        wanted: usize,
        /// The system's reason.
        reason: io::Error,
    },
    /// The system gave no memory for the generator's own tables.
    Mapping {
        /// How much was asked for.
        bytes: usize,
        /// The system's reason.
        reason: io::Error,
    },
    /// The kernel's account of this process's memory could not be read.
    Resident(io::Error),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Parameter(what) => f.write_str(what),
            LoadError::OutOfMemory { size } => write!(
                f,
                "the allocator returned no memory for a block of {size} bytes; ask for fewer blocks or threads"
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
                 written there: the allocator handed its memory out twice or wrote into it; do not use it"
            ),
            LoadError::Thread { wanted, reason } => write!(
                f,
                "cannot start a thread, of {wanted} in all: {reason}; ask for fewer, or raise the limit (ulimit -u)"
            ),
            LoadError::Mapping { bytes, reason } => write!(
                f,
                "cannot map {bytes} bytes for the generator's own tables: {reason}; ask for fewer blocks or threads"
            ),
            LoadError::Resident(reason) => {
                write!(
                    f,
                    "cannot read how much memory this process takes: {reason}; is /proc mounted?"
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
