//! Open files that all processes of a program inherit.
//!
//! Programs take low numbers by themselves, so the descriptor is high; it is not closed on exec. The library keeps it open in
//! each process. The file ends with the last process that has it.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::fstat;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The library looks for its descriptors below this number.
const MOST: u64 = 1024;
/// Numbers that are left for descriptors of the library.
const ROOM: u64 = 128;

/// An open file that the program inherits. As text, it is `DESCRIPTOR,FILE`.
#[derive(Debug)]
pub(super) struct Inherited {
    descriptor: OwnedFd,
    /// The inode number (`st_ino`). A process that finds another file at the descriptor does not use it.
    file: u64,
}

impl Inherited {
    /// Duplicates `file` to a high descriptor that stays open on exec.
    pub(super) fn of(file: impl AsFd) -> io::Result<Inherited> {
        let descriptor = with_raised_limit(|first| fcntl_dupfd_cloexec(file, first))?;
        fcntl_setfd(&descriptor, FdFlags::empty())?;
        let file = fstat(&descriptor)?.st_ino;
        Ok(Inherited { descriptor, file })
    }
}

impl AsFd for Inherited {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl fmt::Display for Inherited {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{},{}", self.descriptor.as_raw_fd(), self.file)
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
        let inherited = Inherited::of(io::stderr()).expect("a number is free");
        let flags = rustix::io::fcntl_getfd(&inherited).expect("it is open");
        assert!(!flags.contains(FdFlags::CLOEXEC));
        let limit = getrlimit(Resource::Nofile);
        assert!(inherited.descriptor.as_raw_fd() >= with_raised_limit(|first| first));
        assert_eq!(getrlimit(Resource::Nofile), limit);
    }
}
