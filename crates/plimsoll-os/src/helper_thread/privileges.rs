//! The privileges of the helper, which `clone(2)` copied from the thread that started it, and those of the program.
//!
//! A program that drops its user, its groups or its capabilities does so for the threads that it knows: the C library's
//! `setuid` and `capset` do not reach the helper. The memory of the program is the helper's, so whoever controls the one
//! controls the other: the helper ends instead of holding more.
//!
//! It drops nothing itself. A change of its user would make the whole process undumpable, as that is a property of the
//! memory. A filter of system calls of its own would make a later filter for all threads fail. `capset` ends a service
//! to which systemd refuses privileged calls. Calls that only read do none of this.
#![allow(unsafe_code)]

use crate::raw::system_call;
use crate::{Errno, this_process};

/// The privileges of the calling thread, beside those of the process's first thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privileges {
    /// The same, as far as the kernel tells: capabilities, user and group. It does not tell supplementary groups.
    Same,
    /// At least one capability, user or group differs.
    Other,
    /// The kernel does not tell: a filter of system calls, or no capabilities in the kernel.
    Unknown,
}

/// The three capability sets of a thread, in two halves.
type Capabilities = [[u32; 3]; 2];

/// Compares the privileges of the calling thread with those of the process's first thread, which `setuid` and its like
/// change in any case.
pub fn compare_privileges() -> Privileges {
    let program = this_process();
    let (Ok(own), Ok(others)) = (capabilities(0), capabilities(program)) else {
        return Privileges::Unknown;
    };
    if own != others {
        return Privileges::Other;
    }
    match may_read_limits(program) {
        Ok(()) => Privileges::Same,
        Err(Errno::PERM) => Privileges::Other,
        Err(_) => Privileges::Unknown,
    }
}

/// The capabilities of a thread; of the calling one for 0.
fn capabilities(thread: u32) -> Result<Capabilities, Errno> {
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, thread];
    let mut sets: Capabilities = [[0; 3]; 2];
    let arguments = [(&raw const header) as usize, (&raw mut sets) as usize, 0, 0, 0, 0];
    // SAFETY: the kernel reads the header, whose version it knows, and writes the sets of that version.
    unsafe { system_call(libc::SYS_capget, arguments) }?;
    Ok(sets)
}

/// Whether the calling thread may read the limits of another one: the kernel allows it if its real user and group are
/// all three of the other's, or with the capability `CAP_SYS_RESOURCE`. A program that drops its user keeps no
/// capability that the helper has, unless it keeps all.
fn may_read_limits(thread: u32) -> Result<(), Errno> {
    let mut limit = [0_u64; 2];
    let arguments = [
        thread as usize,
        libc::RLIMIT_NOFILE as usize,
        0,
        (&raw mut limit) as usize,
        0,
        0,
    ];
    // SAFETY: the kernel writes two numbers.
    unsafe { system_call(libc::SYS_prlimit64, arguments) }.map(drop)
}
