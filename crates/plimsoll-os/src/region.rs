//! Memory whose contents the kernel may change or take away: it is read and written without references to it.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::mem::ManuallyDrop;
use core::ptr;

use crate::{BackingFile, Errno, page_size};

/// The kind of a region's pages.
#[derive(Debug, Clone, Copy)]
pub enum Pages<'f> {
    /// Private and anonymous.
    Anonymous,
    /// Private and anonymous, populated as they are mapped (`MAP_POPULATE`).
    Populated,
    /// Private and anonymous, of the huge pages that the administrator reserved (`MAP_HUGETLB`).
    Hugetlb,
    /// Those of a file, shared. The region is of the file's length.
    Shared(&'f BackingFile),
}

/// A way to release pages, or to allow their release, that leaves them mapped (`madvise(2)`). Unlike an
/// [`Advice`](crate::Advice), some change the contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discard {
    /// `MADV_DONTNEED`: gone at once. Anonymous pages then read as zero, those of a file as it is.
    DontNeed,
    /// `MADV_FREE`, private anonymous pages alone: may go when memory is short, unless written before.
    Free,
    /// `MADV_PAGEOUT`: reclaimed now, to swap or to the file.
    PageOut,
}

/// Mapped memory that is only copied in and out of. Unmapped when dropped.
///
/// Invariant: `start..start + length` is mapped readable and writable, belongs to this value alone, and no
/// reference into it exists; every access is volatile, as the kernel may change it at any time (`MADV_FREE`).
#[derive(Debug)]
pub struct Region {
    start: *mut c_void,
    length: usize,
}

// SAFETY: a region is plain memory of the process, owned by this value alone.
unsafe impl Send for Region {}

impl Region {
    /// Maps `length` bytes.
    ///
    /// # Errors
    /// [`Errno::INVAL`] for zero bytes and for a file of another length, [`Errno::NOMEM`] where there is no room:
    /// among the reserved huge pages too.
    pub fn map(pages: Pages<'_>, length: usize) -> Result<Region, Errno> {
        let start = mmap(ptr::null_mut(), pages, length, 0)?;
        Ok(Region { start, length })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Never true: the kernel maps no zero bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Uses transparent huge pages where possible (`MADV_HUGEPAGE`), or base pages alone (`MADV_NOHUGEPAGE`).
    ///
    /// # Errors
    /// [`Errno::INVAL`] on a kernel without transparent huge pages.
    pub fn huge_pages(&self, wanted: bool) -> Result<(), Errno> {
        self.madvise(match wanted {
            true => libc::MADV_HUGEPAGE,
            false => libc::MADV_NOHUGEPAGE,
        })
    }

    /// Writes `byte` to every byte.
    pub fn fill(&mut self, byte: u8) {
        // SAFETY: by the invariant the range is mapped writable and no reference into it exists.
        unsafe { ptr::write_bytes(self.start.cast::<u8>(), byte, self.length) };
    }

    /// Writes `byte` to the first byte of every `step` bytes. A step of 0 counts as 1.
    pub fn touch(&mut self, step: usize, byte: u8) {
        for offset in (0..self.length).step_by(step.max(1)) {
            // SAFETY: the offset is below the length, and the range is mapped writable.
            unsafe { ptr::write_volatile(self.start.cast::<u8>().add(offset), byte) };
        }
    }

    /// The eight bytes at number `index`, counted in eights; none at the end.
    pub fn word(&self, index: usize) -> Option<u64> {
        if index >= self.length / size_of::<u64>() {
            return None;
        }
        // SAFETY: the word ends within the range, which is mapped readable and begins at a page.
        Some(unsafe { ptr::read_volatile(self.start.cast::<u64>().add(index)) })
    }

    /// Releases all its pages, or allows their release.
    ///
    /// # Errors
    /// [`Errno::INVAL`] if the kernel does not know the way, or not for these pages.
    pub fn discard(&mut self, how: Discard) -> Result<(), Errno> {
        self.madvise(match how {
            Discard::DontNeed => libc::MADV_DONTNEED,
            Discard::Free => libc::MADV_FREE,
            Discard::PageOut => libc::MADV_PAGEOUT,
        })
    }

    fn madvise(&self, advice: c_int) -> Result<(), Errno> {
        // SAFETY: the range is ours, and no reference into it exists whose bytes could change.
        Errno::check(unsafe { libc::madvise(self.start, self.length, advice) }).map(drop)
    }

    /// Maps `pages` over the present mapping (`mmap(2)` with `MAP_FIXED`).
    ///
    /// # Errors
    /// As [`Region::map`]; the former mapping may then be gone, so the region ends.
    pub fn map_over(self, pages: Pages<'_>) -> Result<Region, Errno> {
        let region = ManuallyDrop::new(self);
        // The kernel maps over exactly the range that is ours.
        mmap(region.start, pages, region.length, libc::MAP_FIXED)?;
        Ok(Region {
            start: region.start,
            length: region.length,
        })
    }

    /// Makes it `length` bytes long (`mremap(2)`): unmaps a cut end, and maps a new one. It may move.
    ///
    /// # Errors
    /// [`Errno::INVAL`] for zero bytes and for huge pages that would grow, [`Errno::NOMEM`] if there is no room.
    pub fn resize(&mut self, length: usize) -> Result<(), Errno> {
        let length = length.checked_next_multiple_of(page_size()).ok_or(Errno::NOMEM)?;
        // SAFETY: the range is ours and no reference into it exists, so it may move.
        let start = unsafe { libc::mremap(self.start, self.length, length, libc::MREMAP_MAYMOVE) };
        if start == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        (self.start, self.length) = (start, length);
        Ok(())
    }

    /// Unmaps it now and returns errors; its drop ignores them.
    ///
    /// # Errors
    /// [`Errno::NOMEM`] if splitting a merged mapping would exceed `vm.max_map_count`.
    pub fn unmap(self) -> Result<(), Errno> {
        let region = ManuallyDrop::new(self);
        // SAFETY: the range is ours, `self` is consumed, and no reference into it exists.
        Errno::check(unsafe { libc::munmap(region.start, region.length) }).map(drop)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the range is ours and no reference into it exists.
        unsafe { libc::munmap(self.start, self.length) };
    }
}

/// Maps pages. With `MAP_FIXED` in `more`, `at` is the start of a range of ours of that length.
fn mmap(at: *mut c_void, pages: Pages<'_>, length: usize, more: c_int) -> Result<*mut c_void, Errno> {
    let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let (flags, file) = match pages {
        Pages::Anonymous => (private, -1),
        Pages::Populated => (private | libc::MAP_POPULATE, -1),
        Pages::Hugetlb => (private | libc::MAP_HUGETLB, -1),
        // Past the end of its file, an access to a mapping ends the process.
        Pages::Shared(file) if file.len() != length => return Err(Errno::INVAL),
        Pages::Shared(file) => (libc::MAP_SHARED, file.raw()),
    };
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: without MAP_FIXED the kernel picks an unused range; with it, the range is a region's, into which no
    // reference exists.
    let start = unsafe { libc::mmap(at, length, access, flags | more, file, 0) };
    if start == libc::MAP_FAILED {
        return Err(Errno::last());
    }
    Ok(start)
}
