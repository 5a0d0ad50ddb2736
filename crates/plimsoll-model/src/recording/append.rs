//! Writing that never leaves a half: whole-file replacement and appends that are taken back when they fail.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::RecordingError;

/// Replaces `path` by `content` so that a reader, also after a crash, sees the old file or the new one.
pub(super) fn replace(path: &Path, content: &[u8]) -> Result<(), RecordingError> {
    replace_file(path, |file| file.write_all(content))
        .map_err(|source: io::Error| RecordingError::io("write", path, source))
}

/// Replaces the file `path`, or makes it, so that at every moment it is the old one or the new one and whole. The
/// temporary file beside it is removed when that fails.
///
/// # Errors
/// The error of `write` or of the system.
pub fn replace_file<T, E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<T, E>,
) -> Result<T, E> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".new");
    let temporary = path.with_file_name(name);
    let attempt = || -> Result<T, E> {
        let mut file = File::create(&temporary)?;
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
                .custom_flags(OFlags::NOFOLLOW.bits() as i32)
                .open(&path)?;
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
