//! Anonymous memory of this process: mapped, advised on, unmapped.
#![allow(unsafe_code)]

use core::ffi::c_int;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::slice;

use crate::{Errno, Range};

/// Advice on a range of memory (`madvise(2)`). None of it changes the contents, so that it is safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// `MADV_PAGEOUT`: reclaim the pages now; anonymous ones need swap to go to.
    PageOut,
    /// `MADV_HUGEPAGE`: use transparent huge pages where possible.
    HugePage,
    /// `MADV_NOHUGEPAGE`: use base pages alone.
    NoHugePage,
}

impl Advice {
    pub(crate) const fn raw(self) -> c_int {
        match self {
            Advice::PageOut => libc::MADV_PAGEOUT,
            Advice::HugePage => libc::MADV_HUGEPAGE,
            Advice::NoHugePage => libc::MADV_NOHUGEPAGE,
        }
    }
}

/// `MADV_PAGEOUT` on a part of this process's own memory: by address, so that one thread can do it while another one
/// writes there.
///
/// # Errors
/// [`Errno::INVAL`] where the start is no multiple of the page size or the kernel does not know the advice,
/// [`Errno::NOMEM`] where a part of the range is not mapped; the rest was advised on.
pub fn page_out(range: Range) -> Result<(), Errno> {
    // SAFETY: the kernel checks the range, and the advice changes neither contents nor protection: a page in use comes
    // back as it was.
    let returned = unsafe {
        libc::madvise(
            range.start as usize as *mut libc::c_void,
            range.length as usize,
            libc::MADV_PAGEOUT,
        )
    };
    Errno::check(returned).map(drop)
}

/// Private anonymous memory, zero at first, unmapped when dropped. Nothing is resident before it is touched.
///
/// Invariant: `start..start + length` is mapped readable and writable, and no other value refers to it.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: a mapping is plain memory of the process, owned by this value alone, like `Box<[u8]>`.
unsafe impl Send for Mapping {}
// SAFETY: shared access only reads, like `Box<[u8]>`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `length` bytes, rounded up to pages by the kernel. They count as committed (`Committed_AS`), as those of
    /// any program do.
    ///
    /// # Errors
    /// [`Errno::INVAL`] for zero bytes, [`Errno::NOMEM`] where the address space, a limit (RLIMIT_AS) or the
    /// overcommit policy has no room.
    pub fn anonymous(length: usize) -> Result<Mapping, Errno> {
        // A slice cannot be longer than this.
        if length > isize::MAX as usize {
            return Err(Errno::NOMEM);
        }
        // SAFETY: without MAP_FIXED the kernel picks an unused range, so no memory in use is touched.
        let address = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        let start = NonNull::new(address.cast()).ok_or(Errno::NOMEM)?;
        Ok(Mapping { start, length })
    }

    /// Address of the first byte.
    pub fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Never true: the kernel maps no zero bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The memory. Reading a page that was never written brings in the shared zero page.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: by the invariant the range is mapped readable, initialised (zero by the kernel), owned by `self`
        // and no longer than isize::MAX; the borrow keeps it mapped and unwritten.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    /// The memory, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`, mapped writable, and the borrow is exclusive.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }

    /// Applies `advice` to the whole mapping.
    ///
    /// # Errors
    /// [`Errno::INVAL`] if the kernel does not know the advice.
    pub fn advise(&self, advice: Advice) -> Result<(), Errno> {
        // SAFETY: the range is a mapping of ours, and no `Advice` changes contents or protection.
        let returned = unsafe { libc::madvise(self.start.as_ptr().cast(), self.length, advice.raw()) };
        Errno::check(returned).map(drop)
    }

    /// Unmaps the memory now and returns errors; its drop ignores them.
    ///
    /// # Errors
    /// [`Errno::NOMEM`] if splitting a merged mapping would exceed `vm.max_map_count`; the memory stays mapped.
    pub fn unmap(self) -> Result<(), Errno> {
        let mapping = ManuallyDrop::new(self);
        // SAFETY: the range is ours, `self` is consumed, so no reference to it is left.
        Errno::check(unsafe { libc::munmap(mapping.start.as_ptr().cast(), mapping.length) }).map(drop)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is ours and no reference to it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}
