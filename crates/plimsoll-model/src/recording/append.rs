//! Writing that never leaves a half: documents replaced whole, and appends that are taken back when they fail.
//!
//! Invariant: nothing here writes through a symbolic link that another user may have made. Checked by
//! `a_link_in_place_of_a_stream_is_not_reopened`.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::RecordingError;
use super::folder::RecordingFile;
use super::replace::NEW;

/// Replaces `path` by `content` so that a reader, also after a crash, sees the old file or the new one.
pub(super) fn replace(file: &RecordingFile, content: &[u8]) -> Result<(), RecordingError> {
    file.replace(|file| file.write_all(content))
        .map_err(|source: io::Error| RecordingError::io("write", file.path(), source))
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
