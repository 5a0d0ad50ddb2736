//! Locking of a process's memory in RAM.
#![allow(unsafe_code)]

use crate::Errno;

/// Which pages [`lock_all`] locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockScope {
    /// What is mapped now; each page is made resident by the call.
    Current,
    /// What is mapped now and what will be mapped.
    CurrentAndFuture,
    /// What is mapped now and what will be mapped, each page from its first use on (`MCL_ONFAULT`): untouched
    /// memory costs nothing.
    OnFault,
}

/// Keeps the process's pages in RAM (`mlockall(2)`).
///
/// # Errors
/// [`Errno::PERM`] without CAP_IPC_LOCK and with RLIMIT_MEMLOCK 0; [`Errno::NOMEM`] above RLIMIT_MEMLOCK.
pub fn lock_all(scope: LockScope) -> Result<(), Errno> {
    let flags = match scope {
        LockScope::Current => libc::MCL_CURRENT,
        LockScope::CurrentAndFuture => libc::MCL_CURRENT | libc::MCL_FUTURE,
        LockScope::OnFault => libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT,
    };
    // SAFETY: mlockall changes residency alone, never contents or mappings.
    Errno::check(unsafe { libc::mlockall(flags) }).map(drop)
}

/// Undoes [`lock_all`] (`munlockall(2)`).
///
/// # Errors
/// [`Errno::NOMEM`] where the kernel lacks memory to split a mapping.
pub fn unlock_all() -> Result<(), Errno> {
    // SAFETY: munlockall changes residency alone.
    Errno::check(unsafe { libc::munlockall() }).map(drop)
}
