//! A file with an exclusive lock (`flock`).
//!
//! The lock is free when its holder is dead, however it died. While the holder lives, the lock ends with the value, not with the last
//! copy of the descriptor: a child that another thread has just forked has one until it executes its program.

use std::fs::File;
use std::io;
use std::ops::{Deref, DerefMut};

use rustix::fs::{FlockOperation, flock};

/// The lock, held until dropped.
#[derive(Debug)]
pub(super) struct LockedFile(File);

/// The result of [`LockedFile::try_lock`].
#[derive(Debug)]
pub(super) enum TryLock {
    Locked(LockedFile),
    /// Another holder has the lock.
    Held(File),
}

impl LockedFile {
    /// Takes the lock of an open file, without a wait.
    pub(super) fn try_lock(file: File) -> io::Result<TryLock> {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(TryLock::Locked(LockedFile(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(TryLock::Held(file)),
            Err(error) => Err(error.into()),
        }
    }
}

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl DerefMut for LockedFile {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.0
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // If it fails, the lock ends with the last copy of the file.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// A process that has a copy of an open file until it is dropped, as a child has that another thread forked.
#[cfg(test)]
pub(super) struct OtherOwner(std::process::Child);

#[cfg(test)]
impl OtherOwner {
    pub(super) fn of(file: &File) -> OtherOwner {
        use std::process::{Command, Stdio};

        use rustix::io::{FdFlags, fcntl_setfd};

        // Not closed by the program that the child executes, which waits for the end of its input.
        fcntl_setfd(file, FdFlags::empty()).unwrap();
        let child = Command::new("cat").stdin(Stdio::piped()).spawn();
        fcntl_setfd(file, FdFlags::CLOEXEC).unwrap();
        OtherOwner(child.expect("cat starts"))
    }
}

#[cfg(test)]
impl Drop for OtherOwner {
    fn drop(&mut self) {
        assert_eq!(self.0.try_wait().unwrap(), None, "it had the file to the end");
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}
