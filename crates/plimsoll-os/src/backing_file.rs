//! Files without a name whose pages a [`Region`](crate::Region) shares.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_uint};

use crate::{Errno, Fd, allocate_file, repeat_interrupted};

/// A file of this value alone, zero at first, that is gone when it and the regions on it are.
///
/// Invariant: no other process has the file open, so that its pages change by this process alone.
#[derive(Debug)]
pub struct BackingFile {
    file: Fd,
    length: usize,
}

impl BackingFile {
    /// A file in memory alone (`memfd_create(2)`).
    ///
    /// # Errors
    /// [`Errno::NOMEM`], [`Errno::INVAL`] for a length that no file has.
    pub fn in_memory(length: usize) -> Result<BackingFile, Errno> {
        let flags: c_uint = libc::MFD_CLOEXEC;
        // SAFETY: the kernel reads a string that ends with 0, and returns a new descriptor.
        let returned = unsafe { libc::memfd_create(c"plimsoll".as_ptr(), flags) };
        BackingFile::of_length(Fd::from_call(Errno::check(returned)?), length)
    }

    /// A file on the disk of `folder` that never has a name (`open(2)` with `O_TMPFILE`).
    ///
    /// # Errors
    /// Those of `open(2)`: among them that the folder does not exist, and that its file system has no such files.
    pub fn on_disk(folder: &CStr, length: usize) -> Result<BackingFile, Errno> {
        let flags = libc::O_TMPFILE | libc::O_RDWR | libc::O_EXCL | libc::O_CLOEXEC;
        let owner_alone: c_uint = 0o600;
        let opened = repeat_interrupted(|| {
            // SAFETY: the kernel reads a string that ends with 0, and returns a new descriptor.
            Errno::check(unsafe { libc::open(folder.as_ptr(), flags, owner_alone) })
        });
        BackingFile::of_length(Fd::from_call(opened?), length)
    }

    fn of_length(file: Fd, length: usize) -> Result<BackingFile, Errno> {
        let size = libc::off_t::try_from(length).map_err(|_| Errno::INVAL)?;
        repeat_interrupted(|| {
            // SAFETY: the call takes numbers, and the descriptor is ours.
            Errno::check(unsafe { libc::ftruncate(file.raw(), size) })
        })?;
        Ok(BackingFile { file, length })
    }

    /// [`allocate_file`] for all its bytes.
    ///
    /// # Errors
    /// Those of [`allocate_file`].
    pub(crate) fn reserve(&self) -> Result<(), Errno> {
        allocate_file(self.file.raw(), 0..self.length as u64)
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The descriptor's number, still owned by `self`.
    pub(crate) fn raw(&self) -> i32 {
        self.file.raw()
    }

    /// Frees all its pages and blocks; it keeps its length and reads as zero (`fallocate(2)`,
    /// `FALLOC_FL_PUNCH_HOLE`).
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the file system cannot punch holes; [`Errno::INTR`] where signals interrupt each try.
    pub fn punch(&self) -> Result<(), Errno> {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let punched = repeat_interrupted(|| {
            // SAFETY: the call takes numbers. Regions on the file hand out no references to its bytes, so their change
            // breaks no rule.
            Errno::check(unsafe { libc::fallocate(self.file.raw(), mode, 0, self.length as libc::off_t) })
        });
        punched.map(drop)
    }
}
