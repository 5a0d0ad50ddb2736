//! Memory that a pager manages.
#![allow(
    unsafe_code,
    reason = "memory of a region as slices, and in calls of read and write"
)]

use std::io;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::os::fd::{AsFd, AsRawFd};
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::{AtWork, Engine, TrimTo};
use crate::error::RangeError;
use crate::manager::{self, WorkingSetError};
use crate::page::{PAGE_SIZE, PageIndex, PageRange, Word};
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
/// - A child of a fork does not have it, but for one of [`Pager::fork`](crate::Pager::fork): an access there raises SIGSEGV, a call of a function returns
///   [`RangeError::Forked`], and those without a result ([`Region::set_priority`], [`Region::suspend`], [`Region::resume`],
///   [`Region::end_working_set`]) do nothing.
/// - A program may change the rights to parts of it (`mprotect(2)`). Pages without the right to write, or with that to
///   execute, are trimmed and restored by copies, which costs more than moves.
/// - A range that a device writes to (registered buffers of io_uring, direct I/O) must be pinned on a kernel without
///   `UFFDIO_MOVE`, or if its rights are not those to read and write; else the kernel keeps such pages in place by itself.
///
/// Invariant: `pages` are open in the pager's arena and belong to this value alone.
pub struct Region {
    engine: Arc<Engine<SavedCopies>>,
    pages: PageRange,
    bytes: usize,
    policy: Mutex<Policy>,
}

/// The rule by which the pages of a region leave RAM.
#[derive(Debug, Clone, Copy)]
struct Policy {
    priority: u8,
    is_suspended: bool,
    /// The number of its limits, 0 for none.
    working_set: u8,
}

impl Region {
    pub(crate) fn new(engine: Arc<Engine<SavedCopies>>, pages: PageRange, bytes: usize) -> Region {
        Region {
            engine,
            pages,
            bytes,
            policy: Mutex::new(Policy {
                priority: Word::NORMAL_PRIORITY,
                is_suspended: false,
                working_set: 0,
            }),
        }
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

    /// As [`Region::pin`], for a handler of signals, as many pages from the start of `range` on as the budget allows: all pins
    /// together may have half of the memory that the compressed store and metadata leave now. Returns the bytes of `range`,
    /// from its start on, that are pinned.
    ///
    /// It allocates nothing, takes no lock that the interrupted code may hold, leaves `errno` alone, and reads no byte of the
    /// range: the program may have no right to it (`mprotect(2)`). A page that the program dropped without the pager
    /// (`MADV_DONTNEED`) counts as present, and so does one whose faults the kernel resolves by itself. Surrendered pages are passed: the pin does nothing for them.
    ///
    /// The pin is this thread's: in a child of [`Pager::fork`](crate::Pager::fork) that another thread makes, it has ended.
    ///
    /// # Errors
    /// The range is not in the region, 256 ranges are pinned, as much as the budget allows is pinned already, or the first page
    /// cannot be restored.
    pub fn pin_in_signal_handler(
        &self,
        range: impl RangeBounds<usize>,
    ) -> Result<(CallPin<'_>, usize), RangeError> {
        let (start, end) = self.bounds(&range)?;
        if start == end {
            return Ok((CallPin::new(self, None), 0));
        }
        let pages = self.pages_between(start / PAGE_SIZE, end.div_ceil(PAGE_SIZE));
        let (pin, count) = with_errno_kept(|| self.engine.pin_first(pages))?;
        let last = start / PAGE_SIZE * PAGE_SIZE + count as usize * PAGE_SIZE;
        Ok((CallPin::new(self, Some(pin)), last.min(end) - start))
    }

    /// As [`Region::pin_in_signal_handler`], of the page with the byte `offset` alone. It needs no part of the budget that pins may
    /// have, and other pins leave room for 32 such ones, which none has while the page is restored: so it succeeds for every thread
    /// that tries again, if each drops the pin before it waits for anything.
    ///
    /// # Errors
    /// The page is not in the region, 32 threads have such a pin ([`RangeError::TooManyPins`]), or the page cannot be restored.
    pub fn pin_for_a_moment(&self, offset: usize) -> Result<CallPin<'_>, RangeError> {
        let (start, _) = self.bounds(&(offset..offset.saturating_add(1)))?;
        let page = self.pages_between(start / PAGE_SIZE, start / PAGE_SIZE + 1).first;
        let pin = with_errno_kept(|| self.engine.pin_for_a_moment(page))?;
        Ok(CallPin::new(self, Some(pin)))
    }

    /// As [`Region::pin_in_signal_handler`], of all of the range, until the region ends: also in children of
    /// [`Pager::fork`](crate::Pager::fork). A range that is pinned so stays as it is.
    ///
    /// Half of the memory that the compressed store and metadata leave now may be pinned so, and three quarters together with other
    /// pins; 128 KiB in any case.
    ///
    /// # Errors
    /// The range is not in the region, 512 ranges with gaps between them are pinned, more than that memory would be, or a page cannot be restored.
    pub fn pin_for_ever(&self, range: impl RangeBounds<usize>) -> Result<(), RangeError> {
        let pages = self.covering(&range)?;
        match pages.count {
            0 => Ok(()),
            _ => with_errno_kept(|| self.engine.pin_for_ever(pages, self.pages)),
        }
    }

    /// Whether all pages that `range` touches are present, or their faults are the kernel's: a system call could use them. They may
    /// leave at once unless they are pinned. A page that the program dropped without the pager (`MADV_DONTNEED`) counts as present,
    /// and so does a surrendered one. May be called in a signal handler.
    ///
    /// # Errors
    /// The range is not in the region.
    pub fn is_present(&self, range: impl RangeBounds<usize>) -> Result<bool, RangeError> {
        let pages = self.covering(&range)?;
        Ok(with_errno_kept(|| self.engine.is_active(pages)))
    }

    /// Whether a page that `range` touches is pinned.
    ///
    /// # Errors
    /// The range is not in the region.
    pub fn is_pinned(&self, range: impl RangeBounds<usize>) -> Result<bool, RangeError> {
        Ok(self.engine.is_pinned(self.covering(&range)?))
    }

    /// Drops the contents of the whole pages in `range`: they read as zero, and occupy nothing. Parts of 2 MiB that were never
    /// touched cost nothing; surrendered pages stay as they are.
    ///
    /// # Errors
    /// The range is not in the region, a part of it is pinned, or the program has locked pages of it in RAM.
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
        let pages = self.whole_pages(&range)?;
        self.engine.discard(pages)
    }

    /// States that the program is about to use `range`, as `MEM_COMMIT` of Windows does: a hint, for a region that is larger than
    /// the budget, and so has a user-space fault for each page that it touches.
    ///
    /// Parts of 2 MiB that `range` touches become *native* while the budget, but for a stock of a 24th, has room for all of
    /// their bytes: the kernel resolves the first access to a page, without the pager. All native parts count as resident
    /// ([`Stats::native_pages`](crate::Stats::native_pages)). If `range` does not fit, the parts that are native become
    /// managed, of which the pager counts the touched pages alone; if it does not fit then either, it stays managed. Before the
    /// pager trims a page, all parts become managed.
    ///
    /// A member of a pool without that room waits for free pages of the pool, for about 100 ms at most, if the pool has as many,
    /// `range` covers at least half of those parts, and the parts together are no larger than the resident memory (a single part
    /// always qualifies).
    ///
    /// In a pager of a pool, a part of which `range` covers at least a half may also become native later: by the first access to it,
    /// a prefetch or a pin of it, if at most half of the pool is in use then, all of the part included. An access waits for the pages
    /// for about 20 ms at most. A large `range` of which the program uses a little reserves that much only. While more than seven
    /// eighths of the pool are in use, native parts of which fewer than a quarter of the pages are present become managed, within
    /// a second or two. Pages that others are charged for are in use, and so is all that this member has in RAM.
    ///
    /// Parts in use stay as they are, and so does the end of the region behind its last multiple of 2 MiB. It costs a system call
    /// for a range that is not native, and none for one that is.
    ///
    /// # Errors
    /// The range is not in the region.
    pub fn commit(&self, range: impl RangeBounds<usize>) -> Result<(), RangeError> {
        let pages = self.covering(&range)?;
        if pages.count > 0 {
            self.engine.commit(pages);
        }
        Ok(())
    }

    /// As [`Region::discard_unborrowed`]; ends [`Region::commit`] of whole parts of 2 MiB in `range` too: they count as resident no
    /// more. No access makes a part that `range` touches native, before the next commit.
    ///
    /// # Errors
    /// As [`Region::discard`].
    ///
    /// # Safety
    /// No reference to bytes of `range` exists.
    pub unsafe fn decommit_unborrowed(&self, range: impl RangeBounds<usize>) -> Result<(), RangeError> {
        let pages = self.whole_pages(&range)?;
        self.engine.decommit(pages)
    }

    /// Surrenders the whole pages in `range` to the program: their contents are gone, and the pager leaves them alone until
    /// [`Region::reclaim`]. The program may map anything there (`mmap(2)` with `MAP_FIXED`). For a library that manages the
    /// address space of the program that loads it.
    ///
    /// A fault there goes to the handler of SIGBUS before the pager's. A child of [`Pager::fork`](crate::Pager::fork) has the
    /// program's mapping as the kernel gives it. A region that is dropped while pages are surrendered stays mapped until its
    /// pager ends, which then unmaps its addresses whole.
    ///
    /// # Errors
    /// The range is not in the region, a part of it is pinned, or the kernel refuses: then the first pages may be surrendered.
    ///
    /// # Safety
    /// No reference to bytes of `range` exists, nor is used before [`Region::reclaim`]: not by [`Region::bytes`] either.
    pub unsafe fn surrender(&self, range: impl RangeBounds<usize>) -> Result<(), RangeError> {
        let pages = self.whole_pages(&range)?;
        self.engine.surrender(pages)
    }

    /// Ends [`Region::surrender`] of the whole pages in `range`, where the program has mapped fresh memory: they are the
    /// pager's again, and zero.
    ///
    /// # Errors
    /// The range is not in the region; a page of it was not surrendered: then nothing was changed; or the kernel refuses: it is
    /// another kind of memory, or the process has too many mappings.
    ///
    /// # Safety
    /// Private anonymous memory is mapped over all of `range` (`MAP_NORESERVE`, so that the overcommit policy does not count
    /// it), and no thread has accessed it since.
    pub unsafe fn reclaim(&self, range: impl RangeBounds<usize>) -> Result<(), RangeError> {
        let pages = self.whole_pages(&range)?;
        self.engine.reclaim(pages)
    }

    /// The pages all of whose bytes are in `range`.
    fn whole_pages(&self, range: &impl RangeBounds<usize>) -> Result<PageRange, RangeError> {
        let (start, end) = self.bounds(range)?;
        let first = start.div_ceil(PAGE_SIZE);
        // The last page of the region ends with it.
        let last = if end == self.bytes {
            end.div_ceil(PAGE_SIZE)
        } else {
            end / PAGE_SIZE
        };
        Ok(self.pages_between(first, last.max(first)))
    }

    /// Gives up the contents of the whole pages in `range`, of which the program needs no more than the addresses (`MEM_RESET`
    /// of Windows, `MADV_FREE`). The pages leave the working set. Until their frames are needed their contents stay, and
    /// nothing is saved; after that they read as zero. A page that the program reads or writes before is an ordinary one
    /// again. Returns the pages that were given up: not pinned ones.
    ///
    /// # Errors
    /// The range is not in the region.
    pub fn reset(&mut self, range: impl RangeBounds<usize>) -> Result<u32, RangeError> {
        // SAFETY: the borrow is exclusive.
        unsafe { self.reset_unborrowed(range) }
    }

    /// As [`Region::reset`], for memory that is used by pointers alone.
    ///
    /// # Errors
    /// As [`Region::reset`].
    ///
    /// # Safety
    /// No reference to bytes of `range` exists.
    pub unsafe fn reset_unborrowed(&self, range: impl RangeBounds<usize>) -> Result<u32, RangeError> {
        let pages = self.whole_pages(&range)?;
        Ok(self.engine.reset(pages))
    }

    /// Sets the standby priority of the region's pages, 1 to 7; others count as the nearest of these. Frames of trimmed pages
    /// with a low priority are taken first, so pages with a high one return by soft faults for longer. By default 5.
    pub fn set_priority(&self, priority: u8) {
        let Some((mut policy, work)) = self.policy() else {
            return;
        };
        policy.priority = priority.clamp(Word::SUSPENDED_PRIORITY, Word::HIGHEST_PRIORITY);
        if !policy.is_suspended {
            self.engine.set_priority(&work, self.pages, policy.priority);
        }
    }

    /// Limits the region's working set, in bytes: its pages in use, without trimmed ones.
    ///
    /// The trimmer passes a region with `minimum` bytes or less while other regions have pages to trim. A fault that brings a
    /// region above `maximum` trims other pages of the same region; they return by soft faults while the budget allows. The
    /// minima of all regions together may have half of the budget.
    ///
    /// # Errors
    /// [`WorkingSetError`]; the former limits stay.
    pub fn set_working_set(&self, minimum: u64, maximum: u64) -> Result<(), WorkingSetError> {
        let (mut policy, work) = self.policy().ok_or(WorkingSetError::Forked)?;
        let number = policy.working_set;
        policy.working_set = self
            .engine
            .limit_working_set(&work, self.pages, number, minimum, maximum)?;
        Ok(())
    }

    /// Ends the limits of the region's working set.
    pub fn end_working_set(&self) {
        let Some((mut policy, work)) = self.policy() else {
            return;
        };
        if policy.working_set != 0 {
            self.engine.end_working_set(&work, self.pages, policy.working_set);
            policy.working_set = 0;
        }
    }

    /// Trims the region whole, and has its frames taken before those of others, until [`Region::resume`]. Its bytes stay
    /// usable: each page returns by a fault. A pager all of whose regions are suspended keeps the minimum of its member of a
    /// pool alone.
    pub fn suspend(&self) {
        let Some((mut policy, work)) = self.policy() else {
            return;
        };
        if !policy.is_suspended {
            policy.is_suspended = true;
            self.engine.suspend(&work, self.pages);
        }
    }

    /// Ends [`Region::suspend`]. Pages return when they are touched; see [`Region::prefetch`].
    pub fn resume(&self) {
        let Some((mut policy, work)) = self.policy() else {
            return;
        };
        if policy.is_suspended {
            policy.is_suspended = false;
            self.engine.resume(&work, self.pages, policy.priority);
        }
    }

    /// None in a child of a fork without the region: another thread of the parent may have held the lock. A thread that has it is
    /// at work, so none has it during [`Pager::fork`](crate::Pager::fork).
    fn policy(&self) -> Option<(MutexGuard<'_, Policy>, AtWork<'_>)> {
        if self.engine.is_forked() {
            return None;
        }
        let work = self.engine.work();
        Some((self.policy.lock().unwrap_or_else(PoisonError::into_inner), work))
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
        self.resume();
        self.end_working_set();
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

/// Keeps a range of a region present for this thread.
#[must_use = "dropping it ends the pin"]
pub struct CallPin<'r> {
    region: &'r Region,
    pin: Option<manager::Pin>,
    /// In a child of a fork of another thread, the slot of the pin is another one's.
    _this_thread: PhantomData<*const ()>,
}

impl<'r> CallPin<'r> {
    fn new(region: &'r Region, pin: Option<manager::Pin>) -> CallPin<'r> {
        CallPin {
            region,
            pin,
            _this_thread: PhantomData,
        }
    }
}

impl Drop for CallPin<'_> {
    fn drop(&mut self) {
        if let Some(pin) = self.pin {
            self.region.engine.unpin(pin);
        }
    }
}

impl std::fmt::Debug for CallPin<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallPin").finish_non_exhaustive()
    }
}

/// Calls `work`, and leaves `errno` as it was.
fn with_errno_kept<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: `errno` is this thread's.
    let errno = unsafe { *libc::__errno_location() };
    let result = work();
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    result
}

impl std::fmt::Debug for PinGuard<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PinGuard").finish_non_exhaustive()
    }
}
