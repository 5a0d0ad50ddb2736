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
        let mut standby = [0_u64; 8];
        let (mut native, mut committed) = (0, 0);
        for piece in PageRange::new(PageIndex::new(0), self.extent()).pieces(CHUNK_PAGES) {
            let chunk = self.chunks.of(piece);
            let number = piece.first.number() / CHUNK_PAGES;
            found.extend(self.validate_record(number, piece.first));
            let pages = PageRange::new(piece.first, piece.count.min(chunk.pages()));
            if chunk.mode() == ChunkMode::Native {
                native += u64::from(pages.count);
                committed += u64::from(self.chunks.is_sparse(number));
            }
            let owned = match chunk.mode() {
                ChunkMode::Unused | ChunkMode::Native | ChunkMode::Changing => 0,
                ChunkMode::Converting | ChunkMode::Managed => pages.count,
            };
            if chunk.is_touched() {
                self.validate_words(piece, owned, &mut found);
            }
            if chunk.mode() == ChunkMode::Unused {
                continue;
            }
            let before = states;
            for block in pages.pieces(BLOCK) {
                self.validate_block(
                    block,
                    chunk.mode() == ChunkMode::Native,
                    &mut states,
                    &mut places,
                    &mut standby,
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
            PageState::Surrendered,
        ] {
            compare(
                "pages in a state",
                self.counters.pages_in(state),
                of(state),
                &mut found,
            );
        }
        for (priority, pages) in (0..).zip(standby) {
            let counted = self.counters.standby(priority);
            compare("standby pages by priority", counted, pages, &mut found);
        }
        let frames = of(PageState::Active) + of(PageState::Modified) + of(PageState::Standby);
        compare("frames", self.budget.frames(), frames, &mut found);
        compare("native pages", self.budget.native(), native, &mut found);
        let counted = u64::from(self.chunks.committed());
        compare("committed chunks", counted, committed, &mut found);
        for pinned in self.pins.ranges() {
            let in_regions = pinned.end() <= self.extent()
                && pinned
                    .pieces(CHUNK_PAGES)
                    .all(|piece| self.chunks.mode(piece.first.number() / CHUNK_PAGES) != ChunkMode::Unused);
            if !in_regions {
                let (page, count) = (pinned.first, pinned.count);
                found.push(Violation::Pin { page, count });
            }
        }
        let broken = self.backing.broken_invariant();
        found.extend(broken.map(|invariant| Violation::Saved { invariant }));
        found
    }

    /// Checks the record of a chunk against the sets of chunks. One without a record has none of its pages in a state.
    fn validate_record(&self, number: u32, page: PageIndex) -> Option<Violation> {
        let chunk = &self.chunks.all()[number as usize];
        let mode = chunk.mode();
        let counted = [PageState::Active, PageState::Modified, PageState::Standby];
        let is_fine = match self.chunks.has_record(number) {
            true => mode != ChunkMode::Unused,
            false => {
                mode == ChunkMode::Unused
                    && !chunk.has_surrendered()
                    && counted.iter().all(|state| chunk.pages_in(*state) == 0)
            }
        };
        let is_native = matches!(mode, ChunkMode::Native | ChunkMode::Converting);
        let is_fine = is_fine && mode != ChunkMode::Changing && !(is_native && chunk.has_surrendered());
        (!is_fine).then_some(Violation::Chunk { page, mode })
    }

    /// Checks the words of a chunk, of which the first `owned` pages may have a state.
    fn validate_words(&self, chunk: PageRange, owned: u32, found: &mut Vec<Violation>) {
        for (number, page) in (0..).zip(chunk.pages()) {
            let word = self.table.word(page).load();
            if !word.is_valid() {
                let word = word.bits();
                found.push(Violation::Word { page, word });
            } else if number >= owned && word.state() != PageState::Virgin {
                let state = word.state();
                found.push(Violation::Unowned { page, state });
            }
        }
    }

    fn validate_block(
        &self,
        block: PageRange,
        is_native: bool,
        states: &mut [u64; PageState::ALL.len()],
        places: &mut HashSet<u64>,
        standby: &mut [u64; 8],
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
            if word.state() == PageState::Surrendered && !self.chunk(page).has_surrendered() {
                found.push(Violation::Unowned {
                    page,
                    state: word.state(),
                });
            }
            if word.state() == PageState::Standby {
                standby[usize::from(word.priority())] += 1;
            }
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
