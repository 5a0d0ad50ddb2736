//! Ranges of this process's address space by address: reserved, made usable, returned. For a heap, which owns its
//! ranges by other means than Rust's. No call touches `errno`.
#![allow(unsafe_code)]

use crate::raw::system_call;
use crate::{Advice, Errno, limits};

/// Reserves `length` bytes somewhere: nothing can be read or written there yet, and nothing is committed.
///
/// # Errors
/// [`Errno::NOMEM`] where the address space or RLIMIT_AS has no room.
pub fn reserve(length: usize) -> Result<usize, Errno> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: without MAP_FIXED the kernel picks an unused range, so no memory in use is touched.
    unsafe { mmap(0, length, libc::PROT_NONE, flags) }
}

/// RLIMIT_AS of the process, in bytes; none if it is unlimited.
pub fn limit() -> Option<u64> {
    limits::current(libc::RLIMIT_AS as usize)
}

/// The rights of a program to a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Neither read nor write: an access raises SIGSEGV.
    None,
    /// Read alone. The kernel charges the range to no limit on written memory (overcommit policy, RLIMIT_DATA).
    Read,
    /// Read and write.
    Write,
}

impl Access {
    const fn protection(self) -> i32 {
        match self {
            Access::None => libc::PROT_NONE,
            Access::Read => libc::PROT_READ,
            Access::Write => libc::PROT_READ | libc::PROT_WRITE,
        }
    }
}

/// Maps `length` bytes that are zero at exactly `start` if nothing is mapped there.
///
/// # Errors
/// [`Errno::EXIST`] where something is; [`Errno::NOMEM`] where there is no room.
pub fn map_unused(start: usize, length: usize, access: Access) -> Result<(), Errno> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: MAP_FIXED_NOREPLACE never maps over an existing mapping.
    let at = unsafe { mmap(start, length, access.protection(), flags) }?;
    if at == start {
        return Ok(());
    }
    // A kernel before 4.17 takes the address for a hint.
    // SAFETY: the range was mapped a moment ago by this call, and no other thread knows it.
    let _ = unsafe { unmap(at, length) };
    Err(Errno::EXIST)
}

/// Maps `length` bytes anywhere, readable, writable and zero. Pages count as committed when they are touched.
///
/// # Errors
/// [`Errno::NOMEM`] where the address space, RLIMIT_AS or the overcommit policy has no room.
pub fn map(length: usize) -> Result<usize, Errno> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: without MAP_FIXED the kernel picks an unused range, so no memory in use is touched.
    unsafe { mmap(0, length, libc::PROT_READ | libc::PROT_WRITE, flags) }
}

/// # Safety
/// With MAP_FIXED among the flags, the range is the caller's.
unsafe fn mmap(start: usize, length: usize, protection: i32, flags: i32) -> Result<usize, Errno> {
    let arguments = [start, length, protection as usize, flags as usize, usize::MAX, 0];
    // SAFETY: the caller's premise.
    unsafe { system_call(libc::SYS_mmap, arguments) }
}

/// Sets the rights of the program to a range. Former contents stay; new pages are zero.
///
/// # Errors
/// [`Errno::NOMEM`] if the overcommit policy or `vm.max_map_count` has no room.
///
/// # Safety
/// The range is whole pages, mapped, and the caller's; no thread uses it in a way that `access` forbids.
pub unsafe fn set_access(start: usize, length: usize, access: Access) -> Result<(), Errno> {
    let protection = access.protection();
    // SAFETY: the caller's premise.
    unsafe { system_call(libc::SYS_mprotect, [start, length, protection as usize, 0, 0, 0]) }.map(drop)
}

/// Returns the pages of a range to the kernel at once; they read as zero afterwards (`MADV_DONTNEED`).
///
/// # Errors
/// [`Errno::INVAL`] if pages are locked (`mlock(2)`): they stay as they are.
///
/// # Safety
/// The range is whole pages, mapped, and the caller's; no code relies on its contents.
pub unsafe fn discard(start: usize, length: usize) -> Result<(), Errno> {
    // SAFETY: the caller's premise.
    unsafe { madvise(start, length, libc::MADV_DONTNEED) }
}

/// Ends locks that keep pages of a range in RAM (`munlock(2)`).
///
/// # Errors
/// [`Errno::NOMEM`] if a part is not mapped, or the process has too many mappings.
pub fn unlock(start: usize, length: usize) -> Result<(), Errno> {
    // SAFETY: the kernel checks the range, whose contents and protection stay.
    unsafe { system_call(libc::SYS_munlock, [start, length, 0, 0, 0, 0]) }.map(drop)
}

/// Applies `advice` to a range, which leaves its contents as they are.
///
/// # Errors
/// [`Errno::INVAL`] if the kernel does not know the advice, [`Errno::NOMEM`] if a part is not mapped.
pub fn advise(start: usize, length: usize, advice: Advice) -> Result<(), Errno> {
    // SAFETY: the kernel checks the range, and no `Advice` changes contents or protection.
    unsafe { madvise(start, length, advice.raw()) }
}

/// # Safety
/// As the advice asks.
unsafe fn madvise(start: usize, length: usize, advice: i32) -> Result<(), Errno> {
    // SAFETY: the caller's premise.
    unsafe { system_call(libc::SYS_madvise, [start, length, advice as usize, 0, 0, 0]) }.map(drop)
}

/// Moves the pages of `from..from + length` to `to`, and replaces mappings there. The old range stays mapped, and reads
/// as zero (`mremap(2)` with `MREMAP_DONTUNMAP`, Linux 5.7).
///
/// # Errors
/// [`Errno::INVAL`] if the kernel cannot; then nothing was moved.
///
/// # Safety
/// Both ranges are whole pages, private and anonymous, and the caller's; they do not overlap; no code relies on the
/// contents of `to`.
pub unsafe fn move_pages(from: usize, to: usize, length: usize) -> Result<(), Errno> {
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
    // SAFETY: the caller's premise.
    unsafe { system_call(libc::SYS_mremap, [from, length, length, flags as usize, to, 0]) }.map(drop)
}

/// Unmaps a range.
///
/// # Errors
/// [`Errno::NOMEM`] if `vm.max_map_count` has no room for the split.
///
/// # Safety
/// The range is whole pages and the caller's; no thread uses it.
pub unsafe fn unmap(start: usize, length: usize) -> Result<(), Errno> {
    // SAFETY: the caller's premise.
    unsafe { system_call(libc::SYS_munmap, [start, length, 0, 0, 0, 0]) }.map(drop)
}
