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
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

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
        let descriptor = with_raised_limit(|first| fcntl_dupfd_cloexec(pool.descriptor(), first))?;
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

/// Calls `open` with the first number that the library takes for its own, too: also above the soft limit on descriptors, which is
/// raised meanwhile.
fn with_raised_limit<T>(open: impl FnOnce(i32) -> T) -> T {
    let limit = getrlimit(Resource::Nofile);
    let hard = limit.maximum.unwrap_or(u64::MAX);
    let most = limit
        .current
        .unwrap_or(hard)
        .max(MOST)
        .saturating_add(ROOM)
        .min(hard);
    let raised = Rlimit {
        current: Some(most),
        ..limit
    };
    let is_raised = setrlimit(Resource::Nofile, raised).is_ok();
    let numbers = if is_raised {
        most
    } else {
        limit.current.unwrap_or(MOST)
    }
    .min(MOST);
    let first = numbers.saturating_sub(ROOM).max(numbers / 2);
    let opened = open(i32::try_from(first).unwrap_or(0));
    // The former limit is allowed.
    let _ = setrlimit(Resource::Nofile, limit);
    opened
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_inherits_the_descriptor() {
        let pool = SharedPool::make(64 << 20).expect("memory files are allowed");
        let flags = rustix::io::fcntl_getfd(&pool.descriptor).expect("it is open");
        assert!(!flags.contains(FdFlags::CLOEXEC));
        let limit = getrlimit(Resource::Nofile);
        assert!(pool.number() >= with_raised_limit(|first| first));
        assert_eq!(getrlimit(Resource::Nofile), limit);
        let again = pool.descriptor.try_clone().expect("a descriptor is free");
        let opened = Pool::of_descriptor(again).expect("it is a pool");
        assert_eq!(opened.total(), 64 << 20);
    }
}
