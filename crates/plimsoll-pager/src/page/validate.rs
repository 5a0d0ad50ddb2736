//! The executable twin of the table in [`page`](crate::page): the facts that hold for a page in each state.

use super::{ChunkMode, PageIndex, PageState};

/// A page that is not as its state says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names of the fields describe them")]
pub enum Violation {
    /// The process is a child of the one that built the pager: it has no page to check.
    #[error("a child of a fork has none of the pager's memory")]
    Forked,
    /// A page is present in the arena in another state than active, or absent while active.
    #[error("page {page:?} is {state:?}, and its presence in the arena is {present}")]
    Arena {
        page: PageIndex,
        state: PageState,
        present: bool,
    },
    /// A frame is present in another state than modified and standby, or absent in these.
    #[error("page {page:?} is {state:?}, and the presence of its frame is {present}")]
    Frame {
        page: PageIndex,
        state: PageState,
        present: bool,
    },
    /// A page is busy, though no thread works on it.
    #[error("page {page:?} is busy")]
    Busy { page: PageIndex },
    /// No transition writes such a word.
    #[error("the word of page {page:?} is {word:#018x}, which no transition writes")]
    Word { page: PageIndex, word: u64 },
    /// The record of a chunk differs from the sets of chunks.
    #[error("the chunk of page {page:?} is {mode:?} by its record, and not by the sets of chunks")]
    Chunk { page: PageIndex, mode: ChunkMode },
    /// A page of no region, or of a native chunk, has a state.
    #[error("page {page:?} is {state:?}, and its chunk has no managed page there")]
    Unowned { page: PageIndex, state: PageState },
    /// A pinned range leaves the regions.
    #[error("{count} pages from {page:?} on are pinned, and not all of them are in regions")]
    Pin {
        /// The first page.
        page: PageIndex,
        /// The number of pages.
        count: u32,
    },
    /// Two pages have the same saved copy.
    #[error("page {page:?} has the saved copy of another one")]
    SharedPlace {
        /// The second page.
        page: PageIndex,
    },
    /// A saved copy cannot be read back, or a standby frame differs from it.
    #[error("the saved copy of page {page:?} is damaged")]
    Copy { page: PageIndex },
    /// An invariant of the store or of the page file does not hold.
    #[error("the {invariant} are not as the copies say")]
    Saved { invariant: &'static str },
    /// A counter differs from the words.
    #[error("the counter of {what} is {counted}, and the words say {found}")]
    Counter {
        what: &'static str,
        counted: u64,
        /// The value by the words.
        found: u64,
    },
}

/// Checks one page of a managed chunk by its state and the presence of its page and its frame.
pub(crate) fn check_page(
    page: PageIndex,
    state: PageState,
    in_arena: bool,
    has_frame: bool,
) -> impl Iterator<Item = Violation> {
    let differs = in_arena != (state == PageState::Active);
    let arena = (differs && state != PageState::Surrendered).then_some(Violation::Arena {
        page,
        state,
        present: in_arena,
    });
    let frame = (has_frame != state.has_frame()).then_some(Violation::Frame {
        page,
        state,
        present: has_frame,
    });
    let busy = (state == PageState::Busy).then_some(Violation::Busy { page });
    arena.into_iter().chain(frame).chain(busy)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Violation, check_page};
    use crate::page::{PageIndex, PageState};

    #[test]
    fn every_state_holds_for_one_presence_alone() {
        let page = PageIndex::new(1);
        for state in PageState::ALL {
            let fine: Vec<(bool, bool)> = [(false, false), (false, true), (true, false), (true, true)]
                .into_iter()
                .filter(|(arena, frame)| check_page(page, state, *arena, *frame).next().is_none())
                .collect();
            let expected = match state {
                PageState::Active => vec![(true, false)],
                PageState::Modified | PageState::Standby => vec![(false, true)],
                PageState::Surrendered => vec![(false, false), (true, false)],
                PageState::Busy => vec![],
                _ => vec![(false, false)],
            };
            assert_eq!(fine, expected, "{state:?}");
        }
        let wrong: Vec<Violation> = check_page(page, PageState::Compressed, true, true).collect();
        assert_eq!(wrong.len(), 2);
    }
}
