//! Numbers of pages.

/// Bytes of a page. The pager runs on kernels with this page size alone.
pub const PAGE_SIZE: usize = 4096;

/// The contents of a page.
pub type Page = [u8; PAGE_SIZE];

/// The contents of a page that was never written.
pub static ZERO_PAGE: Page = [0; PAGE_SIZE];

/// The number of a page in the pager's arena, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageIndex(u32);

impl PageIndex {
    /// The page of that number. 2^32 pages are 16 TiB.
    pub const fn new(number: u32) -> PageIndex {
        PageIndex(number)
    }

    /// The number, from 0.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The number, to index with.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The page `pages` further on.
    #[must_use]
    pub const fn plus(self, pages: u32) -> PageIndex {
        PageIndex(self.0 + pages)
    }

    /// Offset of its first byte from the start of the arena.
    pub const fn offset(self) -> usize {
        self.0 as usize * PAGE_SIZE
    }
}

/// Adjacent pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageRange {
    /// The first page.
    pub first: PageIndex,
    /// The number of pages.
    pub count: u32,
}

impl PageRange {
    /// `count` pages from `first` on.
    pub const fn new(first: PageIndex, count: u32) -> PageRange {
        PageRange { first, count }
    }

    /// The number of the page behind the last one.
    pub const fn end(self) -> u32 {
        self.first.0 + self.count
    }

    /// Whether `page` is one of them.
    pub const fn contains(self, page: PageIndex) -> bool {
        self.first.0 <= page.0 && page.0 < self.end()
    }

    /// The pages that are in `other` too, if there are any.
    pub(crate) fn common(self, other: PageRange) -> Option<PageRange> {
        let first = self.first.max(other.first);
        let end = self.end().min(other.end());
        (first.0 < end).then(|| PageRange::new(first, end - first.0))
    }

    /// Every page, in order.
    pub fn pages(self) -> impl DoubleEndedIterator<Item = PageIndex> + ExactSizeIterator {
        (self.first.0..self.end()).map(PageIndex)
    }

    /// Bytes of the range.
    pub const fn bytes(self) -> usize {
        self.count as usize * PAGE_SIZE
    }

    /// The range and the rest of the first and the last one of [`PageRange::pieces`].
    pub(crate) fn whole_pieces(self, pages: u32) -> PageRange {
        let first = self.first.0 / pages * pages;
        PageRange::new(PageIndex(first), self.end().next_multiple_of(pages) - first)
    }

    /// The range in pieces that cross no multiple of `pages`.
    pub fn pieces(self, pages: u32) -> impl Iterator<Item = PageRange> {
        let mut rest = self;
        std::iter::from_fn(move || {
            if rest.count == 0 {
                return None;
            }
            let to_edge = pages - rest.first.0 % pages;
            let piece = PageRange::new(rest.first, rest.count.min(to_edge));
            rest = PageRange::new(rest.first.plus(piece.count), rest.count - piece.count);
            Some(piece)
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{PageIndex, PageRange};

    #[test]
    fn pieces_end_at_the_edges_and_cover_the_range() {
        let range = PageRange::new(PageIndex::new(10), 150);
        let pieces: Vec<(u32, u32)> = range
            .pieces(64)
            .map(|piece| (piece.first.number(), piece.count))
            .collect();
        assert_eq!(pieces, [(10, 54), (64, 64), (128, 32)]);
        assert_eq!(PageRange::new(PageIndex::new(3), 0).pieces(64).count(), 0);
    }

    #[test]
    fn common_pages_are_in_both_ranges() {
        let range = |first, count| PageRange::new(PageIndex::new(first), count);
        assert_eq!(range(10, 5).common(range(12, 10)), Some(range(12, 3)));
        assert_eq!(range(12, 10).common(range(0, 100)), Some(range(12, 10)));
        assert_eq!(range(10, 5).common(range(15, 1)), None);
        assert_eq!(range(15, 1).common(range(10, 5)), None);
    }
}
