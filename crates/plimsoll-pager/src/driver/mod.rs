//! The hands of the manager: it decides, a driver acts on page tables.
//!
//! The real driver, `userfault`, makes ioctls of a userfaultfd. The simulated one, for tests, is a model of memory with
//! injected errors.

mod accesses;
mod by_copy;
mod pagemap;
mod uncounted;
mod userfault;

use std::ptr::NonNull;

use plimsoll_os::Errno;

use crate::page::{Page, PageIndex, PageRange};

pub use pagemap::Pagemap;
pub(crate) use userfault::{OpenError, Registered, Userfault};

/// The thread that resolves a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum FaultMode {
    /// The faulting thread, in a handler of SIGBUS. The fastest mode, and it needs no privilege. A system call that meets
    /// an absent page returns `EFAULT`, or fewer bytes than asked for.
    #[default]
    Signal,
    /// A thread of the pager, while the faulting thread waits: for programs that forbid signals or block SIGBUS. A fault is
    /// slower by the switch to that thread. System calls that meet an absent page wait for it too if the user has
    /// `CAP_SYS_PTRACE` or access to `/dev/userfaultfd`, or with `vm.unprivileged_userfaultfd=1`
    /// ([`Pager::serves_system_calls`](crate::Pager::serves_system_calls)); otherwise they return `EFAULT`, as in the mode
    /// of signals.
    Thread,
}

/// The ways in which a driver acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DriverOptions {
    pub(crate) fault_mode: FaultMode,
    /// Whether pages are moved by copies though the kernel can move them.
    pub(crate) without_move: bool,
    /// The address of the arena, a multiple of a chunk; none if the kernel picks one.
    pub(crate) arena: Option<usize>,
}

/// One of the two ranges of addresses that a driver manages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Area {
    /// The memory that the program uses.
    Arena,
    /// The frames of trimmed pages, at the same indices.
    Shadow,
}

/// The result of a call that the kernel may end early: the pages that were done, and the reason why not all were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) struct Partial {
    /// Pages done, from the first one on.
    pub(crate) done: u32,
    /// The error that ended the call. The kernel reports a partial call as [`Errno::AGAIN`], whatever its cause; a second
    /// call for the rest reports the cause.
    pub(crate) stopped: Option<Errno>,
}

/// The accesses to a range of the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Accesses {
    /// Bytes of its present pages.
    pub(crate) present: u64,
    /// Bytes of those that were accessed.
    pub(crate) accessed: u64,
}

/// Acts on page tables. No function allocates, takes a lock of the C library, or changes `errno`, so that a signal handler
/// may call all of them.
///
/// The callers hold the pages busy, except where a function says otherwise.
pub(crate) trait Driver: Send + Sync {
    /// Makes `pages` of both areas accessible: absent, and native in the arena. No page needs to be busy.
    fn open(&self, pages: PageRange) -> Result<(), Errno>;

    /// Ends the work of [`Driver::open`] and [`Driver::register`]: the contents are gone, and an access raises SIGSEGV.
    fn close(&self, pages: PageRange) -> Result<(), Errno>;

    /// Makes faults on `pages` of the arena come to the pager. No page needs to be busy.
    fn register(&self, pages: PageRange) -> Result<(), Errno>;

    /// Ends [`Driver::register`] of `pages`, all of which are absent. After an error, a part may be registered. No page needs to be
    /// busy.
    fn unregister(&self, pages: PageRange) -> Result<(), Errno>;

    /// Has the threads that wait for a fault on `page` of the arena touch it again. No page needs to be busy.
    fn wake(&self, page: PageIndex);

    /// Takes `pages` of the arena, fresh memory that the program mapped there, in one chunk, as those of an open region: their
    /// faults come to the pager. `is_apart` repeats [`Driver::set_apart`]. No page needs to be busy.
    fn renew(&self, pages: PageRange, is_apart: bool) -> Result<(), Errno>;

    /// Moves the pages of `pages` from one area to the other, to the index `to` and the ones after it. Page tables change,
    /// bytes are not copied.
    ///
    /// Errors: `EBUSY` for a page that is shared by a fork or pinned by a device, `EAGAIN` for a partial call or a race,
    /// `ENOENT` for an absent source, `EEXIST` for a present destination, `EINVAL` for different mappings, `ENOMEM`.
    fn move_pages(&self, from: Area, pages: PageRange, to: PageIndex) -> Partial;

    /// Moves `page` of the arena to its frame slot by a copy: a page that the kernel does not move as the program may not write
    /// to it, or may execute it (`mprotect(2)`). Errors as those of [`Driver::move_pages`].
    fn copy_out(&self, page: PageIndex) -> Partial;

    /// Makes `page` of the arena, which is active, writable again if a move by copies left it write-protected.
    fn unblock(&self, page: PageIndex);

    /// Makes `page` of the arena, which is present, exclusive to this process if it is shared by a fork: then it can be moved. A
    /// page that a device has pinned is exclusive already.
    ///
    /// Errors: `EFAULT` for an absent page, `ENOMEM`.
    fn unshare(&self, page: PageIndex) -> Result<(), Errno>;

    /// Makes `page` of the arena present with these bytes.
    ///
    /// Errors: `EEXIST` if it is present, and for an absent page in a race with the release of its page table; `EAGAIN` in a
    /// race with a change of the mapping; `ENOMEM`, or `EFAULT` if the kernel has no frame for the source.
    fn copy(&self, page: PageIndex, bytes: &Page) -> Result<(), Errno> {
        self.copy_run(page, std::slice::from_ref(bytes))
            .stopped
            .map_or(Ok(()), Err)
    }

    /// Makes the pages of the arena from `first` on present with the bytes of `pages`, as [`Driver::copy`] does, in one call.
    fn copy_run(&self, first: PageIndex, pages: &[Page]) -> Partial;

    /// Ends all locks of the program that keep `pages` in RAM (`mlock(2)`).
    fn unlock(&self, pages: PageRange);

    /// Makes `pages` absent; their bytes are gone.
    fn discard(&self, area: Area, pages: PageRange) -> Result<(), Errno>;

    /// Marks the presence of each of `pages`. No page needs to be busy.
    fn present(&self, area: Area, pages: PageRange, present: &mut [bool]) -> Result<(), Errno>;

    /// The present pages of `pages` that another process maps too; 0 if the kernel does not tell. No page needs to be busy. Does not
    /// allocate.
    fn shared(&self, area: Area, pages: PageRange) -> u64;

    /// Whether the kernel moves pages, and no copies.
    fn moves(&self) -> bool;

    /// Whether a page is present; none if the kernel does not tell. The page need not be busy.
    fn presence(&self, area: Area, page: PageIndex) -> Option<bool> {
        let mut present = [false];
        let listed = self.present(area, PageRange::new(page, 1), &mut present);
        listed.ok().map(|()| present[0])
    }

    /// Makes the kernel keep the accesses to `pages` of the arena, a registered chunk, apart from those to its neighbours. No
    /// page needs to be busy.
    ///
    /// Errors: `ENOMEM` if the process has too many mappings, `EOPNOTSUPP` where the driver cannot.
    fn set_apart(&self, pages: PageRange) -> Result<(), Errno>;

    /// Forgets all accesses to `pages` of the arena so far. No page needs to be busy.
    ///
    /// Errors: `EINVAL` if the program has locked a part of them in RAM, or on a kernel that cannot.
    fn forget_accesses(&self, pages: PageRange) -> Result<(), Errno>;

    /// Calls `each` with ranges of the arena and the accesses to them since [`Driver::forget_accesses`]. It may allocate: it is
    /// for a thread of the pager.
    ///
    /// # Errors
    /// The kernel does not tell.
    fn accesses(&self, each: &mut dyn FnMut(PageRange, Accesses)) -> Result<(), Errno>;

    /// Touches `pages` of the arena, so that all are present; they may be native. No page may be busy by this thread.
    fn populate(&self, pages: PageRange);

    /// Makes native `pages` of the arena present as far as the program may write to them, without touching them. Returns whether
    /// all are present. No page needs to be busy.
    fn populate_native(&self, pages: PageRange) -> bool;

    /// The address of a page. Reading or writing it is valid while it is present and the caller alone uses it.
    fn address(&self, area: Area, page: PageIndex) -> NonNull<Page>;
}

#[cfg(all(test, not(loom)))]
pub(crate) mod simulated;
