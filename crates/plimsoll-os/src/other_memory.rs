//! Memory of another process, read without stopping it.
#![allow(unsafe_code)]

use core::fmt;

use crate::Errno;
use crate::raw::system_call;

/// Copies bytes at `address` of process `pid` into `into`, while the process runs (`process_vm_readv(2)`, Linux 3.2).
/// Returns the number of copied bytes: fewer than requested if the next ones cannot be read. Leaves `errno` alone.
///
/// # Errors
/// [`Errno::SRCH`] if there is no such process, [`Errno::PERM`] if this one may not read it (another user's; `kernel.yama.ptrace_scope`), [`Errno::FAULT`] if nothing readable is at the address.
pub fn read_other(pid: u32, address: usize, into: &mut [u8]) -> Result<usize, Errno> {
    let local = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    let remote = libc::iovec {
        iov_base: core::ptr::without_provenance_mut(address),
        iov_len: into.len(),
    };
    let arguments = [
        pid as usize,
        (&raw const local).expose_provenance(),
        1,
        (&raw const remote).expose_provenance(),
        1,
        0,
    ];
    // SAFETY: the kernel reads the two iovecs, alive for the call, and writes into `into` alone, at most its length.
    unsafe { system_call(libc::SYS_process_vm_readv, arguments) }
}

/// A source of bytes of a program that runs, read by address.
///
/// They may change meanwhile, as the program is not stopped. So the reader checks every value before it relies on it.
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
    /// A read did not end in time: the process, or a file system of it, does not resolve the fault.
    NoAnswer {
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
            MemoryError::NoAnswer { address } => write!(
                f,
                "the read at {address:#x} does not return: a userfaultfd or a FUSE file system of the process leaves its fault \
                 unresolved"
            ),
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
