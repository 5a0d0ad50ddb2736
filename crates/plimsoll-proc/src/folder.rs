//! The folder of a process in `/proc`.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, open, openat};

/// The open folder. It belongs to the process, not to its number: once that has ended, reading fails, whichever process
/// gets the number next. So everything that is read through one folder is of one process.
#[derive(Debug)]
pub struct Folder(OwnedFd);

impl Folder {
    /// Opens that of `pid`.
    ///
    /// # Errors
    /// `NotFound` when there is no such process.
    pub fn open(pid: u32) -> io::Result<Folder> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Folder(open(format!("/proc/{pid}"), flags, Mode::empty())?))
    }

    /// Reads a whole file of it into `buffer`, replacing its content.
    ///
    /// # Errors
    /// `NotFound` when the process has ended meanwhile.
    pub fn read<'b>(&self, name: &str, buffer: &'b mut Vec<u8>) -> io::Result<&'b [u8]> {
        let file = openat(&self.0, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(ended)?;
        // One read brings the whole of most files, a second says that it did.
        buffer.resize(buffer.capacity().max(4096), 0);
        let mut length = 0;
        loop {
            match rustix::io::read(&file, &mut buffer[length..]) {
                Ok(0) => break,
                Ok(more) => length += more,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(ended(error)),
            }
            if length == buffer.len() {
                buffer.resize(length * 2, 0);
            }
        }
        Ok(&buffer[..length])
    }
}

/// A process that ends while it is looked at shows as "no such process".
fn ended(error: rustix::io::Errno) -> io::Error {
    match error {
        rustix::io::Errno::SRCH => rustix::io::Errno::NOENT.into(),
        other => other.into(),
    }
}
