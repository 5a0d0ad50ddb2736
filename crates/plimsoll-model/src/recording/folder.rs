//! The folder of a recording, by its descriptor.
//!
//! The parent of a recording may belong to another user. That user can rename the folder and put a link in its place. So a
//! program opens the folder once and addresses every file of it relative to the descriptor, and never through a link.
//!
//! Invariant: a writer writes and removes files only in the folder that it opened or made, also after another user has renamed
//! a folder above. Checked by `a_folder_swapped_for_a_link_gets_nothing`, `a_discarded_folder_is_the_one_that_was_made` and
//! `a_program_writes_into_the_folder_that_the_monitor_made`.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::model::file;
use super::replace::{NEW, open_folder, readable, replace_in};
use super::{NotARecording, RecordingError};

/// Permission bits that let other users write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// An open folder of a recording.
#[derive(Debug, Clone)]
pub struct RecordingFolder {
    handle: Arc<OwnedFd>,
    /// The folder above; `None` if this folder was opened and not made.
    above: Option<Arc<OwnedFd>>,
    path: PathBuf,
}

impl RecordingFolder {
    /// Opens the folder of a recording, which need not have a manifest.
    ///
    /// # Errors
    /// [`RecordingError::NotARecording`] if there is no such folder; the system's error.
    pub fn open(path: &Path) -> Result<RecordingFolder, RecordingError> {
        let not_a_recording = |reason| RecordingError::NotARecording {
            path: path.to_owned(),
            reason,
        };
        match open_folder(CWD, path, OFlags::empty()) {
            Ok(handle) => Ok(RecordingFolder {
                handle: Arc::new(handle),
                above: None,
                path: path.to_owned(),
            }),
            Err(Errno::NOENT) => Err(not_a_recording(NotARecording::Absent)),
            Err(Errno::NOTDIR) => Err(not_a_recording(NotARecording::NotAFolder)),
            Err(errno) => Err(RecordingError::io("open", path, errno.into())),
        }
    }

    /// A folder that the caller has opened, with its path for messages.
    pub fn opened(handle: OwnedFd, path: PathBuf) -> RecordingFolder {
        RecordingFolder {
            handle: Arc::new(handle),
            above: None,
            path,
        }
    }

    /// Makes the folder `name` in `parent`, for this user alone to write to, and opens it.
    ///
    /// # Errors
    /// [`RecordingError::Exists`]; [`RecordingError::Replaced`] if another user has swapped it meanwhile; the system's error.
    pub(super) fn create(parent: &Path, name: &str) -> Result<RecordingFolder, RecordingError> {
        let path = parent.join(name);
        let failed = |doing, path: &Path, errno: Errno| RecordingError::io(doing, path, errno.into());
        let above =
            open_folder(CWD, parent, OFlags::empty()).map_err(|errno| failed("open", parent, errno))?;
        match rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(0o755)) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(RecordingError::Exists { path }),
            Err(errno) => return Err(failed("create", &path, errno)),
        }
        let handle = match open_folder(above.as_fd(), Path::new(name), OFlags::NOFOLLOW) {
            Ok(handle) => handle,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                return Err(RecordingError::Replaced { path });
            }
            Err(errno) => return Err(failed("open", &path, errno)),
        };
        let folder = RecordingFolder {
            handle: Arc::new(handle),
            above: Some(Arc::new(above)),
            path,
        };
        match folder.is_empty() {
            Ok(true) => Ok(folder),
            Ok(false) => Err(RecordingError::Replaced { path: folder.path }),
            Err(source) => Err(RecordingError::io("read", &folder.path, source)),
        }
    }

    /// The path by which it was opened: another folder may be there by now.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file(&self, name: &'static str) -> RecordingFile {
        RecordingFile {
            path: self.path.join(name),
            of: Some((self.clone(), name)),
        }
    }

    /// As [`super::replace_file`], for a file of this folder.
    ///
    /// # Errors
    /// The error of `write` or of the system.
    pub fn replace_file<T, E: From<io::Error>>(
        &self,
        name: &str,
        write: impl FnOnce(&mut File) -> Result<T, E>,
    ) -> Result<T, E> {
        replace_in(self.handle.as_fd(), OsStr::new(name), write)
    }

    /// Creates the file `name`, which must not exist, for writing.
    ///
    /// # Errors
    /// The system's error.
    pub fn create_file(&self, name: &str) -> io::Result<File> {
        let flags = NEW | OFlags::NOFOLLOW;
        Ok(rustix::fs::openat(&self.handle, name, flags, Mode::from_raw_mode(0o644))?.into())
    }

    /// Removes the folder that a [`super::Writer`] made, with the files of a recording in it. If another folder has its name by
    /// now, that folder stays, and this one stays without files.
    ///
    /// # Errors
    /// `InvalidInput` if the folder was opened and not made; `NotFound` if it has lost its name; the system's error, as
    /// `DirectoryNotEmpty` if it has other files.
    pub fn discard(&self) -> io::Result<()> {
        let (Some(above), Some(name)) = (&self.above, self.path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        for file in file::ALL {
            match rustix::fs::unlinkat(&self.handle, file, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        let own = rustix::fs::fstat(&self.handle)?;
        let named = rustix::fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW)?;
        // A user who swaps the folder after this check can lose at most an empty folder.
        if (own.st_dev, own.st_ino) != (named.st_dev, named.st_ino) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR)?)
    }

    /// Checks that it is the folder that [`RecordingFolder::create`] made: `file` was made in it just now, and shows
    /// whether the file system has owners and modes at all.
    pub(super) fn check_made(&self, file: &File) -> Result<(), RecordingError> {
        let looked = |errno: Errno| RecordingError::io("look at", &self.path, errno.into());
        let folder = rustix::fs::fstat(&self.handle).map_err(looked)?;
        let file = rustix::fs::fstat(file).map_err(looked)?;
        match is_made_with(&folder, &file) {
            true => Ok(()),
            false => Err(RecordingError::Replaced {
                path: self.path.clone(),
            }),
        }
    }

    /// A descriptor of it that can be locked, listed and flushed.
    pub(super) fn readable(&self) -> io::Result<File> {
        readable(self.handle.as_fd())
    }

    fn is_empty(&self) -> io::Result<bool> {
        for entry in Dir::read_from(self.readable()?)? {
            if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether the owner of a new file in a folder also made the folder, with the modes that were asked for; on a file system
/// without owners or modes all files look alike.
fn is_made_with(folder: &Stat, file: &Stat) -> bool {
    let for_all = |stat: &Stat| stat.st_mode & WRITABLE_BY_OTHERS != 0;
    folder.st_uid == file.st_uid && (!for_all(folder) || for_all(file))
}

/// A file of a recording, which need not exist.
#[derive(Debug, Clone)]
pub(super) struct RecordingFile {
    /// For messages.
    path: PathBuf,
    /// Its folder and its name there; `None` for a reader that looks at a path again and again.
    of: Option<(RecordingFolder, &'static str)>,
}

impl RecordingFile {
    /// The file that a path leads to at each use.
    pub(super) fn at(path: PathBuf) -> RecordingFile {
        RecordingFile { path, of: None }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The arguments of a system call: a folder, and the path from there.
    pub(super) fn place(&self) -> (BorrowedFd<'_>, &Path) {
        match &self.of {
            Some((folder, name)) => (folder.handle.as_fd(), Path::new(name)),
            None => (CWD, &self.path),
        }
    }

    /// Opens it and never follows a link.
    pub(super) fn open(&self, flags: OFlags) -> io::Result<File> {
        let (folder, name) = self.place();
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o666))?.into())
    }

    pub(super) fn stat(&self) -> io::Result<Stat> {
        let (folder, name) = self.place();
        Ok(rustix::fs::statat(folder, name, AtFlags::empty())?)
    }

    pub(super) fn exists(&self) -> bool {
        self.stat().is_ok()
    }

    pub(super) fn remove_if_there(&self) -> Result<(), RecordingError> {
        let (folder, name) = self.place();
        match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(RecordingError::io("remove", &self.path, errno.into())),
        }
    }

    /// Gives it the name of `other`, in place of that file.
    pub(super) fn rename_to(&self, other: &RecordingFile) -> Result<(), RecordingError> {
        let ((from_folder, from), (to_folder, to)) = (self.place(), other.place());
        rustix::fs::renameat(from_folder, from, to_folder, to)
            .map_err(|errno| RecordingError::io("replace", &other.path, errno.into()))
    }

    /// As [`super::replace_file`].
    pub(super) fn replace<T, E: From<io::Error>>(
        &self,
        write: impl FnOnce(&mut File) -> Result<T, E>,
    ) -> Result<T, E> {
        match &self.of {
            Some((folder, name)) => folder.replace_file(name, write),
            None => super::replace::replace_file(&self.path, write),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_new_folder_is_for_its_user_alone_and_only_made_once() {
        let parent = tempfile::tempdir().unwrap();
        let folder = RecordingFolder::create(parent.path(), "run").unwrap();
        let mode = fs::metadata(folder.path()).unwrap().permissions().mode();
        assert_eq!(mode & WRITABLE_BY_OTHERS, 0, "{mode:o}");
        symlink("/nowhere", parent.path().join("link")).unwrap();
        for name in ["run", "link"] {
            let again = RecordingFolder::create(parent.path(), name);
            assert!(matches!(again, Err(RecordingError::Exists { .. })), "{again:?}");
        }
    }

    #[test]
    fn a_folder_of_another_user_or_for_all_was_not_made_here() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let stat = |uid, mode| {
            let file = File::create(&path).unwrap();
            let mut stat = rustix::fs::fstat(&file).unwrap();
            (stat.st_uid, stat.st_mode) = (uid, mode);
            stat
        };
        let file = stat(0, 0o100_644);
        assert!(is_made_with(&stat(0, 0o40755), &file));
        assert!(!is_made_with(&stat(1000, 0o40755), &file), "of another user");
        assert!(!is_made_with(&stat(0, 0o40777), &file), "for all");
        // vfat gives every file the owner and the mode of its mount.
        assert!(is_made_with(&stat(1000, 0o40777), &stat(1000, 0o100_777)));
    }
}
