//! Looking at a manager as a whole: the check of its invariants, and the states of all pages.

use std::collections::HashSet;

use crate::backing::Backing;
use crate::driver::{Area, Driver};
use crate::manager::{BLOCK, Manager};
use crate::page::{CHUNK_PAGES, ChunkMode, PAGE_SIZE, PageIndex, PageRange, PageState, Tier};
use crate::page::{Violation, Word, ZERO_PAGE, check_page};

impl<D: Driver, B: Backing> Manager<D, B> {
    /// Checks every invariant of the manager, while no thread uses its pages.
    pub(crate) fn validate(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        let mut states = [0_u64; PageState::ALL.len()];
        let mut places = HashSet::new();
        let mut native = 0;
        for piece in PageRange::new(PageIndex::new(0), self.extent()).pieces(CHUNK_PAGES) {
            let chunk = self.chunks.of(piece);
            let pages = PageRange::new(piece.first, piece.count.min(chunk.pages()));
            match chunk.mode() {
                ChunkMode::Unused => continue,
                ChunkMode::Native => native += u64::from(pages.count),
                ChunkMode::Converting | ChunkMode::Managed => {}
            }
            let before = states;
            for block in pages.pieces(BLOCK) {
                self.validate_block(
                    block,
                    chunk.mode() == ChunkMode::Native,
                    &mut states,
                    &mut places,
                    &mut found,
                );
            }
            for state in [PageState::Active, PageState::Modified, PageState::Standby] {
                let words = states[state as usize] - before[state as usize];
                compare(
                    "pages of a chunk",
                    u64::from(chunk.pages_in(state)),
                    words,
                    &mut found,
                );
            }
        }
        let of = |state: PageState| states[state as usize];
        for state in [
            PageState::Active,
            PageState::Modified,
            PageState::Standby,
            PageState::Compressed,
            PageState::PageFile,
        ] {
            compare(
                "pages in a state",
                self.counters.pages_in(state),
                of(state),
                &mut found,
            );
        }
        let standby = (0..8).map(|priority| self.counters.standby(priority)).sum();
        compare(
            "standby pages by priority",
            standby,
            of(PageState::Standby),
            &mut found,
        );
        let frames = of(PageState::Active) + of(PageState::Modified) + of(PageState::Standby);
        compare("frames", self.budget.frames(), frames, &mut found);
        compare("native pages", self.budget.native(), native, &mut found);
        found
    }

    fn validate_block(
        &self,
        block: PageRange,
        is_native: bool,
        states: &mut [u64; PageState::ALL.len()],
        places: &mut HashSet<u64>,
        found: &mut Vec<Violation>,
    ) {
        let mut arena = [false; BLOCK as usize];
        let mut shadow = [false; BLOCK as usize];
        // A kernel that lists no pages leaves presence unchecked.
        let listed = self.driver.present(Area::Arena, block, &mut arena).is_ok()
            && self.driver.present(Area::Shadow, block, &mut shadow).is_ok();
        for ((page, in_arena), has_frame) in block.pages().zip(arena).zip(shadow) {
            let word = self.table.word(page).load();
            states[word.state() as usize] += 1;
            if listed && !is_native {
                found.extend(check_page(page, word.state(), in_arena, has_frame));
            }
            let Some(place) = word.place() else { continue };
            let identity = self.backing.identity(page, place);
            if identity.is_some_and(|identity| !places.insert(identity)) {
                found.push(Violation::SharedPlace { page });
            }
            let mut copy = [0; PAGE_SIZE];
            let is_restored = self.backing.get(page, place, &mut copy).is_ok();
            let is_equal = word.state() != PageState::Standby || {
                let locked = self.table.word(page).try_lock(word);
                let may_differ = word.priority() == Word::LOWEST_PRIORITY && copy == ZERO_PAGE;
                may_differ
                    || locked.is_some_and(|locked| self.with_frame(page, &locked, |frame| *frame == copy))
            };
            let tier_agrees = match word.state() {
                PageState::Compressed => self.backing.tier(place) == Tier::Memory,
                PageState::PageFile => self.backing.tier(place) == Tier::File,
                _ => true,
            };
            if !(is_restored && is_equal && tier_agrees) {
                found.push(Violation::Copy { page });
            }
        }
    }
}

fn compare(what: &'static str, counted: u64, found: u64, violations: &mut Vec<Violation>) {
    if counted != found {
        violations.push(Violation::Counter { what, counted, found });
    }
}
