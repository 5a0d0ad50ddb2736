//! The addresses of an arena: which chunks belong to regions.

use std::collections::BTreeMap;

use crate::page::{CHUNK_PAGES, PageIndex, PageRange};

/// Free runs of chunks, by first chunk, no two adjacent.
#[derive(Debug)]
pub(crate) struct Addresses {
    free: BTreeMap<u32, u32>,
}

impl Addresses {
    /// An arena of `pages` pages, all free.
    pub(crate) fn new(pages: u32) -> Addresses {
        Addresses {
            free: BTreeMap::from([(0, pages / CHUNK_PAGES)]),
        }
    }

    /// Takes chunks for `pages` pages: the first free run that has room, so that the arena's extent stays small.
    pub(crate) fn take(&mut self, pages: u32) -> Option<PageRange> {
        let wanted = pages.div_ceil(CHUNK_PAGES);
        let (&first, &count) = self.free.iter().find(|(_, count)| **count >= wanted)?;
        self.free.remove(&first);
        if count > wanted {
            self.free.insert(first + wanted, count - wanted);
        }
        Some(PageRange::new(PageIndex::new(first * CHUNK_PAGES), pages))
    }

    /// Returns the chunks of `pages`, as [`Addresses::take`] gave them.
    pub(crate) fn put(&mut self, pages: PageRange) {
        let mut first = pages.first.number() / CHUNK_PAGES;
        let mut count = pages.count.div_ceil(CHUNK_PAGES);
        if let Some(behind) = self.free.remove(&(first + count)) {
            count += behind;
        }
        if let Some((&before, &length)) = self.free.range(..first).next_back()
            && before + length == first
        {
            (first, count) = (before, count + length);
        }
        self.free.insert(first, count);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Addresses;
    use crate::page::CHUNK_PAGES;

    #[test]
    fn freed_neighbours_are_one_run_again() {
        let mut addresses = Addresses::new(10 * CHUNK_PAGES);
        let taken: Vec<_> = (0..10)
            .map(|_| addresses.take(1).expect("a free chunk"))
            .collect();
        assert!(addresses.take(1).is_none());
        for number in [3, 5, 4, 9, 0] {
            addresses.put(taken[number]);
        }
        assert_eq!(addresses.free.len(), 3);
        let run = addresses.take(3 * CHUNK_PAGES - 7).expect("chunks 3 to 5");
        assert_eq!(
            (run.first.number(), run.count),
            (3 * CHUNK_PAGES, 3 * CHUNK_PAGES - 7)
        );
        assert!(addresses.take(2 * CHUNK_PAGES).is_none());
        addresses.put(run);
        assert!(addresses.take(3 * CHUNK_PAGES).is_some());
    }
}
