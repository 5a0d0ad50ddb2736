//! Memory of another process, read without stopping it.
#![allow(unsafe_code)]

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
