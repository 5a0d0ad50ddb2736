//! A folder by its descriptor: every entry is addressed relative to it, never through a link, and read up to a limit.
//!
//! The results of other machines are below such a folder: another user may rename it, or put links, pipes and files without end
//! into it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll_model::recording::RecordingFolder;
use plimsoll_proc::TrustedFolder;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{FleetError, sha256};

/// Most entries of a folder that are read.
const MOST_NAMES: usize = 1 << 20;
/// Deepest folder that is removed; the deepest file of a recording has depth 1.
const DEEPEST: u32 = 8;

/// An open folder.
#[derive(Debug, Clone)]
pub struct Folder {
    handle: Arc<OwnedFd>,
    path: PathBuf,
}

impl Folder {
    /// Opens a folder that the user names; links of its path are followed.
    ///
    /// # Errors
    /// Those of `openat(2)`.
    pub fn open(path: &Path) -> Result<Folder, FleetError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(CWD, path, flags, Mode::empty())
            .map_err(|errno| FleetError::io("open", path, errno))?;
        Ok(Folder {
            handle: Arc::new(handle),
            path: path.to_owned(),
        })
    }

    /// Opens or makes a folder that the user names, and its missing ancestors. For root, no other user may be able to write to it.
    ///
    /// # Errors
    /// [`FleetError::Untrusted`]; those of `mkdir(2)` and `openat(2)`.
    pub fn make(path: &Path) -> Result<Folder, FleetError> {
        if rustix::process::geteuid().is_root() {
            let trusted = TrustedFolder::make_own(path)?;
            return Folder::open(trusted.path());
        }
        std::fs::create_dir_all(path).map_err(|source| FleetError::io("create", path, source))?;
        Folder::open(path)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn failed(&self, action: &'static str, name: &OsStr, errno: impl Into<io::Error>) -> FleetError {
        FleetError::io(action, &self.path.join(name), errno)
    }

    /// Opens a folder in it; `None` if it has no entry of that name.
    ///
    /// # Errors
    /// Those of `openat(2)`, also for a link.
    pub fn folder(&self, name: impl AsRef<OsStr>) -> Result<Option<Folder>, FleetError> {
        let name = name.as_ref();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.handle, name, flags, Mode::empty()) {
            Ok(handle) => Ok(Some(Folder {
                handle: Arc::new(handle),
                path: self.path.join(name),
            })),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.failed("open", name, errno)),
        }
    }

    /// Makes a folder in it for this user alone to write to. An existing one is opened.
    ///
    /// # Errors
    /// Those of `mkdirat(2)` and `openat(2)`.
    pub fn make_folder(&self, name: impl AsRef<OsStr>) -> Result<Folder, FleetError> {
        let name = name.as_ref();
        match rustix::fs::mkdirat(&self.handle, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(self.failed("create", name, errno)),
        }
        let made = self.folder(name)?;
        made.ok_or_else(|| self.failed("open", name, Errno::NOENT))
    }

    /// The names in it, sorted.
    ///
    /// # Errors
    /// Those of `getdents64(2)`, and [`FleetError::Format`] for too many entries.
    pub fn names(&self) -> Result<Vec<OsString>, FleetError> {
        let failed = |errno| FleetError::io("list", &self.path, errno);
        let mut names = Vec::new();
        for entry in Dir::read_from(&*self.handle).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(name.to_owned());
            }
            if names.len() > MOST_NAMES {
                return Err(FleetError::format(
                    &self.path,
                    format_args!("it has more than {MOST_NAMES} entries"),
                ));
            }
        }
        names.sort();
        Ok(names)
    }

    /// Opens a regular file in it for reading, of at most `most` bytes; `None` if it has no entry of that name.
    ///
    /// # Errors
    /// Those of `openat(2)`, and [`FleetError::Format`] for a link, a device, a pipe or a longer file.
    pub fn file(&self, name: impl AsRef<OsStr>, most: u64) -> Result<Option<File>, FleetError> {
        let name = name.as_ref();
        // Non-blocking: the open of a pipe would wait for its other end.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let wrong = |reason: &str| FleetError::format(&self.path.join(name), reason);
        let handle = match rustix::fs::openat(&self.handle, name, flags, Mode::empty()) {
            Ok(handle) => handle,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(wrong("it is a symbolic link")),
            Err(errno) => return Err(self.failed("open", name, errno)),
        };
        let stat = rustix::fs::fstat(&handle).map_err(|errno| self.failed("read", name, errno))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(wrong("it is not a regular file"));
        }
        if u64::try_from(stat.st_size).unwrap_or(0) > most {
            return Err(wrong(&format!("it is longer than {most} bytes")));
        }
        Ok(Some(handle.into()))
    }

    /// Reads a regular file of at most `most` bytes; `None` if it has no entry of that name.
    ///
    /// # Errors
    /// As [`Folder::file`].
    pub fn read(&self, name: impl AsRef<OsStr>, most: u64) -> Result<Option<Vec<u8>>, FleetError> {
        let name = name.as_ref();
        let Some(file) = self.file(name, most)? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        // The file may grow meanwhile.
        file.take(most)
            .read_to_end(&mut bytes)
            .map_err(|source| self.failed("read", name, source))?;
        Ok(Some(bytes))
    }

    /// SHA-256 of a regular file of at most `most` bytes, in hexadecimal; `None` if it has no entry of that name.
    ///
    /// # Errors
    /// As [`Folder::file`].
    pub fn sha256(&self, name: impl AsRef<OsStr>, most: u64) -> Result<Option<String>, FleetError> {
        let name = name.as_ref();
        let Some(file) = self.file(name, most)? else {
            return Ok(None);
        };
        // The file may grow meanwhile.
        let hash = sha256::of_reader(file.take(most));
        hash.map(Some).map_err(|source| self.failed("read", name, source))
    }

    /// Reads a JSON document whose `version` is `known`.
    ///
    /// # Errors
    /// As [`Folder::read`]; [`FleetError::Format`], [`FleetError::Version`].
    pub fn read_json<T: DeserializeOwned>(
        &self,
        name: &str,
        most: u64,
        known: u32,
    ) -> Result<Option<T>, FleetError> {
        let read = self.read_json_hashed(name, most, known)?;
        Ok(read.map(|(document, _)| document))
    }

    /// As [`Folder::read_json`], with the SHA-256 of the bytes that were read.
    ///
    /// # Errors
    /// As [`Folder::read_json`].
    pub fn read_json_hashed<T: DeserializeOwned>(
        &self,
        name: &str,
        most: u64,
        known: u32,
    ) -> Result<Option<(T, String)>, FleetError> {
        #[derive(serde::Deserialize)]
        struct Versioned {
            version: u64,
        }
        let Some(bytes) = self.read(name, most)? else {
            return Ok(None);
        };
        let path = self.path.join(name);
        let wrong = |error: serde_json::Error| FleetError::format(&path, error);
        let Versioned { version: found } = serde_json::from_slice(&bytes).map_err(wrong)?;
        if found != u64::from(known) {
            return Err(FleetError::Version { path, found, known });
        }
        let document = serde_json::from_slice(&bytes).map_err(wrong)?;
        Ok(Some((document, sha256::of_bytes(&bytes))))
    }

    /// Writes a JSON document in place of the file, whole or not at all, also if the host loses its power.
    ///
    /// # Errors
    /// The system's.
    pub fn write_json(&self, name: &str, document: &impl Serialize) -> Result<(), FleetError> {
        let mut bytes = serde_json::to_vec_pretty(document)
            .map_err(|error| self.failed("write", OsStr::new(name), io::Error::other(error)))?;
        bytes.push(b'\n');
        self.write(name, &bytes, 0o644)
    }

    /// Writes a file of this mode in place of the file, whole or not at all, also if the host loses its power.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&self, name: &str, bytes: &[u8], mode: u32) -> Result<(), FleetError> {
        let name = OsStr::new(name);
        // Its writer is in its name: two hosts may write the same file.
        let host = rustix::system::uname();
        let mut new = OsString::from(".");
        new.push(name);
        new.push(format!(".{}.", std::process::id()));
        new.push(host.nodename().to_string_lossy().replace('/', "_"));
        new.push(".new");
        let written = self.write_new(&new, bytes, mode).and_then(|()| {
            let renamed = rustix::fs::renameat(&self.handle, &new, &self.handle, name);
            Ok(renamed?)
        });
        if let Err(source) = written {
            let _ = rustix::fs::unlinkat(&self.handle, &new, AtFlags::empty());
            return Err(self.failed("write", name, source));
        }
        self.sync()
    }

    fn write_new(&self, name: &OsStr, bytes: &[u8], mode: u32) -> io::Result<()> {
        let _ = rustix::fs::unlinkat(&self.handle, name, AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode);
        let mut file = File::from(rustix::fs::openat(&self.handle, name, flags, mode)?);
        file.write_all(bytes)?;
        file.sync_all()
    }

    /// Creates the file `name`, which must not exist, for writing and reading.
    ///
    /// # Errors
    /// Those of `openat(2)`.
    pub fn create(&self, name: &str) -> Result<File, FleetError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.handle, name, flags, Mode::from_raw_mode(0o644));
        Ok(file
            .map_err(|errno| self.failed("create", OsStr::new(name), errno))?
            .into())
    }

    /// Locks the file `name` in it against other processes, and makes it if it is missing. On NFS, the lock of a file that is open for
    /// writing holds for all clients; that of a folder would hold for this host alone.
    ///
    /// # Errors
    /// `WouldBlock` if another process holds the lock; those of `openat(2)` and `flock(2)`.
    pub fn lock(&self, name: &str) -> io::Result<FolderLock> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o644);
        let file = File::from(rustix::fs::openat(&self.handle, name, flags, mode)?);
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
        Ok(FolderLock(file))
    }

    /// Waits until all files of its file system are on disk.
    ///
    /// # Errors
    /// Those of `syncfs(2)`.
    pub fn sync_file_system(&self) -> Result<(), FleetError> {
        rustix::fs::syncfs(&*self.handle).map_err(|errno| FleetError::io("sync", &self.path, errno))
    }

    /// It as the folder of a recording.
    ///
    /// # Errors
    /// Those of `fcntl(2)`.
    pub fn recording(&self) -> Result<RecordingFolder, FleetError> {
        let handle = self.handle.try_clone();
        let handle = handle.map_err(|source| FleetError::io("open", &self.path, source))?;
        Ok(RecordingFolder::opened(handle, self.path.clone()))
    }

    /// Gives an entry another name. A folder replaces no folder but an empty one.
    ///
    /// # Errors
    /// Those of `renameat(2)`.
    pub fn rename(&self, from: impl AsRef<OsStr>, to: &Folder, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(rustix::fs::renameat(
            &self.handle,
            from.as_ref(),
            &to.handle,
            name.as_ref(),
        )?)
    }

    /// Whether it has an entry of that name.
    pub fn has(&self, name: impl AsRef<OsStr>) -> bool {
        rustix::fs::statat(&self.handle, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Waits until its entries are on disk.
    ///
    /// # Errors
    /// Those of `fsync(2)`.
    pub fn sync(&self) -> Result<(), FleetError> {
        rustix::fs::fsync(&*self.handle).map_err(|errno| FleetError::io("sync", &self.path, errno))
    }

    /// Waits until its regular files, and those of its folders, are on disk.
    ///
    /// # Errors
    /// Those of `fsync(2)` and `openat(2)`.
    pub fn sync_all(&self) -> Result<(), FleetError> {
        self.sync_below(0)
    }

    fn sync_below(&self, depth: u32) -> Result<(), FleetError> {
        for name in self.names()? {
            if self.is_folder(&name) {
                if depth < DEEPEST
                    && let Some(folder) = self.folder(&name)?
                {
                    folder.sync_below(depth + 1)?;
                }
            } else if let Some(file) = self.file(&name, u64::MAX)? {
                file.sync_all()
                    .map_err(|source| self.failed("sync", &name, source))?;
            }
        }
        self.sync()
    }

    /// Whether the entry is a folder, and no link to one.
    pub fn is_folder(&self, name: impl AsRef<OsStr>) -> bool {
        let stat = rustix::fs::statat(&self.handle, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }

    /// Removes an entry, with everything in it. A missing entry is no error.
    ///
    /// # Errors
    /// Those of `unlinkat(2)`; [`FleetError::Format`] for folders that are too deep.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> Result<(), FleetError> {
        self.remove_at(name.as_ref(), 0)
    }

    fn remove_at(&self, name: &OsStr, depth: u32) -> Result<(), FleetError> {
        if depth > DEEPEST {
            return Err(FleetError::format(&self.path, "its folders are too deep"));
        }
        let mut flags = AtFlags::empty();
        if self.is_folder(name) {
            if let Some(folder) = self.folder(name)? {
                for name in folder.names()? {
                    folder.remove_at(&name, depth + 1)?;
                }
            }
            flags = AtFlags::REMOVEDIR;
        }
        match rustix::fs::unlinkat(&self.handle, name, flags) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.failed("remove", name, errno)),
        }
    }
}

/// A lock of a folder until it is dropped.
#[derive(Debug)]
pub struct FolderLock(File);

impl Drop for FolderLock {
    fn drop(&mut self) {
        // A child between `fork` and `exec` shares the open file: its descriptor would hold the lock.
        let _ = rustix::fs::flock(&self.0, rustix::fs::FlockOperation::Unlock);
    }
}
