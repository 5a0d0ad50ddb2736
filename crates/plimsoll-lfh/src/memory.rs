//! The pages under the heaps: every reservation, and every change of them, is a call of this module.
//!
//! They are the kernel's, or those of a [`Memory`] that the program sets before the first call: for a process in which a
//! pager manages memory. A page that the pager compressed is absent for the kernel: `MADV_DONTNEED` leaves its contents,
//! where the heaps rely on zeros, and `mremap(2)` moves nothing. So the heaps make no system call of their own on memory
//! of a `Memory`.
//!
//! # Heaps over a `Memory`
//!
//! - All memory of heaps is managed: blocks, and with them the window's tables, the heaps' records and the affinity slots.
//!   None of it has to be present at any moment; [`Memory::keep`] names the part that had better be.
//! - The heaps ask the kernel about no page (`mincore(2)`, pagemap): the absent pages of a subsegment are those that the
//!   purge discarded, by the heap's own account.
//! - A long block that is resized is copied in pieces, each of which is discarded right after: its pages are not moved.
//! - Huge pages are the `Memory`'s affair, and RLIMIT_AS is that of its addresses: the heaps neither advise nor look.
//! - The purge has no helper thread, which has no part of the C library that a handler of faults may use. Slow calls take
//!   its steps, and [`Heap::end_purge_period`](crate::Heap::end_purge_period) does for a thread of the program.
//! - Readers from outside, and the walk over a hardened heap, read through the kernel: for them an absent page is
//!   unreadable, if the pager serves no faults of system calls.
//!
//! # Faults
//!
//! A fault may come at any access of a heap, with any lock of the heaps held. Its handler must not use a heap, nor wait
//! for a thread that may. It may come in a restartable sequence, too: see `affinity::rseq` for why that ends.
//!
//! System calls of heaps on managed memory are `futex(2)` alone, on the words of locks. A wait for a word in an absent page
//! fails with `EFAULT`, and the thread then accesses the word and tries again; a wake does not read the word.
//!
//! Invariants:
//! 1. No other module of this crate changes mappings. Checked by `one_module_changes_pages`.
//! 2. Over a `Memory`, no system call that changes mappings reaches its addresses. Checked by
//!    `plain_calls_on_managed_memory_end_the_process`, in whose test program every heap is over one.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

use plimsoll_os::address_space;
pub use plimsoll_os::address_space::Access;
use plimsoll_os::{Advice, Errno};

/// Memory for the heaps of this process, in place of plain mappings.
///
/// Ranges are whole pages. The heaps call it in slow paths alone: with their locks held, in fork handlers and, where a
/// program allocates there, in signal handlers. So a call neither uses a heap of this process nor waits for a thread that
/// may be in one. Calls on ranges apart come from several threads at a time.
///
/// # Forks
///
/// A fork may call [`Memory::discard`] from [`Heap::before_fork`](crate::Heap::before_fork), and handlers of other
/// libraries that allocate between that and the end of the fork may call any function. Code that prepares its pages for a
/// fork does so after `before_fork`, and restores them before `after_fork_in_parent` and `after_fork_in_child`.
///
/// `before_fork` waits for threads that are in [`Memory::reserve`] and [`Memory::release`], but not for all that are in
/// [`Memory::set_access`] and [`Memory::discard`]: a lock of these may be held by a thread that the child does not have.
pub trait Memory: Sync {
    /// Bytes of the window, in which all blocks and tables of all heaps lie: [`LEAST_WINDOW`](crate::LEAST_WINDOW) to
    /// `most`, which is 256 GiB. The tables in front of the first block take 17 GiB of it, whatever its length; few pages of
    /// them are ever used. Memory of other code may lie right behind the window. Called before the window is reserved.
    fn window_bytes(&self, most: usize) -> usize {
        most
    }

    /// Reserves `length` bytes of addresses that nothing uses: inaccessible, and zero once they are accessible. None if
    /// there is no room.
    ///
    /// The first is the window, with 4 MiB around it; the others are the affinity slots of heaps, of which few become
    /// writable.
    fn reserve(&self, length: usize) -> Option<usize>;

    /// Returns a whole range of [`Memory::reserve`].
    ///
    /// # Safety
    /// No thread uses the range.
    unsafe fn release(&self, start: usize, length: usize);

    /// Sets the rights of the program to a range; its contents stay.
    ///
    /// Most ranges become accessible once, and never again inaccessible. A hardened heap makes single pages inaccessible
    /// and accessible again, as guards behind its large blocks; without them, if this is an error.
    ///
    /// # Errors
    /// An error if that cannot be: the heaps have no memory there, and the call that needed it returns null.
    ///
    /// # Safety
    /// The range is within one of [`Memory::reserve`]; no thread uses it in a way that `access` forbids.
    unsafe fn set_access(&self, start: usize, length: usize, access: Access) -> Result<(), Errno>;

    /// Drops the contents of a range, which reads as zero afterwards, and frees its pages.
    ///
    /// # Errors
    /// An error if pages cannot be freed, as some are locked: any of them may be zero or as they were, and the heaps
    /// write zeros where they need them.
    ///
    /// # Safety
    /// The range is within one of [`Memory::reserve`], and the rights to it stay; no thread uses its contents.
    unsafe fn discard(&self, start: usize, length: usize) -> Result<(), Errno>;

    /// Advises that a range be present all the time: the locks of a heap are in it, and while their holder waits for its
    /// page, others wait for the lock. The range is writable, and never released. A `Memory` may ignore it.
    ///
    /// These are the directory, a page, and the record of each heap, 64 KiB.
    fn keep(&self, start: usize, length: usize) {
        let _ = (start, length);
    }
}

/// The `Memory` of this process; see [`IS_SET`].
struct Managed(UnsafeCell<Option<&'static dyn Memory>>);

// SAFETY: `set_memory` writes it before `IS_SET`, by its premise before any thread uses a heap; from then on it is read
// alone.
unsafe impl Sync for Managed {}

static MANAGED: Managed = Managed(UnsafeCell::new(None));
/// Whether [`MANAGED`] is written: from then on it does not change.
static IS_SET: AtomicBool = AtomicBool::new(false);

/// Makes `memory` that of all heaps of this process, in place of plain mappings. See [`Memory`].
///
/// # Safety
/// - It is called once, before the first use of a heap: no thread uses one meanwhile, an allocator included.
/// - `memory` does as its trait says, for the rest of the process's life and in its children.
/// - The functions of `memory` and, if accesses to its pages fault, the handler of these faults use no heap of this
///   process, and do not wait for a thread that may.
pub unsafe fn set_memory(memory: &'static dyn Memory) {
    debug_assert!(!is_managed(), "the heaps have a memory already");
    // SAFETY: the caller's premise: no other thread reads or writes it.
    unsafe { *MANAGED.0.get() = Some(memory) };
    IS_SET.store(true, Ordering::Release);
}

fn managed() -> Option<&'static dyn Memory> {
    if !IS_SET.load(Ordering::Acquire) {
        return None;
    }
    // SAFETY: written before `IS_SET`, and never again.
    unsafe { *MANAGED.0.get() }
}

/// Whether the heaps are over a [`Memory`].
pub(crate) fn is_managed() -> bool {
    IS_SET.load(Ordering::Acquire)
}

/// Bytes of the window, at most `most`.
pub(crate) fn window_bytes(most: usize) -> usize {
    managed().map_or(most, |memory| memory.window_bytes(most).min(most))
}

/// Whether the address space of heaps is limited (RLIMIT_AS): that of a [`Memory`] is reserved already.
pub(crate) fn is_limited() -> bool {
    !is_managed() && address_space::limit().is_some()
}

/// Reserves `length` bytes, inaccessible. None if there is no room.
pub(crate) fn reserve(length: usize) -> Option<usize> {
    match managed() {
        Some(memory) => memory.reserve(length),
        None => address_space::reserve(length).ok(),
    }
}

/// Reserves `length` bytes, readable, writable and zero. None if no memory is left.
pub(crate) fn map(length: usize) -> Option<usize> {
    let Some(memory) = managed() else {
        return address_space::map(length).ok();
    };
    let start = memory.reserve(length)?;
    // SAFETY: the range was reserved a moment ago, and no other thread knows it.
    unsafe {
        if memory.set_access(start, length, Access::Write).is_ok() {
            return Some(start);
        }
        memory.release(start, length);
    }
    None
}

/// Maps `length` bytes at exactly `start`, zero, if nothing is mapped there: only for heaps over plain mappings.
///
/// # Errors
/// As [`address_space::map_unused`].
pub(crate) fn map_unused(start: usize, length: usize, access: Access) -> Result<(), Errno> {
    debug_assert!(!is_managed(), "its addresses are reserved");
    address_space::map_unused(start, length, access)
}

/// Returns a range: a whole one of [`reserve`] or [`map`], or a part if the heaps are over plain mappings.
///
/// # Safety
/// The range is the caller's, and no thread uses it.
pub(crate) unsafe fn release(start: usize, length: usize) {
    // SAFETY: the caller's premise.
    unsafe {
        match managed() {
            Some(memory) => memory.release(start, length),
            // The kernel may have no room for the parts around it: then it stays, unused.
            None => _ = address_space::unmap(start, length),
        }
    }
}

/// Sets the rights of the program to a range. Former contents stay; new pages are zero.
///
/// # Errors
/// As [`address_space::set_access`] or [`Memory::set_access`].
///
/// # Safety
/// The range is whole pages of heaps, and the caller's; no thread uses it in a way that `access` forbids.
pub(crate) unsafe fn set_access(start: usize, length: usize, access: Access) -> Result<(), Errno> {
    // SAFETY: the caller's premise.
    unsafe {
        match managed() {
            Some(memory) => memory.set_access(start, length, access),
            None => address_space::set_access(start, length, access),
        }
    }
}

/// Frees the pages of a range at once; they read as zero afterwards.
///
/// # Errors
/// An error if pages are locked: then any of them may be zero.
///
/// # Safety
/// The range is whole pages of heaps, and the caller's; no code relies on its contents.
pub(crate) unsafe fn discard(start: usize, length: usize) -> Result<(), Errno> {
    // SAFETY: the caller's premise.
    unsafe {
        match managed() {
            Some(memory) => memory.discard(start, length),
            None => address_space::discard(start, length),
        }
    }
}

/// Moves pages from one range to another, and leaves zeros: only for heaps over plain mappings.
///
/// # Errors
/// As [`address_space::move_pages`].
///
/// # Safety
/// As for [`address_space::move_pages`].
pub(crate) unsafe fn move_pages(from: usize, to: usize, length: usize) -> Result<(), Errno> {
    debug_assert!(!is_managed(), "a `Memory` moves no pages");
    // SAFETY: the caller's premise.
    unsafe { address_space::move_pages(from, to, length) }
}

/// As [`Memory::keep`].
pub(crate) fn keep(start: usize, length: usize) {
    if let Some(memory) = managed() {
        memory.keep(start, length);
    }
}

/// Requests huge pages under a range. Whether the kernel takes the advice.
pub(crate) fn use_huge_pages(start: usize, length: usize) -> bool {
    !is_managed() && address_space::advise(start, length, Advice::HugePage).is_ok()
}

/// Requests base pages under a range: a system that always uses huge pages would back each block with one.
pub(crate) fn use_base_pages(start: usize, length: usize) {
    if !is_managed() {
        let _ = address_space::advise(start, length, Advice::NoHugePage);
    }
}
