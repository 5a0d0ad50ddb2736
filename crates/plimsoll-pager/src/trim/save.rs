//! Saving: from modified to standby through the store.

use crate::backing::{Backing, PutError};
use crate::driver::Driver;
use crate::manager::{BLOCK, Event, Manager};
use crate::page::{Chunk, PageIndex, PageRange, PageState};

/// The result of an attempt to save one page.
enum Save {
    Saved,
    /// The page is not modified, or too many threads save.
    Passed,
    /// The store refuses every page.
    Full,
}

impl<D: Driver, B: Backing> Manager<D, B> {
    /// Saves up to `want` modified pages, in the order of the save hand: one lap at most.
    ///
    /// While the budget is exceeded, the frames of saved pages are released at once.
    pub(crate) fn save_modified(&self, want: u32) -> Saves {
        let mut lap = self.save_hand.lap(self.extent());
        let mut saves = Saves::default();
        while saves.pages < want {
            let has_modified = |chunk: &Chunk| chunk.pages_in(PageState::Modified) > 0;
            let block = lap.next(|chunk| self.chunks.find(chunk, has_modified));
            let Some(block) = block else { break };
            for page in block.pages() {
                match self.save_page(page) {
                    Save::Saved => saves.pages += 1,
                    Save::Passed => {}
                    Save::Full => {
                        saves.is_full = true;
                        return saves;
                    }
                }
                if saves.pages == want {
                    self.save_hand.stop_behind(page);
                    break;
                }
            }
        }
        saves
    }

    /// Saves the modified pages of `pages`. Returns the number saved.
    pub(crate) fn save_range(&self, pages: PageRange) -> u32 {
        let mut saved = 0;
        for page in self.chunks.pieces(pages).flat_map(PageRange::pages) {
            let mut save = self.save_page(page);
            while matches!(save, Save::Full) && self.make_room_or_clean() {
                save = self.save_page(page);
            }
            match save {
                Save::Saved => saved += 1,
                Save::Passed => {}
                Save::Full => break,
            }
        }
        saved
    }

    fn save_page(&self, page: PageIndex) -> Save {
        let Some(locked) = self.table.word(page).try_lock_in(PageState::Modified) else {
            return Save::Passed;
        };
        if !self.store_may_grow() {
            return Save::Full;
        }
        match self.with_frame(page, &locked, |frame| self.backing.put(page, frame)) {
            Ok(place) => {
                let priority = locked.before().priority();
                self.count(page, PageState::Modified, PageState::Standby, priority);
                locked.save(place);
                self.counters.add(Event::Saved, 1);
                if self.budget.excess(self.overhead_bytes()) > 0 {
                    self.release_range(PageRange::new(page, 1));
                }
                Save::Saved
            }
            Err(PutError::Busy) => Save::Passed,
            Err(PutError::Full) => {
                self.counters.add(Event::Refused, 1);
                Save::Full
            }
        }
    }

    /// Brings the resident bytes down to the budget: releases standby frames, and saves modified pages for more. Bounded:
    /// the budget may still be exceeded afterwards.
    pub(crate) fn settle(&self) {
        for _ in 0..BLOCK {
            let excess = self.budget.excess(self.overhead_bytes());
            if excess == 0 {
                return;
            }
            let want = excess.min(u64::from(BLOCK)) as u32;
            if self.release_standby(want) == 0 && self.reclaim() != Reclaim::Made {
                return;
            }
        }
    }

    /// In the per-fault mode: trims one page, saves it and releases its frame. Pages that another step left on the modified
    /// and standby lists go first, so that the lists stay empty.
    pub(crate) fn trim_one(&self) -> Reclaim {
        if self.release_standby(1) > 0 {
            return Reclaim::Made;
        }
        let mut saves = self.save_modified(1);
        if saves.pages == 0 && !saves.is_full && self.trim_active(1) > 0 {
            saves = self.save_modified(1);
        }
        // Above the budget, the save released the frame by itself.
        self.release_standby(1);
        saves.result()
    }

    /// Makes standby pages of a bounded batch of active or modified ones.
    pub(crate) fn reclaim(&self) -> Reclaim {
        /// Pages that one call trims and saves.
        const BATCH: u32 = 16;
        let mut saves = self.save_modified(BATCH);
        if saves.pages == 0 && !saves.is_full && self.trim_active(BATCH) > 0 {
            saves = self.save_modified(BATCH);
        }
        saves.result()
    }
}

/// The pages that a walk saved.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Saves {
    /// Their number.
    pub(crate) pages: u32,
    /// Whether the store refused a page as it is full.
    pub(crate) is_full: bool,
}

impl Saves {
    fn result(self) -> Reclaim {
        match self {
            Saves { pages: 1.., .. } => Reclaim::Made,
            Saves { is_full: true, .. } => Reclaim::Full,
            _ => Reclaim::Nothing,
        }
    }
}

/// The result of [`Manager::reclaim`] and [`Manager::trim_one`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reclaim {
    /// Pages were saved: their frames are standby, or released.
    Made,
    /// Nothing was found that could be trimmed and saved: other threads hold it, or it cannot be moved.
    Nothing,
    /// The store is full.
    Full,
}
