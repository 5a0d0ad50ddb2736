//! The interface of the compressed store and the page file to the manager.

use std::ops::Range;

use plimsoll_os::Errno;

use crate::page::{Page, PageIndex, Place, Tier};
use crate::page_file;

/// A saved copy that cannot be read back as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damaged {
    /// Its checksum differs, or its entry is no valid one.
    #[error("cannot restore a page: its saved copy is damaged")]
    Checksum,
    /// The page file cannot be read; `EBADMSG` if the bytes on the disk are not those that were written.
    #[error("cannot restore a page from the page file: {0}; check the disk")]
    File(Errno),
}

/// The reason why a copy of a page was not saved. The page keeps its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PutError {
    /// The store holds as much as it may.
    #[error("cannot save a page: the store is full")]
    Full,
    /// Too many threads save at the moment.
    #[error("cannot save a page: too many threads do at the moment")]
    Busy,
}

/// Keeps saved copies of pages. No function allocates from the heap; `get` and `free` take no lock that their own thread
/// may hold already when a signal interrupts it.
///
/// The manager calls `put`, `get` and `free` for a page only while it holds the page busy.
pub(crate) trait Backing: Send + Sync {
    /// Saves a copy of `page`, the contents of the page `owner`.
    fn put(&self, owner: PageIndex, page: &Page) -> Result<Place, PutError>;

    /// Restores the copy of `owner` at `place`, whose checksum it verifies.
    fn get(&self, owner: PageIndex, place: Place, page: &mut Page) -> Result<(), Damaged>;

    /// Has the processor fetch the copy at `place`, which is to be read soon. A hint.
    fn expect(&self, _place: Place) {}

    /// Restores the copies of the pages from `first` on, one of `places` each, until one fails: their number. What is read
    /// or decompressed for several of them is so once.
    fn get_run(&self, first: PageIndex, places: &[Place], pages: &mut [Page]) -> usize {
        let copies = (0..).zip(places.iter().zip(pages));
        let read = copies.map_while(|(n, (place, page))| self.get(first.plus(n), *place, page).ok());
        read.count()
    }

    /// Frees the copy of `owner` at `place`.
    fn free(&self, owner: PageIndex, place: Place);

    /// The tier of the copy at `place`.
    fn tier(&self, place: Place) -> Tier;

    /// Moves copies together, so that space becomes free: about `bytes` of them. `relocate` is called with the owner of a
    /// copy, its old place and its new one, and returns whether it changed the owner's word. Returns whether anything was
    /// freed.
    fn clean(&self, bytes: u64, relocate: &mut dyn FnMut(PageIndex, Place, Place) -> bool) -> bool;

    /// A number that no other page's copy has; none for a value of a same-filled page.
    fn identity(&self, owner: PageIndex, place: Place) -> Option<u64>;

    /// Bytes of RAM that store and page file occupy: segments, headers, tables and buffers.
    fn used_bytes(&self) -> u64;

    /// Those of them that stay in use without any copy: tables and buffers.
    fn fixed_bytes(&self) -> u64 {
        0
    }

    /// Addresses of the copies in RAM: whole pages.
    fn addresses(&self) -> Range<usize> {
        0..0
    }

    /// Changes the most bytes that the store may use for new copies; those above stay.
    fn set_limit(&self, bytes: u64);

    /// The copies in RAM, if there is a page file that takes some of them now.
    fn spillable(&self) -> Option<Spillable> {
        None
    }

    /// Moves the copies that were idle longest to the page file, about `bytes` of them, and waits for the disk. For one
    /// thread at a time; it never waits for another one.
    fn spill(&self, _bytes: u64, _owners: &dyn Owners) -> Room {
        Room::None
    }

    /// Work for each second: copies become older, and those that were idle for a while are compressed again. Bounded.
    fn age(&self, _owners: &dyn Owners) {}

    /// The first invariant of store or page file that does not hold. For a time when no thread changes copies; what another
    /// thread uses at the moment is not checked.
    fn broken_invariant(&self) -> Option<&'static str> {
        None
    }

    /// Prepares a fork with a child that has a copy of this value. No other thread uses it until [`Backing::end_fork`].
    ///
    /// # Errors
    /// The process can open no further descriptor.
    fn begin_fork(&self) -> Result<(), Errno> {
        Ok(())
    }

    /// Ends a fork in the parent, also one that failed, or in the child.
    fn end_fork(&self, _is_child: bool) {}

    /// Ends the use of the page files: of the parents' in a child, and of the file that is not created yet.
    fn leave(&self) {}

    /// Creates a deferred page file if a thread waits for it. The calling thread, which runs no signal handler, calls this at
    /// each wake-up, and may also create the file when it spills.
    fn poll_page_file(&self) {}

    /// A thread that will call [`Backing::poll_page_file`] has started: spills may wait for it.
    fn expect_page_file(&self) {}

    /// No thread of this process will call [`Backing::poll_page_file`], because of an error: refuses the creation of a deferred
    /// page file, and closes it. [`Backing::page_file`] has the error.
    fn refuse_page_file(&self, _errno: Errno) {}

    /// Counters of the page file, if there is one.
    fn page_file(&self) -> Option<PageFileUse> {
        None
    }
}

/// The owners of saved copies: the words of their pages.
pub(crate) trait Owners {
    /// Changes the word of `owner` from the place `old` to `new`, if it names `old` and is not locked. Returns whether it did.
    fn relocate(&self, owner: PageIndex, old: Place, new: Place) -> bool;

    /// Whether the word of `owner` names `place`, and is not locked.
    fn names(&self, owner: PageIndex, place: Place) -> bool;
}

/// Counters of a page file. In a forked child they include the files of the processes above, which it only reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageFileUse {
    /// Its ability to write. A failure lasts: no copy leaves RAM any more, and none is lost.
    pub state: page_file::State,
    /// The largest size of all files, or of the deferred file if there is no other.
    pub bytes: u64,
    /// Bytes of segments in all files.
    pub used_bytes: u64,
    /// Bytes of the disk: of the process's own file, or of the nearest process above while it has none.
    pub allocated_bytes: u64,
    /// Bytes written since the pager was built.
    pub written_bytes: u64,
    /// Bytes read since the pager was built.
    pub read_bytes: u64,
    /// Writes that failed: 0 or 1, as nothing is written after one.
    pub write_failures: u64,
    /// Reads that the kernel refused, or that yielded other bytes than those written.
    pub read_failures: u64,
}

/// Copies in RAM that can move to a page file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spillable {
    /// Bytes of the store.
    pub(crate) used: u64,
    /// The bytes at which it refuses pages.
    pub(crate) most: u64,
    /// Bytes of a write.
    pub(crate) write: u64,
}

/// The result of [`Backing::spill`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// Copies moved: RAM is free.
    Made,
    /// Another thread moves copies at the moment.
    Busy,
    /// The thread of [`Backing::poll_page_file`] will create a page file once it is woken.
    Pending,
    /// There is no page file, or it takes no more, or nothing is there to move.
    None,
}

#[cfg(all(test, not(loom)))]
pub(crate) mod model;
