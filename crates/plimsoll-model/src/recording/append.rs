//! Writing that never leaves a half: whole-file replacement and appends that are taken back when they fail.
//!
//! Invariant: nothing here writes through a symbolic link that another user may have made. Checked by
//! `a_link_is_replaced_and_its_target_is_not_written_to` and `a_link_in_place_of_a_stream_is_not_reopened`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use super::RecordingError;
use super::folder::{RecordingFile, open_folder, readable};

/// Names that a temporary file tries.
const NAMES: u32 = 1000;
/// Flags of a file that must not exist yet.
const NEW: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::CLOEXEC);
/// Number of the next temporary file of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Replaces `path` by `content` so that a reader, also after a crash, sees the old file or the new one.
pub(super) fn replace(file: &RecordingFile, content: &[u8]) -> Result<(), RecordingError> {
    file.replace(|file| file.write_all(content))
        .map_err(|source: io::Error| RecordingError::io("write", file.path(), source))
}

/// Replaces the file `path`, or makes it, so that at every moment it is the old one or the new one and whole. A link
/// at `path` is replaced, too: its target stays as it is. The temporary file beside it is removed when that fails.
///
/// # Errors
/// The error of `write` or of the system.
pub fn replace_file<T, E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<T, E>,
) -> Result<T, E> {
    let parent = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = open_folder(CWD, parent.unwrap_or(Path::new(".")), OFlags::empty());
    let folder = folder.map_err(io::Error::from)?;
    replace_in(folder.as_fd(), path.file_name().unwrap_or_default(), write)
}

/// As [`replace_file`], of the file `name` of an open folder: names above the folder do not matter.
pub(super) fn replace_in<T, E: From<io::Error>>(
    folder: BorrowedFd<'_>,
    name: &OsStr,
    write: impl FnOnce(&mut File) -> Result<T, E>,
) -> Result<T, E> {
    let (mut file, temporary) = create_beside(folder, name)?;
    let attempt = || -> Result<T, E> {
        let written = write(&mut file)?;
        file.sync_all()?;
        rustix::fs::renameat(folder, &temporary, folder, name).map_err(io::Error::from)?;
        // The rename lasts only once the folder is on disk.
        readable(folder).and_then(|folder| folder.sync_all())?;
        Ok(written)
    };
    attempt().inspect_err(|_| {
        // The first error is the one that tells; a temporary file that cannot be removed harms no reader.
        let _ = rustix::fs::unlinkat(folder, &temporary, AtFlags::empty());
    })
}

/// Creates a temporary file beside the file `beside`. It must be new: a link of its name could lead to any file.
fn create_beside(folder: BorrowedFd<'_>, beside: &OsStr) -> io::Result<(File, OsString)> {
    let mut last = None;
    for _ in 0..NAMES {
        let mut name = OsString::from(".");
        name.push(beside);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        name.push(format!(".{}-{number}.new", std::process::id()));
        match rustix::fs::openat(folder, &name, NEW, Mode::from_raw_mode(0o666)) {
            Ok(file) => return Ok((file.into(), name)),
            Err(Errno::EXIST) => last = Some(Errno::EXIST.into()),
            Err(error) => return Err(error.into()),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::AlreadyExists.into()))
}

/// A file that grows by whole records, one `write` each.
#[derive(Debug)]
pub(super) struct AppendFile {
    file: File,
    place: RecordingFile,
    length: u64,
}

impl AppendFile {
    /// Creates a file that must not be there yet.
    pub(super) fn create(place: RecordingFile) -> Result<Self, RecordingError> {
        match place.open(NEW) {
            Ok(file) => Ok(AppendFile {
                file,
                place,
                length: 0,
            }),
            Err(source) => Err(RecordingError::io("create", place.path(), source)),
        }
    }

    /// Opens a file for appending after its first `length` bytes, and truncates the rest.
    pub(super) fn reopen(place: RecordingFile, length: u64) -> Result<Self, RecordingError> {
        let open = || -> io::Result<File> {
            let mut file = place.open(OFlags::WRONLY | OFlags::CREATE)?;
            let found = file.metadata()?;
            // With a second name it may be a file of another folder.
            if !found.is_file() || found.nlink() != 1 {
                let cause = "it is not a regular file, or has a second name (a hard link)";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, cause));
            }
            file.set_len(length)?;
            file.seek(SeekFrom::Start(length))?;
            Ok(file)
        };
        match open() {
            Ok(file) => Ok(AppendFile { file, place, length }),
            Err(source) => Err(RecordingError::io("reopen", place.path(), source)),
        }
    }

    /// Appends a whole record, or nothing.
    pub(super) fn append(&mut self, record: &[u8]) -> Result<(), RecordingError> {
        match self.file.write_all(record) {
            Ok(()) => {
                self.length += record.len() as u64;
                Ok(())
            }
            Err(source) => {
                // Truncation needs no disk space. If it fails, the reader skips a torn tail.
                let _ = self.file.set_len(self.length);
                let _ = self.file.seek(SeekFrom::Start(self.length));
                Err(RecordingError::io("append to", self.path(), source))
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.place.path()
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Waits until all of it is on disk.
    pub(super) fn sync(&self) -> Result<(), RecordingError> {
        self.file
            .sync_data()
            .map_err(|source| RecordingError::io("sync", self.path(), source))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn entries(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    /// `report` wrote through a link in place of report.html, and through a link in place of its temporary file.
    #[test]
    fn a_link_is_replaced_and_its_target_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("report.html"), folder.path().join("victim"));
        fs::write(&victim, "important").unwrap();
        symlink(&victim, &path).unwrap();
        symlink(&victim, folder.path().join(".report.html.new")).unwrap();
        // The names that this process takes next: guessed by an attacker.
        let next = NEXT.load(Ordering::Relaxed);
        for number in next..next + 20 {
            let name = format!(".report.html.{}-{number}.new", std::process::id());
            symlink(&victim, folder.path().join(name)).unwrap();
        }
        let before = entries(folder.path());
        replace_file(&path, |file| file.write_all(b"report")).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "important");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        assert_eq!(fs::read_to_string(&path).unwrap(), "report");
        assert_eq!(entries(folder.path()), before, "the temporary file is gone");
    }

    #[test]
    fn a_link_in_place_of_a_stream_is_not_reopened() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "important").unwrap();
        let (link, hard) = (folder.path().join("link"), folder.path().join("hard"));
        symlink(&victim, &link).unwrap();
        fs::hard_link(&victim, &hard).unwrap();
        for path in [link, hard] {
            let reopened = AppendFile::reopen(RecordingFile::at(path.clone()), 0);
            assert!(reopened.is_err(), "{}", path.display());
            assert_eq!(fs::read_to_string(&victim).unwrap(), "important");
        }
    }
}
