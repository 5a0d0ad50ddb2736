//! Registering native chunks.

use crate::backing::Backing;
use crate::driver::{Area, Driver};
use crate::manager::{BLOCK, Event, Manager, Patience};
use crate::page::{CHUNK_PAGES, ChunkMode, PageIndex, PageRange, PageState, Word};

impl<D: Driver, B: Backing> Manager<D, B> {
    /// Registers the native chunk of `page`, so that its faults come to the pager, and adopts its present pages. Returns
    /// whether this call did.
    pub(crate) fn manage(&self, page: PageIndex) -> bool {
        let first = page.number() / CHUNK_PAGES * CHUNK_PAGES;
        let chunk = self.chunk(page);
        let pages = PageRange::new(PageIndex::new(first), chunk.pages());
        if !chunk.change_mode(ChunkMode::Native, ChunkMode::Converting) {
            return false;
        }
        if self.driver.register(pages).is_err() {
            self.counters.add(Event::NoMemory, 1);
            chunk.change_mode(ChunkMode::Converting, ChunkMode::Native);
            return false;
        }
        // From here on absent pages fault to the pager. A page that is present stays so: nothing trims it while its word
        // is virgin.
        let mut adopted = 0;
        for piece in pages.pieces(BLOCK) {
            let mut present = [false; BLOCK as usize];
            // Without the list every page counts as present; the trimmer finds out which ones are not.
            if self.driver.present(Area::Arena, piece, &mut present).is_err() {
                present = [true; BLOCK as usize];
            }
            for (page, _) in piece.pages().zip(present).filter(|(_, present)| *present) {
                adopted += u64::from(self.adopt(page));
            }
        }
        self.budget.release_native(u64::from(chunk.pages()) - adopted);
        self.counters.add(Event::Adopted, adopted);
        chunk.change_mode(ChunkMode::Converting, ChunkMode::Managed);
        true
    }

    /// Counts a present page of a chunk that was just registered, unless a fault did.
    fn adopt(&self, page: PageIndex) -> bool {
        /// A fault ends before; but a thread that holds a page busy must not wait for ever.
        const MOST_WAITS: u32 = 1000;
        let word = self.table.word(page);
        let mut patience = Patience::default();
        while patience.waits() < MOST_WAITS {
            let seen = word.load();
            match seen.state() {
                PageState::Virgin => {}
                PageState::Busy => {
                    patience.wait();
                    continue;
                }
                _ => return false,
            }
            let Some(locked) = word.try_lock(seen) else {
                continue;
            };
            let priority = Word::NORMAL_PRIORITY;
            self.count(page, PageState::Virgin, PageState::Active, priority);
            self.budget.adopt();
            locked.adopt();
            return true;
        }
        false
    }
}
