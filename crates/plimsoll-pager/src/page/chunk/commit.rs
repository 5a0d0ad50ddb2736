//! Committed chunks: those of sparse regions that are native; and announced ones, which a fault may commit.
//!
//! The program announces a chunk by a commit of at least half of it, and withdraws that when it decommits any of it. A chunk
//! that is announced and has no record is committed by the first fault on it while at most half of the pool is in use.
//!
//! A chunk of a sparse region becomes committed, and managed or without a record again:
//!
//! ```text
//!               begin_commit               end_commit
//!  no record ------------------> changing ------------> native
//!   |    ^                        |    ^                  |
//!   |    '------------------------'    '------------------'
//!   |            end_release      |       begin_release
//!   | with_record                 | abort_commit, Manager::manage
//!   '-------------> managed <-----'
//! ```

use std::sync::atomic::Ordering;

use super::{ChunkMode, ChunkTable, number_of};
use crate::page::{CHUNK_PAGES, PageRange};

impl ChunkTable {
    /// Native chunks of sparse regions.
    pub(crate) fn committed(&self) -> u32 {
        self.committed.load(Ordering::Relaxed)
    }

    /// The chunks that `pages` touch and that may be committed: those of a sparse region without a record.
    pub(crate) fn uncommitted(&self, pages: PageRange) -> impl Iterator<Item = u32> {
        let chunks = number_of(pages.first)..pages.end().div_ceil(CHUNK_PAGES);
        chunks.filter(|number| self.sparse().has(*number) && !self.has_record(*number))
    }

    /// Announces the chunks of which `pages` are at least a half.
    pub(crate) fn announce(&self, pages: PageRange) {
        const HALF: u32 = CHUNK_PAGES / 2;
        if pages.count >= HALF {
            let first = (pages.first.number() + HALF - 1) / CHUNK_PAGES;
            let end = (pages.end() + HALF) / CHUNK_PAGES;
            self.announced().insert_all(first, end);
        }
    }

    /// Ends the announcement of the chunks that `pages` touch.
    pub(crate) fn withdraw(&self, pages: PageRange) {
        let end = pages.end().div_ceil(CHUNK_PAGES);
        self.announced().remove_all(number_of(pages.first), end);
    }

    /// Whether a chunk is announced, and belongs to a sparse region without a record of it.
    pub(crate) fn awaits_commit(&self, number: u32) -> bool {
        self.announced().has(number) && self.sparse().has(number) && !self.has_record(number)
    }

    /// Begins to commit a chunk. Returns false if it has a record already. No page of it gets a state until
    /// [`ChunkTable::end_commit`] or [`ChunkTable::abort_commit`].
    pub(crate) fn begin_commit(&self, number: u32) -> bool {
        if !self.sparse().has(number) {
            return false;
        }
        self.note_resident(number);
        let is_begun = self.all()[number as usize].change_mode(ChunkMode::Unused, ChunkMode::Changing);
        if is_begun {
            // From the end of its registration on, the kernel may make pages present: a thread that drops them finds the chunk.
            self.used().insert(number);
        }
        is_begun
    }

    /// Makes a chunk native whose registration has ended.
    pub(crate) fn end_commit(&self, number: u32) {
        self.committed.fetch_add(1, Ordering::Relaxed);
        self.all()[number as usize].change_mode(ChunkMode::Changing, ChunkMode::Native);
    }

    /// Makes a chunk managed whose registration was not ended.
    pub(crate) fn abort_commit(&self, number: u32) {
        self.all()[number as usize].change_mode(ChunkMode::Changing, ChunkMode::Managed);
    }

    /// Begins to take the record from a committed chunk with the policy of a new region. Returns whether it is one. No page of it
    /// gets a state meanwhile.
    pub(crate) fn begin_release(&self, number: u32) -> bool {
        let chunk = &self.all()[number as usize];
        self.sparse().has(number)
            && chunk.has_default_policy()
            && chunk.change_mode(ChunkMode::Native, ChunkMode::Changing)
    }

    /// Takes the record from a chunk that is registered again, and none of whose pages is present.
    pub(crate) fn end_release(&self, number: u32) {
        self.note_managed(number);
        self.used().remove(number);
        self.all()[number as usize].close();
    }

    /// Notes that a native chunk is none any more.
    pub(crate) fn note_managed(&self, number: u32) {
        if self.sparse().has(number) {
            self.committed.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether a chunk without present pages may lose its record.
    pub(crate) fn may_lose_record(&self, number: u32) -> bool {
        self.sparse().has(number) && self.all()[number as usize].has_default_policy()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::page::PageIndex;

    fn pages(first: u32, count: u32) -> PageRange {
        PageRange::new(PageIndex::new(first), count)
    }

    #[test]
    fn a_chunk_is_committed_or_has_pages_of_its_own() {
        let chunks = ChunkTable::new(8 * CHUNK_PAGES).expect("addresses");
        chunks.open_sparse(pages(CHUNK_PAGES, 6 * CHUNK_PAGES));
        chunks.with_record(3);
        let uncommitted = |first, count| chunks.uncommitted(pages(first, count)).collect::<Vec<_>>();
        assert_eq!(uncommitted(0, 8 * CHUNK_PAGES), [1, 2, 4, 5, 6]);
        assert_eq!(uncommitted(2 * CHUNK_PAGES - 1, 2), [1, 2]);
        assert!(chunks.begin_commit(2) && chunks.begin_commit(4) && !chunks.begin_commit(2));
        assert!(!chunks.begin_commit(0) && !chunks.begin_commit(3));
        // A fault meanwhile does not make it managed.
        assert_eq!(chunks.with_record(2).mode(), ChunkMode::Changing);
        assert!(chunks.has_record(2));
        chunks.end_commit(2);
        chunks.abort_commit(4);
        assert_eq!(
            (chunks.mode(2), chunks.mode(4)),
            (ChunkMode::Native, ChunkMode::Managed)
        );
        assert_eq!((chunks.committed(), uncommitted(0, 4096)), (1, vec![1, 5, 6]));
        assert!(!chunks.begin_release(4) && chunks.begin_release(2));
        chunks.end_release(2);
        assert_eq!((chunks.mode(2), chunks.committed()), (ChunkMode::Managed, 0));
        assert!(!chunks.has_record(2) && chunks.begin_commit(2));
        chunks.end_commit(2);
        chunks.with_record(2).set_priority(1);
        assert!(!chunks.begin_release(2), "the policy would be lost");
    }

    #[test]
    fn a_chunk_is_announced_by_half_of_it_until_a_part_is_withdrawn() {
        let chunks = ChunkTable::new(8 * CHUNK_PAGES).expect("addresses");
        chunks.open_sparse(pages(CHUNK_PAGES, 6 * CHUNK_PAGES));
        let announced = || {
            (0..8)
                .filter(|number| chunks.awaits_commit(*number))
                .collect::<Vec<_>>()
        };
        let half = CHUNK_PAGES / 2;
        chunks.announce(pages(2 * CHUNK_PAGES, half - 1));
        chunks.announce(pages(2 * CHUNK_PAGES + 1, half - 1));
        assert!(announced().is_empty());
        chunks.announce(pages(2 * CHUNK_PAGES + 7, half));
        assert_eq!(announced(), [2]);
        // A bit less than half of the first one and half of the last one, which is in no region.
        chunks.announce(pages(3 * CHUNK_PAGES + half + 1, 4 * CHUNK_PAGES));
        assert_eq!(announced(), [2, 4, 5, 6]);
        chunks.announce(pages(3 * CHUNK_PAGES + half, half));
        chunks.with_record(5);
        assert_eq!(announced(), [2, 3, 4, 6]);
        chunks.withdraw(pages(4 * CHUNK_PAGES - 1, 2));
        assert_eq!(announced(), [2, 6]);
        chunks.close(5);
        chunks.close_sparse(pages(CHUNK_PAGES, 6 * CHUNK_PAGES));
        chunks.open_sparse(pages(CHUNK_PAGES, 6 * CHUNK_PAGES));
        assert!(announced().is_empty(), "by a region that was closed");
    }
}
