//! Writing that never leaves a half: whole-file replacement and appends that are taken back when they fail.
//!
//! Invariant: nothing here writes through a symbolic link that another user may have made. Checked by
//! `a_link_is_replaced_and_its_target_is_not_written_to` and `a_link_in_place_of_a_stream_is_not_reopened`.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::OFlags;

use super::RecordingError;

/// Names that a temporary file tries.
const NAMES: u32 = 1000;
/// Number of the next temporary file of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Replaces `path` by `content` so that a reader, also after a crash, sees the old file or the new one.
pub(super) fn replace(path: &Path, content: &[u8]) -> Result<(), RecordingError> {
    replace_file(path, |file| file.write_all(content))
        .map_err(|source: io::Error| RecordingError::io("write", path, source))
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
    let (mut file, temporary) = create_beside(path)?;
    let attempt = || -> Result<T, E> {
        let written = write(&mut file)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        // The rename lasts only once the folder is on disk.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all())?;
        Ok(written)
    };
    attempt().inspect_err(|_| {
        // The first error is the one that tells; a temporary file that cannot be removed harms no reader.
        let _ = fs::remove_file(&temporary);
    })
}

/// Creates a temporary file in the folder of `path`. It must be new: a link of its name could lead to any file.
fn create_beside(path: &Path) -> io::Result<(File, PathBuf)> {
    let mut last = None;
    for _ in 0..NAMES {
        let mut name = OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        name.push(format!(".{}-{number}.new", std::process::id()));
        let temporary = path.with_file_name(name);
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Ok(file) => return Ok((file, temporary)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::AlreadyExists.into()))
}

/// A file that grows by whole records, one `write` each.
#[derive(Debug)]
pub(super) struct AppendFile {
    file: File,
    path: PathBuf,
    length: u64,
}

impl AppendFile {
    /// Creates a file that must not be there yet.
    pub(super) fn create(path: PathBuf) -> Result<Self, RecordingError> {
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => Ok(AppendFile {
                file,
                path,
                length: 0,
            }),
            Err(source) => Err(RecordingError::io("create", &path, source)),
        }
    }

    /// Opens a file for appending after its first `length` bytes, and truncates the rest.
    pub(super) fn reopen(path: PathBuf, length: u64) -> Result<Self, RecordingError> {
        let open = || -> io::Result<File> {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .custom_flags(OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed())
                .open(&path)?;
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
            Ok(file) => Ok(AppendFile { file, path, length }),
            Err(source) => Err(RecordingError::io("reopen", &path, source)),
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
                Err(RecordingError::io("append to", &self.path, source))
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until all of it is on disk.
    pub(super) fn sync(&self) -> Result<(), RecordingError> {
        self.file
            .sync_data()
            .map_err(|source| RecordingError::io("sync", &self.path, source))
    }
}

#[cfg(test)]
mod tests {
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
            assert!(AppendFile::reopen(path.clone(), 0).is_err(), "{}", path.display());
            assert_eq!(fs::read_to_string(&victim).unwrap(), "important");
        }
    }
}
