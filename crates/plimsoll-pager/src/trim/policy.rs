//! Policies of regions: the standby priority of pages, contents that may be lost, and suspended regions.

use crate::backing::Backing;
use crate::driver::Driver;
use crate::manager::Manager;
use crate::page::{CHUNK_PAGES, Locked, PageIndex, PageRange, PageState, Word, ZERO_PAGE};

impl<D: Driver, B: Backing> Manager<D, B> {
    /// Sets the standby priority of pages that are trimmed from now on, and that of trimmed pages. Pages whose contents may
    /// be lost keep theirs, the lowest.
    pub(crate) fn set_priority(&self, pages: PageRange, priority: u8) {
        for piece in pages.pieces(CHUNK_PAGES) {
            let chunk = self.chunks.with_record(piece.first.number() / CHUNK_PAGES);
            chunk.set_priority(priority);
            let touched = if chunk.is_touched() { piece.count } else { 0 };
            for page in PageRange::new(piece.first, touched).pages() {
                let seen = self.table.word(page).load();
                // A page that is busy now, or trimmed later, gets the priority of its chunk.
                if seen.state().has_frame()
                    && seen.priority() != Word::LOWEST_PRIORITY
                    && let Some(locked) = self.table.word(page).try_lock(seen)
                {
                    self.relabel(locked, priority);
                }
            }
        }
    }

    /// Unlocks a page as it was, with another standby priority.
    fn relabel(&self, locked: Locked<'_>, priority: u8) {
        let before = locked.before();
        if before.state() == PageState::Standby {
            self.counters.count_priority(before.priority(), priority);
        }
        locked.keep_with_priority(priority);
    }

    /// Gives the contents of `pages` up: they stay while their frames are not needed, then the pages read as zero. Returns
    /// the pages that were given up.
    pub(crate) fn reset(&self, pages: PageRange) -> u32 {
        self.trim_range(pages);
        let pages = self.chunks.pieces(pages).flat_map(PageRange::pages);
        pages.filter(|page| self.reset_page(*page)).count() as u32
    }

    /// A trimmed page becomes standby, with zeros for a saved copy: its frame is free to take, the first of all. A page
    /// without a frame is dropped.
    fn reset_page(&self, page: PageIndex) -> bool {
        let word = self.table.word(page);
        let seen = word.load();
        let state = seen.state();
        if !(state.has_frame() || state.is_evicted()) {
            return false;
        }
        // A page that is busy is in use.
        let Some(locked) = word.try_lock(seen) else {
            return false;
        };
        if state.is_evicted() {
            self.drop_contents(page, locked);
            return true;
        }
        // A same-filled page needs no memory of the store.
        let Ok(zeros) = self.backing.put(page, &ZERO_PAGE) else {
            return false;
        };
        if let Some(place) = locked.place() {
            self.backing.free(page, place);
        }
        if state == PageState::Standby {
            self.counters
                .count_priority(seen.priority(), Word::LOWEST_PRIORITY);
        } else {
            self.count(page, state, PageState::Standby, Word::LOWEST_PRIORITY);
        }
        locked.reset(zeros);
        true
    }

    /// Trims a region whole, and has its frames taken before those of others. Its pages return by faults.
    pub(crate) fn suspend(&self, pages: PageRange) {
        self.set_priority(pages, Word::SUSPENDED_PRIORITY);
        self.trim_range(pages);
        self.save_range(pages);
        // The pool takes the grant from now on, and with it the room of the store.
        self.regions.suspend(pages.count);
    }

    /// Ends [`Manager::suspend`]: the pages have `priority` again.
    pub(crate) fn resume(&self, pages: PageRange, priority: u8) {
        self.regions.resume(pages.count);
        self.set_priority(pages, priority);
    }
}
