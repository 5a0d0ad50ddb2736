//! The open file, as the rest of the page file uses it.

use plimsoll_os::{Errno, NamelessFile, file_size_limit};

use crate::descriptors::{OwnNumber, first_number};

/// The file. The live one is [`OpenFile`]; tests inject errors by others.
///
/// `read_at` is async-signal-safe.
pub(super) trait Backing: Send + Sync {
    /// Reads at `position`, up to the length of `bytes`; 0 past the end.
    fn read_at(&self, bytes: &mut [u8], position: u64) -> Result<usize, Errno>;

    /// Writes at `position`, up to the length of `bytes`.
    fn write_at(&self, bytes: &[u8], position: u64) -> Result<usize, Errno>;

    /// Waits until written bytes cannot be lost by a later error of the disk, and drops them from the page cache.
    fn settle(&self, position: u64, length: u64) -> Result<(), Errno>;

    /// Allocates disk space for a range.
    fn allocate(&self, position: u64, length: u64) -> Result<(), Errno>;

    /// Makes the file at least `length` bytes long, without disk space.
    fn extend(&self, length: u64) -> Result<(), Errno>;

    /// Frees the disk space of a range.
    fn punch(&self, position: u64, length: u64) -> Result<(), Errno>;

    /// The length that no write and allocation may exceed.
    fn most_bytes(&self) -> Option<u64>;

    /// The descriptor, for writes that the kernel makes by itself.
    fn descriptor(&self) -> Option<i32>;

    /// Whether reads and writes pass the page cache by.
    fn is_direct(&self) -> bool;
}

/// A file of the kernel.
#[derive(Debug)]
pub(super) struct OpenFile {
    /// The pager's own number, if it was moved to one. It ends before the file.
    _number: Option<OwnNumber>,
    file: NamelessFile,
    direct: bool,
}

impl OpenFile {
    /// Switches to direct access if `direct` and the file system has it.
    pub(super) fn new(file: NamelessFile, direct: bool) -> OpenFile {
        let direct = direct && file.set_direct(true).is_ok();
        // Read-ahead would read blocks that no page needs. Without it, only time is lost.
        let _ = file.expect_random_reads();
        OpenFile {
            _number: None,
            file,
            direct,
        }
    }

    /// The same file at a number of the pager's, which the program leaves alone.
    pub(super) fn at_own_number(self) -> Result<OpenFile, Errno> {
        let Some(first) = first_number() else {
            return Ok(self);
        };
        let file = self.file.at_number_from(first)?;
        Ok(OpenFile {
            _number: Some(OwnNumber::of(file.raw())),
            file,
            direct: self.direct,
        })
    }

    /// The same file through the page cache.
    pub(super) fn buffered(self) -> Result<OpenFile, Errno> {
        self.file.set_direct(false)?;
        Ok(OpenFile {
            direct: false,
            ..self
        })
    }
}

impl Backing for OpenFile {
    fn read_at(&self, bytes: &mut [u8], position: u64) -> Result<usize, Errno> {
        let read = self.file.read_at(bytes, position)?;
        if !self.direct {
            // A page cached a second time is no memory that the budget counts. Its drop can fail without harm.
            let _ = self.file.drop_cached(position, read as u64);
        }
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> Result<usize, Errno> {
        self.file.write_at(bytes, position)
    }

    fn settle(&self, position: u64, length: u64) -> Result<(), Errno> {
        if self.direct {
            return Ok(());
        }
        // Without the wait, an error of the write-back would come after the data left RAM.
        self.file.write_back(position, length)?;
        let _ = self.file.drop_cached(position, length);
        Ok(())
    }

    fn allocate(&self, position: u64, length: u64) -> Result<(), Errno> {
        self.file.allocate(position, length)
    }

    fn extend(&self, length: u64) -> Result<(), Errno> {
        match self.file.status()?.length < length {
            true => self.file.set_length(length),
            false => Ok(()),
        }
    }

    fn punch(&self, position: u64, length: u64) -> Result<(), Errno> {
        self.file.punch(position, length)
    }

    fn most_bytes(&self) -> Option<u64> {
        file_size_limit()
    }

    fn descriptor(&self) -> Option<i32> {
        Some(self.file.raw())
    }

    fn is_direct(&self) -> bool {
        self.direct
    }
}
