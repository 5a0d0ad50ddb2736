//! The folder of a process in `/proc`, and how its files are opened and read.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::{pread, retry_on_intr};

/// The files that the kernel writes as a single record: as for [`super::KeptFile::read`], one read brings the whole, if it
/// leaves room in the buffer.
const RECORDS: [&str; 7] = [
    "cgroup",
    "limits",
    "oom_score",
    "oom_score_adj",
    "stat",
    "statm",
    "status",
];

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
        read_file(&file, name, buffer)
    }
}

/// Opens the file `name` of the process `pid` without its folder.
pub(super) fn open_file(pid: u32, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    open(format!("/proc/{pid}/{name}"), flags, Mode::empty()).map_err(ended)
}

/// Reads the whole of an open file, which is called `name`, into `buffer`, replacing its content.
pub(super) fn read_file<'b>(file: &OwnedFd, name: &str, buffer: &'b mut Vec<u8>) -> io::Result<&'b [u8]> {
    let is_record = RECORDS.contains(&name);
    buffer.resize(buffer.capacity().max(4096), 0);
    let mut length = 0;
    loop {
        let room = buffer.len() - length;
        let read = retry_on_intr(|| pread(file, &mut buffer[length..], length as u64));
        let more = read.map_err(ended)?;
        length += more;
        if more == 0 || (is_record && more < room) {
            break;
        }
        if more == room {
            buffer.resize(length * 2, 0);
        }
    }
    Ok(&buffer[..length])
}

/// Reads one byte of an open file: an error if its process has ended.
pub(super) fn check_alive(file: &OwnedFd) -> io::Result<()> {
    let mut byte = [0u8];
    let read = retry_on_intr(|| pread(file, &mut byte, 0));
    read.map(drop).map_err(ended)
}

/// A process that ends while it is looked at shows as "no such process".
fn ended(error: rustix::io::Errno) -> io::Error {
    match error {
        rustix::io::Errno::SRCH => rustix::io::Errno::NOENT.into(),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;
    use crate::fields::lines;

    #[test]
    fn a_file_is_read_whole_whatever_its_length() {
        for length in [0, 1, 4095, 4096, 4097, 20_000] {
            let text: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&text).unwrap();
            let file = OwnedFd::from(file);
            for name in ["stat", "maps"] {
                // The second one was used for another file.
                for mut buffer in [Vec::new(), vec![b'x'; 5000]] {
                    let found = read_file(&file, name, &mut buffer).unwrap();
                    assert!(found == text, "{name}, {length} bytes");
                }
            }
        }
    }

    #[test]
    fn records_are_read_whole() {
        let folder = Folder::open(std::process::id()).unwrap();
        let shape = |text: &[u8]| (lines(text).count(), text.last().copied());
        let mut buffer = Vec::new();
        for name in RECORDS {
            let whole = fs::read(format!("/proc/self/{name}")).unwrap();
            let text = folder.read(name, &mut buffer).unwrap();
            assert_eq!(shape(text), shape(&whole), "{name}");
        }
    }
}
