//! The open folder of a cgroup.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, fstatfs, open, unlinkat};

use super::{CgroupVersion, MemoryCgroup};

/// A folder that is in a cgroup file system, even if its path leads elsewhere afterwards.
#[derive(Debug)]
pub struct CgroupFolder {
    handle: OwnedFd,
    version: CgroupVersion,
}

impl CgroupFolder {
    /// Opens the folder at `path`; `None` if it is in another file system.
    ///
    /// # Errors
    /// Those of `open(2)`: among them that the folder does not exist.
    pub fn open(path: &Path) -> io::Result<Option<CgroupFolder>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = open(path, flags, Mode::empty())?;
        let version = match fstatfs(&handle)?.f_type {
            kind if kind == libc::CGROUP_SUPER_MAGIC => CgroupVersion::V1,
            kind if kind == libc::CGROUP2_SUPER_MAGIC => CgroupVersion::V2,
            _ => return Ok(None),
        };
        Ok(Some(CgroupFolder { handle, version }))
    }

    /// The cgroup, by the open folder; valid as long as the folder is open.
    pub fn group(&self) -> MemoryCgroup {
        MemoryCgroup::new(self.path(), self.version)
    }

    /// Its child `name`, which need not exist.
    pub fn child(&self, name: &OsStr) -> MemoryCgroup {
        MemoryCgroup::new(self.path().join(name), self.version)
    }

    /// Removes its child `name`.
    ///
    /// # Errors
    /// `EBUSY` while the child has processes or children, and the other errors of `unlinkat(2)`.
    pub fn remove_child(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.handle, name, AtFlags::REMOVEDIR)?)
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.handle.as_raw_fd()))
    }
}
