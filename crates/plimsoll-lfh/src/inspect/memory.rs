//! Memory of a heap: this process's own, or another's.
#![allow(unsafe_code)]

use core::ptr;

use plimsoll_os::{Errno, read_other, this_process};
pub use plimsoll_os::{Memory, MemoryError, OtherProcess};

use crate::{arena, record};

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
