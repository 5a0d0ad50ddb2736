//! Opens files that other users may have made: regular files of a bounded size only.
//!
//! A link to `/dev/zero` has no end, and a pipe keeps its reader waiting. So the file is opened without waiting, and the
//! open descriptor is examined, not the name, which its owner can change at any time.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};

/// Whether a symbolic link may stand in the place of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    Followed,
    Refused,
}

/// Why a file was not opened.
#[derive(Debug)]
pub(crate) enum Refusal {
    System(io::Error),
    /// It is no regular file: `a folder`, `a pipe`.
    Kind(&'static str),
    /// Its size in bytes is above the limit.
    Size(u64),
}

/// Opens a regular file of at most `max` bytes for reading.
pub(crate) fn open(path: &Path, links: Links, max: u64) -> Result<File, Refusal> {
    open_at((CWD, path), links, max)
}

/// As [`open`], of a path from a folder on.
pub(crate) fn open_at(
    (folder, path): (BorrowedFd<'_>, &Path),
    links: Links,
    max: u64,
) -> Result<File, Refusal> {
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    if links == Links::Refused {
        flags |= OFlags::NOFOLLOW;
    }
    let file = match rustix::fs::openat(folder, path, flags, Mode::empty()) {
        Ok(descriptor) => File::from(descriptor),
        Err(error) => return Err(refusal((folder, path), links, error.into())),
    };
    let stat = rustix::fs::fstat(&file).map_err(|error| Refusal::System(error.into()))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        other => return Err(Refusal::Kind(kind(other))),
    }
    match u64::try_from(stat.st_size).unwrap_or(0) {
        bytes if bytes > max => Err(Refusal::Size(bytes)),
        _ => Ok(file),
    }
}

/// The reason for a failed open: a link or a socket refuses it, and the error of the system does not say so.
fn refusal((folder, path): (BorrowedFd<'_>, &Path), links: Links, error: io::Error) -> Refusal {
    let flags = match links {
        Links::Followed => AtFlags::empty(),
        Links::Refused => AtFlags::SYMLINK_NOFOLLOW,
    };
    let there = rustix::fs::statat(folder, path, flags);
    match there.map(|there| FileType::from_raw_mode(there.st_mode)) {
        Ok(FileType::RegularFile) | Err(_) => Refusal::System(error),
        Ok(other) => Refusal::Kind(kind(other)),
    }
}

fn kind(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        _ => "a device",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_open_file_decides_not_its_name() {
        let kind = |path: &str, links| match open(Path::new(path), links, 10) {
            Err(Refusal::Kind(kind)) => kind,
            other => panic!("{path}: {other:?}"),
        };
        assert_eq!(kind("/dev/zero", Links::Refused), "a device");
        assert_eq!(kind("/", Links::Refused), "a folder");
        assert_eq!(kind("/proc/self/exe", Links::Refused), "a symbolic link");
        let size = open(Path::new("/proc/self/exe"), Links::Followed, 10);
        assert!(matches!(size, Err(Refusal::Size(11..))), "{size:?}");
        let missing = open(Path::new("/proc/self/none"), Links::Refused, 10);
        assert!(matches!(missing, Err(Refusal::System(_))), "{missing:?}");
    }
}
