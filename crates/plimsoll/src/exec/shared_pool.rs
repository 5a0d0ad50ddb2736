//! The budget that the processes of a program share: a pool in memory, which they inherit as an open descriptor.
//!
//! Programs take low numbers by themselves, so the descriptor is high; it is not closed on exec. The library keeps it open in
//! each process. The pool ends with the last process that has it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use plimsoll_pager::pool::Pool;
use rustix::fs::fstat;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Resource, getrlimit};

/// The library looks for its descriptors below this number.
const MOST: u64 = 1024;
/// Numbers that are left for descriptors of the library.
const ROOM: u64 = 128;

/// A pool whose descriptor the program inherits.
#[derive(Debug)]
pub struct SharedPool {
    descriptor: OwnedFd,
    file: u64,
}

impl SharedPool {
    /// Makes a pool of `bytes`.
    ///
    /// # Errors
    /// No descriptor or memory is left, or `/proc` is that of another namespace of processes.
    pub fn make(bytes: u64) -> io::Result<SharedPool> {
        let pool = Pool::in_memory(bytes).map_err(io::Error::other)?;
        let descriptor = fcntl_dupfd_cloexec(pool.descriptor(), first_number())?;
        fcntl_setfd(&descriptor, FdFlags::empty())?;
        let file = fstat(&descriptor)?.st_ino;
        Ok(SharedPool { descriptor, file })
    }

    /// The number of the descriptor.
    pub fn number(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }

    /// The number of the file in memory: a process that finds another file under the descriptor does not use it.
    pub fn file(&self) -> u64 {
        self.file
    }
}

/// The first number that the library takes for its own, too.
fn first_number() -> i32 {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(MOST).min(MOST);
    i32::try_from(limit.saturating_sub(ROOM).max(limit / 2)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_inherits_the_descriptor() {
        let pool = SharedPool::make(64 << 20).expect("memory files are allowed");
        let flags = rustix::io::fcntl_getfd(&pool.descriptor).expect("it is open");
        assert!(!flags.contains(FdFlags::CLOEXEC));
        assert!(pool.number() >= first_number());
        let again = pool.descriptor.try_clone().expect("a descriptor is free");
        let opened = Pool::of_descriptor(again).expect("it is a pool");
        assert_eq!(opened.total(), 64 << 20);
    }
}
