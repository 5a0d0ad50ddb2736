//! The state of every page of every region.

use crate::backing::Backing;
use crate::driver::{Area, Driver};
use crate::manager::{BLOCK, Manager};
use crate::page::{CHUNK_PAGES, ChunkMode, PageIndex, PageRange, PageState};

/// Adjacent pages in the same state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateRun {
    /// The pages, by number in the arena.
    pub pages: PageRange,
    /// Their state. A page of a native chunk is active if it is present, else virgin.
    pub state: PageState,
    /// Their standby priority.
    pub priority: u8,
}

/// The states of all pages of regions, in order of address. Each page's state is read by itself: a pager at work changes
/// between the first and the last.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    runs: Vec<StateRun>,
}

impl Snapshot {
    /// Runs of pages in the same state, in order of address.
    pub fn runs(&self) -> &[StateRun] {
        &self.runs
    }

    /// Pages in a state.
    pub fn pages_in(&self, state: PageState) -> u64 {
        let runs = self.runs.iter().filter(|run| run.state == state);
        runs.map(|run| u64::from(run.pages.count)).sum()
    }

    fn push(&mut self, pages: PageRange, state: PageState, priority: u8) {
        let first = pages.first.number();
        match self.runs.last_mut() {
            Some(run) if (run.state, run.priority, run.pages.end()) == (state, priority, first) => {
                run.pages.count += pages.count;
            }
            _ => self.runs.push(StateRun {
                pages,
                state,
                priority,
            }),
        }
    }
}

impl<D: Driver, B: Backing> Manager<D, B> {
    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for piece in PageRange::new(PageIndex::new(0), self.extent()).pieces(CHUNK_PAGES) {
            let chunk = self.chunks.of(piece);
            let number = piece.first.number() / CHUNK_PAGES;
            let mode = self.chunks.mode(number);
            if mode == ChunkMode::Unused {
                continue;
            }
            if !self.chunks.has_record(number) {
                snapshot.push(piece, PageState::Virgin, 0);
                continue;
            }
            let pages = PageRange::new(piece.first, piece.count.min(chunk.pages()));
            for block in pages.pieces(BLOCK) {
                let mut present = [false; BLOCK as usize];
                if mode == ChunkMode::Native {
                    // Without the list, no native page counts as touched.
                    let _ = self.driver.present(Area::Arena, block, &mut present);
                }
                for (page, is_present) in block.pages().zip(present) {
                    let word = self.table.word(page).load();
                    let state = match word.state() {
                        PageState::Virgin if is_present => PageState::Active,
                        state => state,
                    };
                    snapshot.push(PageRange::new(page, 1), state, word.priority());
                }
            }
        }
        snapshot
    }
}
