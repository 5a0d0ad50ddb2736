//! Memory that a pager manages.
#![allow(unsafe_code)]

use std::io;
use std::ops::{Bound, RangeBounds};
use std::os::fd::{AsFd, AsRawFd};
use std::slice;
use std::sync::Arc;

use crate::engine::{Engine, TrimTo};
use crate::error::RangeError;
use crate::manager;
use crate::page::{PAGE_SIZE, PageIndex, PageRange};
use crate::saved::SavedCopies;

/// A range of memory, zero at first, that a pager trims and restores. It is unmapped when it is dropped, and keeps its
/// pager alive.
///
/// Its bytes are as in any other memory, with these differences:
/// - A system call that reads or writes it returns `EFAULT`, or fewer bytes than asked for, where pages are absent, unless
///   [`Pager::serves_system_calls`](crate::Pager::serves_system_calls). Pin the range first ([`Region::pin`]), or use
///   [`Region::read_into`] and [`Region::write_from`]. A datagram that is received into absent pages is lost.
/// - A thread that blocks SIGBUS ends the process when it touches an absent page, unless a thread of the pager resolves faults
///   ([`FaultMode::Thread`](crate::FaultMode::Thread)).
/// - A child of a fork does not have it: an access there raises SIGSEGV, and a call of a function returns
///   [`RangeError::Forked`].
/// - A range that a device writes to (registered buffers of io_uring, direct I/O) must be pinned on a kernel without
///   `UFFDIO_MOVE`; a newer one keeps such pages in place by itself.
///
/// Invariant: `pages` are open in the pager's arena and belong to this value alone.
pub struct Region {
    engine: Arc<Engine<SavedCopies>>,
    pages: PageRange,
    bytes: usize,
}

impl Region {
    pub(crate) fn new(engine: Arc<Engine<SavedCopies>>, pages: PageRange, bytes: usize) -> Region {
        Region { engine, pages, bytes }
    }

    /// Bytes of the region.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Never true: a region has at least one byte.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The address of the first byte, a multiple of the page size. Accesses through it must obey Rust's rules for
    /// memory that threads share.
    pub fn as_ptr(&self) -> *mut u8 {
        self.engine.address(self.pages.first) as *mut u8
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: by the invariant the range is mapped and initialised (zero at first) while `self` lives, and the pager
        // gives each access the bytes that the program wrote last. Writers by `as_ptr` obey the rules by themselves.
        unsafe { slice::from_raw_parts(self.as_ptr(), self.bytes) }
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and the borrow is exclusive.
        unsafe { slice::from_raw_parts_mut(self.as_ptr(), self.bytes) }
    }

    /// Trims the pages that `range`, in bytes, touches, down to a step. Returns the pages that left the working set.
    ///
    /// # Errors
    /// The range is not in the region.
    pub fn trim(&self, range: impl RangeBounds<usize>, to: TrimTo) -> Result<u32, RangeError> {
        Ok(self.engine.trim(self.covering(&range)?, to))
    }

    /// Makes the pages that `range` touches present, as far as the budget allows.
    ///
    /// # Errors
    /// The range is not in the region, or a page cannot be restored.
    pub fn prefetch(&self, range: impl RangeBounds<usize>) -> Result<(), RangeError> {
        Ok(self.engine.prefetch(self.covering(&range)?)?)
    }

    /// Makes the pages that `range` touches present, and keeps them so until the guard is dropped: system calls may then
    /// use them.
    ///
    /// # Errors
    /// The range is not in the region, a page cannot be restored, 256 ranges are pinned, or more than half of the budget
    /// would be.
    pub fn pin(&self, range: impl RangeBounds<usize>) -> Result<PinGuard<'_>, RangeError> {
        let pages = self.covering(&range)?;
        let pin = if pages.count == 0 {
            None
        } else {
            Some(self.engine.pin(pages)?)
        };
        Ok(PinGuard { region: self, pin })
    }

    /// Drops the contents of the whole pages in `range`: they read as zero, and occupy nothing.
    ///
    /// # Errors
    /// The range is not in the region, or the program has locked pages of it in RAM.
    pub fn discard(&mut self, range: impl RangeBounds<usize>) -> Result<(), RangeError> {
        // SAFETY: the borrow is exclusive.
        unsafe { self.discard_unborrowed(range) }
    }

    /// As [`Region::discard`], for memory that is used by pointers alone.
    ///
    /// # Errors
    /// As [`Region::discard`].
    ///
    /// # Safety
    /// No reference to bytes of `range` exists.
    pub unsafe fn discard_unborrowed(&self, range: impl RangeBounds<usize>) -> Result<(), RangeError> {
        let (start, end) = self.bounds(&range)?;
        let first = start.div_ceil(PAGE_SIZE);
        // The last page of the region ends with it.
        let last = if end == self.bytes {
            end.div_ceil(PAGE_SIZE)
        } else {
            end / PAGE_SIZE
        };
        self.engine.discard(self.pages_between(first, last.max(first)))
    }

    /// Reads from `file` into the bytes of `range`, up to 1 MiB, which it pins meanwhile. Returns the bytes read, as
    /// `read(2)` does.
    ///
    /// # Errors
    /// Those of `read(2)`; [`RangeError`] as the error's source.
    pub fn read_into(&mut self, range: impl RangeBounds<usize>, file: impl AsFd) -> io::Result<usize> {
        let (start, end) = self.bounds(&range).map_err(io::Error::other)?;
        let end = end.min(start + MOST_AT_ONCE);
        let _pin = self.pin(start..end).map_err(io::Error::other)?;
        let at = self.as_ptr().wrapping_add(start).cast();
        // SAFETY: the range lies in the region, which `self` borrows exclusively; a read writes initialised bytes.
        let read = unsafe { libc::read(file.as_fd().as_raw_fd(), at, end - start) };
        usize::try_from(read).map_err(|_| io::Error::last_os_error())
    }

    /// Writes the bytes of `range`, up to 1 MiB, which it pins meanwhile, to `file`. Returns the bytes written, as
    /// `write(2)` does.
    ///
    /// # Errors
    /// Those of `write(2)`; [`RangeError`] as the error's source.
    pub fn write_from(&self, range: impl RangeBounds<usize>, file: impl AsFd) -> io::Result<usize> {
        let (start, end) = self.bounds(&range).map_err(io::Error::other)?;
        let end = end.min(start + MOST_AT_ONCE);
        let _pin = self.pin(start..end).map_err(io::Error::other)?;
        let at = self.as_ptr().wrapping_add(start).cast_const().cast();
        // SAFETY: the range lies in the region, and the kernel only reads it.
        let written = unsafe { libc::write(file.as_fd().as_raw_fd(), at, end - start) };
        usize::try_from(written).map_err(|_| io::Error::last_os_error())
    }

    fn bounds(&self, range: &impl RangeBounds<usize>) -> Result<(usize, usize), RangeError> {
        if self.engine.is_forked() {
            return Err(RangeError::Forked);
        }
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.bytes,
        };
        if start > end || end > self.bytes {
            return Err(RangeError::OutOfBounds {
                start,
                end,
                length: self.bytes,
            });
        }
        Ok((start, end))
    }

    /// The pages that a range of bytes touches.
    fn covering(&self, range: &impl RangeBounds<usize>) -> Result<PageRange, RangeError> {
        let (start, end) = self.bounds(range)?;
        let first = start / PAGE_SIZE;
        let last = if start == end {
            first
        } else {
            end.div_ceil(PAGE_SIZE)
        };
        Ok(self.pages_between(first, last))
    }

    fn pages_between(&self, first: usize, last: usize) -> PageRange {
        let start = PageIndex::new(self.pages.first.number() + first as u32);
        PageRange::new(start, (last - first) as u32)
    }
}

/// Bytes that one call of [`Region::read_into`] or [`Region::write_from`] pins.
const MOST_AT_ONCE: usize = 1 << 20;

impl Drop for Region {
    fn drop(&mut self) {
        self.engine.unmap(self.pages);
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Region")
            .field("address", &self.as_ptr())
            .field("bytes", &self.bytes)
            .finish()
    }
}

/// Keeps a range of a region present.
#[must_use = "dropping it ends the pin"]
pub struct PinGuard<'r> {
    region: &'r Region,
    pin: Option<manager::Pin>,
}

impl Drop for PinGuard<'_> {
    fn drop(&mut self) {
        if let Some(pin) = self.pin {
            self.region.engine.unpin(pin);
        }
    }
}

impl std::fmt::Debug for PinGuard<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PinGuard").finish_non_exhaustive()
    }
}
