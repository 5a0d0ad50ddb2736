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
#[non_exhaustive]
pub enum PutError {
    /// The store holds as much as it may.
    #[error("cannot save a page: the store is full")]
    Full,
    /// The page does not shrink, and no page file could take it.
    #[error("cannot save a page: it does not compress")]
    Incompressible,
}

/// Keeps saved copies of pages. No function allocates from the heap; `get` and `free` take no lock that their own thread
/// may hold already when a signal interrupts it.
///
/// The manager calls `put`, `get` and `free` for a page only while it holds the page busy.
pub(crate) trait Backing: Send + Sync {
    /// Saves a copy of `page`, the contents of the page `owner`.
    fn put(&self, owner: PageIndex, page: &Page) -> Result<Place, PutError>;

    /// Restores the copy at `place`, whose checksum it verifies.
    fn get(&self, place: Place, page: &mut Page) -> Result<(), Damaged>;

    /// Frees the copy at `place`.
    fn free(&self, place: Place);

    /// The tier of the copy at `place`.
    fn tier(&self, place: Place) -> Tier;

    /// Bytes of RAM that the store occupies: segments, headers and tables.
    fn used_bytes(&self) -> u64;
}
