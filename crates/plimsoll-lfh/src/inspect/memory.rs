//! Memory of a heap: this process's own, or another's.
#![allow(unsafe_code)]

use core::fmt;
use core::ptr;

use plimsoll_os::{Errno, read_other, this_process};

use crate::{arena, record};

/// A source of a heap's bytes.
///
/// They may change meanwhile: the program that uses the heap is not stopped. So the reader checks every value before it
/// relies on it.
pub trait Memory {
    /// Copies the bytes at `address` into all of `into`.
    ///
    /// # Errors
    /// [`MemoryError`] if a part of them cannot be read; the contents of `into` mean nothing then.
    fn read(&self, address: usize, into: &mut [u8]) -> Result<(), MemoryError>;

    /// Drops copies of bytes, if the source keeps any: later reads return the bytes as they are then. A walk calls it
    /// before it looks at something again.
    fn refresh(&self) {}
}

/// Why bytes could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryError {
    /// There is no such process, or it has ended.
    NoProcess,
    /// This process may not look into the other one.
    Denied,
    /// Nothing that can be read is at the address.
    Unreadable {
        /// The requested address.
        address: usize,
    },
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryError::NoProcess => f.write_str("there is no such process (any more)"),
            MemoryError::Denied => f.write_str(
                "the memory of the process may not be read: it takes the same user, and kernel.yama.ptrace_scope = 0, \
                 or CAP_SYS_PTRACE",
            ),
            MemoryError::Unreadable { address } => write!(f, "nothing that can be read is at {address:#x}"),
        }
    }
}

impl core::error::Error for MemoryError {}

/// The memory of another process, read while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherProcess {
    pid: u32,
}

impl OtherProcess {
    /// The memory of the process of that number.
    pub const fn new(pid: u32) -> OtherProcess {
        OtherProcess { pid }
    }
}

impl Memory for OtherProcess {
    fn read(&self, address: usize, into: &mut [u8]) -> Result<(), MemoryError> {
        let mut done = 0;
        while done < into.len() {
            let Some(at) = address.checked_add(done) else {
                return Err(MemoryError::Unreadable { address });
            };
            match read_other(self.pid, at, &mut into[done..]) {
                Ok(0) => return Err(MemoryError::Unreadable { address: at }),
                Ok(more) => done += more,
                Err(Errno::SRCH) => return Err(MemoryError::NoProcess),
                Err(Errno::PERM) => return Err(MemoryError::Denied),
                Err(Errno::INTR) => {}
                Err(_) => return Err(MemoryError::Unreadable { address: at }),
            }
        }
        Ok(())
    }
}

/// The memory of this process that its heaps consist of; the rest reads as an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThisProcess;

impl ThisProcess {
    /// Reads memory that a hardened heap may make inaccessible meanwhile, through the kernel. None if the kernel does
    /// not read for this process.
    fn read_guarded(address: usize, into: &mut [u8]) -> Option<Result<(), MemoryError>> {
        match read_other(this_process(), address, into) {
            Ok(read) if read == into.len() => Some(Ok(())),
            Ok(_) | Err(Errno::FAULT) => Some(Err(MemoryError::Unreadable { address })),
            Err(_) => None,
        }
    }
}

impl Memory for ThisProcess {
    fn read(&self, address: usize, into: &mut [u8]) -> Result<(), MemoryError> {
        if arena::may_be_inaccessible(address)
            && let Some(read) = ThisProcess::read_guarded(address, into)
        {
            return read;
        }
        // SAFETY: it is called only where they can.
        match record::while_readable(address, into.len(), || unsafe { copy(address, into) }) {
            true => Ok(()),
            false => Err(MemoryError::Unreadable { address }),
        }
    }
}

/// Copies the bytes at `address`.
///
/// # Safety
/// They can be read.
unsafe fn copy(address: usize, into: &mut [u8]) {
    // Words where it may be, so that a field is never seen half written.
    let mut at = address;
    for piece in into.chunks_mut(8) {
        if piece.len() == 8 && at.is_multiple_of(8) {
            // SAFETY: the caller's premise; volatile, as others may write it meanwhile.
            let word = unsafe { ptr::with_exposed_provenance::<u64>(at).read_volatile() };
            piece.copy_from_slice(&word.to_ne_bytes());
        } else {
            for (offset, byte) in piece.iter_mut().enumerate() {
                // SAFETY: as above.
                *byte = unsafe { ptr::with_exposed_provenance::<u8>(at + offset).read_volatile() };
            }
        }
        at += piece.len();
    }
}
