//! The budget that all processes of the program share: a pool in memory, whose descriptor each of them inherits.
//!
//! The descriptor has one number in all processes, so that `PLIMSOLL_EXEC` names it, and it stays open when a program is executed.
//! The C library closes it in a child of `posix_spawn` with `closefrom`, and a program may by a system call of its own: then the
//! parent's is opened again.
#![allow(unsafe_code, reason = "descriptors by their numbers")]

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::atomic::{AtomicU32, Ordering};

use plimsoll_pager::pool::{Limits, Member, Pool, PoolError};

use crate::arena;
use crate::configuration::Inherited;
use crate::trampoline::{self, check};

/// The smallest budget of a process: that of one outside of the pool.
pub(crate) const LEAST: u64 = 4 << 20;
/// Bytes that each member gets at least are this part of the pool, within these bounds: many processes fit a small pool.
const PART: u64 = 64;
const SMALLEST_MINIMUM: u64 = plimsoll_pager::LEAST_GRANT;
/// Parts of a member's minimum that it never loses: more would be lost for the others.
const LARGEST_MINIMUM: u64 = LEAST;

/// Joins the pool. The error says why this process has a budget of its own instead.
pub(crate) fn join(inherited: Inherited) -> Result<Member, Outside> {
    let pool = open(inherited).ok_or(Outside::Closed)?;
    let pool = Pool::of_descriptor(pool).map_err(|_| Outside::Refused)?;
    let limits = Limits {
        minimum: minimum(pool.total()),
        ..Limits::default()
    };
    pool.join(limits).map_err(|error| match error {
        PoolError::Full | PoolError::MinimumTooLarge { .. } => Outside::Full,
        _ => Outside::Refused,
    })
}

/// The reason for which a process is no member of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outside {
    /// The program has closed the descriptor.
    Closed,
    /// It is that of another user, or of another namespace of processes, or `/proc` is not mounted.
    Refused,
    /// It has as many members as it can have, or can promise no further minimum.
    Full,
}

fn minimum(total: u64) -> u64 {
    (total / PART).clamp(SMALLEST_MINIMUM, LARGEST_MINIMUM).min(total)
}

/// The process of the membership; 0 without one.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Notes that this process has a pager of its own: at the start, and in a child of a fork.
pub(crate) fn note_process() {
    PROCESS.store(plimsoll_os::this_process(), Ordering::Relaxed);
}

/// States whether this process is about to execute another program. A child of `vfork` has the memory of its parent, whose share
/// it must leave alone, and whose threads may have the locks of it.
pub(crate) fn note_execution(is_executing: bool) {
    if PROCESS.load(Ordering::Relaxed) == plimsoll_os::this_process()
        && let Some(arena) = arena::arena()
    {
        arena.pager.set_executing(is_executing);
    }
}

/// A descriptor of an inherited file, for this process alone. Afterwards the inherited one is open, unless a file of the program has
/// its number.
pub(crate) fn open(inherited: Inherited) -> Option<OwnedFd> {
    let present = duplicate(inherited.descriptor, libc::F_DUPFD_CLOEXEC, 0);
    if let Some(file) = present.filter(|file| is_that(file, inherited)) {
        return Some(file);
    }
    // SAFETY: the call has no premises.
    let parent = unsafe { libc::getppid() };
    let path = format!("/proc/{parent}/fd/{}", inherited.descriptor);
    // It is opened when it is known to be a file: a device may act when it is opened.
    let place = File::options().read(true).custom_flags(libc::O_PATH).open(path);
    let place = OwnedFd::from(place.ok()?);
    if !is_that(&place, inherited) {
        return None;
    }
    let path = format!("/proc/self/fd/{}", place.as_raw_fd());
    // O_APPEND keeps processes from overwriting each other's counters. A pool is only mapped, so it has no effect there.
    let file = File::options().read(true).append(true).open(path);
    let file = OwnedFd::from(file.ok()?);
    let copy = duplicate(file.as_raw_fd(), libc::F_DUPFD, inherited.descriptor);
    if let Some(copy) = copy.filter(|copy| copy.as_raw_fd() == inherited.descriptor) {
        // It stays open.
        let _ = copy.into_raw_fd();
    }
    Some(file)
}

/// Whether the descriptor still refers to the inherited file. If so, the library keeps the program from closing it.
pub(crate) fn is_open(inherited: Inherited) -> bool {
    duplicate(inherited.descriptor, libc::F_DUPFD_CLOEXEC, 0).is_some_and(|file| is_that(&file, inherited))
}

/// Whether a descriptor is that of the inherited file.
fn is_that(file: &OwnedFd, inherited: Inherited) -> bool {
    let file = file.try_clone().map(File::from);
    file.and_then(|file| file.metadata())
        .is_ok_and(|data| data.is_file() && data.ino() == inherited.file)
}

/// Another descriptor of a file: the first number from `least` on.
fn duplicate(file: i32, command: i32, least: i32) -> Option<OwnedFd> {
    // SAFETY: the call takes no memory.
    let made = check(unsafe {
        trampoline::call(
            libc::SYS_fcntl,
            [file as usize, command as usize, least as usize, 0, 0, 0],
        )
    });
    // SAFETY: the descriptor is new.
    made.ok().map(|made| unsafe { OwnedFd::from_raw_fd(made as i32) })
}
