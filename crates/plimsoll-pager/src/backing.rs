//! The interface of the compression store and the page file to the manager.

use plimsoll_os::Errno;

use crate::page::{Page, PageIndex, Place, Tier};

/// A saved copy that cannot be read back as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damaged {
    /// Its checksum differs, or its entry is no valid one.
    #[error("cannot restore a page: its saved copy is damaged")]
    Checksum,
    /// The page file cannot be read.
    #[error("cannot restore a page from the page file: {0}")]
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

    /// Frees the copy of `owner` at `place`.
    fn free(&self, owner: PageIndex, place: Place);

    /// The tier of the copy at `place`.
    fn tier(&self, place: Place) -> Tier;

    /// Moves copies together, so that space becomes free: about `bytes` of them. `relocate` is called with the owner of a
    /// copy, its old place and its new one, and returns whether it changed the owner's word. Returns whether anything was
    /// freed.
    fn clean(&self, bytes: u64, relocate: &mut dyn FnMut(PageIndex, Place, Place) -> bool) -> bool;

    /// Whether the copy at `place` is one entry that only one page may have; a value of a same-filled page is not.
    fn is_exclusive(&self, place: Place) -> bool;

    /// Bytes of RAM that the store occupies: segments, headers and tables.
    fn used_bytes(&self) -> u64;

    /// Changes the most bytes that the store may use for new copies; those above stay.
    fn set_limit(&self, bytes: u64);
}

#[cfg(all(test, not(loom)))]
pub(crate) mod model;
