//! Locking of single ranges of a process's memory in RAM.
#![allow(unsafe_code)]

use crate::Errno;

/// Keeps in RAM, from its first use on, each page of the `length` bytes at `address` (`mlock2(2)`, `MLOCK_ONFAULT`).
/// The range is widened to whole pages. It stays locked until it is unmapped or the process ends.
///
/// # Errors
/// [`Errno::NOMEM`] when part of the range is not mapped, or above RLIMIT_MEMLOCK without CAP_IPC_LOCK, which counts
/// the range and not the pages used; [`Errno::PERM`] with RLIMIT_MEMLOCK 0.
pub fn lock_range_on_fault(address: usize, length: usize) -> Result<(), Errno> {
    // SAFETY: mlock2 changes residency alone, never contents or mappings, and checks the range itself.
    Errno::check(unsafe { libc::mlock2(address as *const libc::c_void, length, MLOCK_ONFAULT) }).map(drop)
}

/// From <linux/mman.h>, which the libc crate lacks for some C libraries.
const MLOCK_ONFAULT: libc::c_uint = 1;
