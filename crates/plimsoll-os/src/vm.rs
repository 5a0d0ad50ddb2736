//! Memory of this process that one value owns, anonymous or of a file of its own: mapped, advised on, unmapped.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_int};
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::slice;

use crate::raw::system_call;
use crate::{BackingFile, Errno, Range, page_size, repeat_interrupted};

/// Advice on a range of memory (`madvise(2)`). None of it changes the contents, so that it is safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// `MADV_PAGEOUT`: reclaim the pages now; anonymous ones need swap to go to.
    PageOut,
    /// `MADV_HUGEPAGE`: use transparent huge pages where possible.
    HugePage,
    /// `MADV_NOHUGEPAGE`: use base pages alone.
    NoHugePage,
    /// `MADV_DONTFORK`: a child of a fork does not have the range; an access there raises SIGSEGV.
    DontFork,
    /// `MADV_DOFORK`: a child of a fork has a copy of the range again.
    DoFork,
    /// `MADV_DONTDUMP`: core dumps leave the range out.
    DontDump,
    /// `MADV_WIPEONFORK`: a child of a fork has the range filled with zeros (Linux 4.14).
    WipeOnFork,
    /// `MADV_POPULATE_WRITE` (Linux 5.14): make every page present and writable now, in one call instead of a fault each; a
    /// page that is shared with a child of a fork becomes a copy of its own.
    PopulateWrite,
    /// `MADV_COLD` (Linux 5.4): count the pages as not accessed, and reclaim them before others.
    Cold,
}

impl Advice {
    pub(crate) const fn raw(self) -> c_int {
        match self {
            Advice::PageOut => libc::MADV_PAGEOUT,
            Advice::HugePage => libc::MADV_HUGEPAGE,
            Advice::NoHugePage => libc::MADV_NOHUGEPAGE,
            Advice::DontFork => libc::MADV_DONTFORK,
            Advice::DoFork => libc::MADV_DOFORK,
            Advice::DontDump => libc::MADV_DONTDUMP,
            Advice::WipeOnFork => libc::MADV_WIPEONFORK,
            Advice::PopulateWrite => libc::MADV_POPULATE_WRITE,
            Advice::Cold => libc::MADV_COLD,
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

/// Writes dirty pages of a part of this process's memory to their file, and waits for it (`msync(2)` with `MS_SYNC`): by
/// address, so that several threads can do it. Anonymous pages and those of a memory file stay as they are.
///
/// # Errors
/// `EIO` where the disk fails, [`Errno::INVAL`] where the start is no multiple of the page size, [`Errno::NOMEM`] where a
/// part of the range is not mapped.
pub fn write_back(range: Range) -> Result<(), Errno> {
    let start = range.start as usize as *mut libc::c_void;
    let written = repeat_interrupted(|| {
        // SAFETY: the kernel checks the range, and changes neither contents nor protection.
        Errno::check(unsafe { libc::msync(start, range.length as usize, libc::MS_SYNC) })
    });
    written.map(drop)
}

/// Pages whose residency one call of [`Mapping::in_core`] asks for.
const ASKED_AT_ONCE: usize = 4096;

/// Memory, zero at first, unmapped when dropped. Nothing is resident before it is touched.
///
/// Invariant: `start..start + length` is mapped readable and writable, and no other value refers to it or to the file
/// behind it.
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
        Mapping::new(length, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    }

    /// Maps all of a new memory file, shared (`memfd_create(2)`). The file ends with the mapping.
    ///
    /// # Errors
    /// As [`Mapping::anonymous`], and those of [`BackingFile::in_memory`].
    pub fn of_memory_file(length: usize) -> Result<Mapping, Errno> {
        Mapping::of_file(BackingFile::in_memory(length)?)
    }

    /// Maps all of a new file without a name on the disk of `folder`, shared, all of whose blocks are allocated. The file
    /// ends with the mapping.
    ///
    /// # Errors
    /// As [`Mapping::anonymous`], those of [`BackingFile::on_disk`], and `ENOSPC` where the disk has no room.
    pub fn of_disk_file(folder: &CStr, length: usize) -> Result<Mapping, Errno> {
        let file = BackingFile::on_disk(folder, length)?;
        file.reserve()?;
        Mapping::of_file(file)
    }

    /// The file must be new: no region refers to it. Its bytes then change through the mapping alone.
    fn of_file(file: BackingFile) -> Result<Mapping, Errno> {
        Mapping::new(file.len(), libc::MAP_SHARED, file.raw())
    }

    fn new(length: usize, flags: c_int, file: c_int) -> Result<Mapping, Errno> {
        // A slice cannot be longer than this.
        if length > isize::MAX as usize {
            return Err(Errno::NOMEM);
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let arguments = [0, length, access as usize, flags as usize, file as usize, 0];
        // Not by the C library's function, in whose place a preloaded library may have one that maps memory of the program.
        // SAFETY: without MAP_FIXED the kernel picks an unused range, so no memory in use is touched.
        let address = unsafe { system_call(libc::SYS_mmap, arguments) }?;
        let start = NonNull::new(address as *mut _).ok_or(Errno::NOMEM)?;
        Ok(Mapping { start, length })
    }

    /// Bytes that are in RAM, in whole pages (`mincore(2)`): of a file those in the page cache, mapped or not, else those
    /// that are resident or in the swap cache.
    ///
    /// # Errors
    /// [`Errno::AGAIN`] where the kernel is short of memory.
    pub fn in_core(&self) -> Result<u64, Errno> {
        let mut resident = 0;
        self.each_in_core(|_| resident += page_size() as u64)?;
        Ok(resident)
    }

    /// Maps the pages of a file that are in the page cache and not mapped, which [`Advice::PageOut`] does not reach: it
    /// goes by the page tables. Reads no page from the disk that stays in the cache.
    ///
    /// # Errors
    /// As [`Mapping::in_core`].
    pub fn map_cached(&self) -> Result<(), Errno> {
        let bytes = self.bytes();
        self.each_in_core(|offset| {
            core::hint::black_box(bytes[offset]);
        })
    }

    /// Calls `found` with the offset of each page that is in RAM.
    fn each_in_core(&self, mut found: impl FnMut(usize)) -> Result<(), Errno> {
        let mut pages = [0u8; ASKED_AT_ONCE];
        let page = page_size();
        for offset in (0..self.length).step_by(ASKED_AT_ONCE * page) {
            let length = (self.length - offset).min(ASKED_AT_ONCE * page);
            // SAFETY: the range is a part of the mapping, and the kernel writes a byte for each of its pages, of which
            // `pages` has room for as many as the longest range has.
            let returned = unsafe {
                libc::mincore(
                    self.start.as_ptr().add(offset).cast(),
                    length,
                    pages.as_mut_ptr().cast(),
                )
            };
            Errno::check(returned)?;
            let asked = &pages[..length.div_ceil(page)];
            let in_core = asked.iter().enumerate().filter(|(_, flags)| **flags & 1 == 1);
            in_core.for_each(|(number, _)| found(offset + number * page));
        }
        Ok(())
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
        // with the file behind it, and no longer than isize::MAX; the borrow keeps it mapped and unwritten.
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

    /// Makes its pages zero in children of a fork (`MADV_WIPEONFORK`), for an anonymous mapping. A child that forks
    /// while a borrow of the bytes lives must not use that borrow.
    ///
    /// # Errors
    /// [`Errno::INVAL`] for a mapping of a file.
    pub fn wipe_in_children(&self) -> Result<(), Errno> {
        // SAFETY: the range is ours, and the advice changes nothing in this process.
        let returned =
            unsafe { libc::madvise(self.start.as_ptr().cast(), self.length, libc::MADV_WIPEONFORK) };
        Errno::check(returned).map(drop)
    }

    /// Frees its pages at once (`MADV_DONTNEED`). Anonymous ones read as zero afterwards.
    ///
    /// # Errors
    /// [`Errno::INVAL`] for locked pages.
    pub fn discard(&mut self) -> Result<(), Errno> {
        // SAFETY: the range is ours, the borrow is exclusive, and any byte value is valid for a `u8`.
        let returned = unsafe { libc::madvise(self.start.as_ptr().cast(), self.length, libc::MADV_DONTNEED) };
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
