//! The uses of all addresses of the arena, page by page.
//!
//! Invariants:
//! 1. The ranges cover the arena, do not overlap, and no two neighbours have the same use.
//! 2. `free` has exactly the free ranges. Checked by `the_ranges_are_those_of_a_model`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The use of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// No mapping of the program: the pages are inaccessible, and hold nothing.
    Free,
    /// Anonymous memory, which the pager manages, with its protection (`PROT_*`).
    Anonymous(i32),
    /// A mapping that the program put there and that the pager has surrendered: of a file, shared, or special otherwise.
    Foreign,
}

/// Pages of the arena, by number.
pub(crate) type Pages = Range<u32>;

/// The uses of an arena's pages.
#[derive(Debug)]
pub(crate) struct Addresses {
    /// Ranges by first page, with their ends.
    ranges: BTreeMap<u32, (u32, Use)>,
    /// Free ranges by length, and then by first page.
    free: BTreeSet<(u32, u32)>,
}

/// Free ranges that [`Addresses::find`] looks at before it takes one that is long enough for any alignment.
const MOST_CANDIDATES: usize = 16;

impl Addresses {
    /// An arena of `pages` pages, all free.
    pub(crate) fn new(pages: u32) -> Addresses {
        Addresses {
            ranges: BTreeMap::from([(0, (pages, Use::Free))]),
            free: BTreeSet::from([(pages, 0)]),
        }
    }

    /// The first page of free addresses for `pages` pages, at a multiple of `alignment`: the shortest free range that has
    /// room, so that long ones stay long; of equal ones the first.
    pub(crate) fn find(&self, pages: u32, alignment: u32) -> Option<u32> {
        let fits = |&(length, first): &(u32, u32)| {
            let aligned = first.checked_next_multiple_of(alignment)?;
            (aligned - first <= length - pages).then_some(aligned)
        };
        let near = self.free.range((pages, 0)..).take(MOST_CANDIDATES);
        let certain = pages
            .checked_add(alignment - 1)
            .and_then(|pages| self.free.range((pages, 0)..).next());
        near.chain(certain).find_map(fits)
    }

    /// Whether all of `pages` are free.
    pub(crate) fn is_free(&self, pages: Pages) -> bool {
        self.use_of(pages) == Some(Use::Free)
    }

    /// The use of `pages`, if all have the same.
    pub(crate) fn use_of(&self, pages: Pages) -> Option<Use> {
        let (end, used) = self.ranges.range(..=pages.start).next_back()?.1;
        (*end >= pages.end).then_some(*used)
    }

    /// The parts of `pages` that have the same use, in order.
    pub(crate) fn parts(&self, pages: Pages) -> impl Iterator<Item = (Pages, Use)> {
        let first = self.ranges.range(..=pages.start).next_back();
        let start = first.map_or(pages.start, |(first, _)| *first);
        let within = self.ranges.range(start..pages.end.max(start));
        within
            .map(move |(first, (end, used))| ((*first).max(pages.start)..(*end).min(pages.end), *used))
            .filter(|(part, _)| !part.is_empty())
    }

    /// Gives `pages` a use, whatever theirs was.
    pub(crate) fn set(&mut self, pages: Pages, used: Use) {
        if pages.is_empty() {
            return;
        }
        self.split(pages.start);
        self.split(pages.end);
        while let Some((&first, _)) = self.ranges.range(pages.clone()).next() {
            self.remove(first);
        }
        let mut joined = pages;
        if let Some((&first, &(end, before))) = self.ranges.range(..joined.start).next_back()
            && before == used
        {
            debug_assert_eq!(end, joined.start);
            self.remove(first);
            joined.start = first;
        }
        if let Some(&(end, behind)) = self.ranges.get(&joined.end)
            && behind == used
        {
            self.remove(joined.end);
            joined.end = end;
        }
        self.insert(joined, used);
    }

    /// Makes a range begin at `page`, unless that is the end of all.
    fn split(&mut self, page: u32) {
        let Some((&first, &(end, used))) = self.ranges.range(..page).next_back() else {
            return;
        };
        if page < end {
            self.remove(first);
            self.insert(first..page, used);
            self.insert(page..end, used);
        }
    }

    fn insert(&mut self, pages: Pages, used: Use) {
        if used == Use::Free {
            self.free.insert((pages.end - pages.start, pages.start));
        }
        self.ranges.insert(pages.start, (pages.end, used));
    }

    fn remove(&mut self, first: u32) {
        if let Some((end, used)) = self.ranges.remove(&first)
            && used == Use::Free
        {
            self.free.remove(&(end - first, first));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Addresses, Pages, Use};

    const PAGES: u32 = 96;

    /// Every invariant, and the uses of a model.
    fn check(addresses: &Addresses, model: &[Use]) {
        let mut next = 0;
        let mut last = None;
        for (&first, &(end, used)) in &addresses.ranges {
            assert_eq!(first, next);
            assert!(end > first && last != Some(used));
            assert!(
                model[first as usize..end as usize]
                    .iter()
                    .all(|page| *page == used)
            );
            (next, last) = (end, Some(used));
        }
        assert_eq!(next, PAGES);
        let free = addresses.ranges.iter().filter(|(_, range)| range.1 == Use::Free);
        let mut free: Vec<_> = free.map(|(first, (end, _))| (end - first, *first)).collect();
        free.sort_unstable();
        assert_eq!(free, addresses.free.iter().copied().collect::<Vec<_>>());
    }

    fn check_parts(addresses: &Addresses, model: &[Use], pages: Pages) {
        let mut at = pages.start;
        for (part, used) in addresses.parts(pages.clone()) {
            assert_eq!(part.start, at);
            assert!(
                model[part.start as usize..part.end as usize]
                    .iter()
                    .all(|page| *page == used)
            );
            at = part.end;
        }
        assert_eq!(at, pages.end);
    }

    /// A found range is free and aligned; without one, a search of the model finds none, unless holes are many.
    fn check_find(addresses: &Addresses, model: &[Use], pages: u32, alignment: u32) {
        let is_free = |first: u32| {
            let range = first as usize..(first + pages) as usize;
            model
                .get(range)
                .is_some_and(|pages| pages.iter().all(|page| *page == Use::Free))
        };
        match addresses.find(pages, alignment) {
            Some(first) => assert!(first.is_multiple_of(alignment) && is_free(first)),
            None => {
                let is_there = (0..PAGES).step_by(alignment as usize).any(is_free);
                assert!(!is_there || addresses.free.len() > super::MOST_CANDIDATES);
            }
        }
    }

    fn any_use() -> impl Strategy<Value = Use> {
        prop_oneof![
            3 => Just(Use::Free),
            2 => Just(Use::Anonymous(3)),
            1 => Just(Use::Anonymous(0)),
            1 => Just(Use::Foreign),
        ]
    }

    proptest! {
        #[test]
        fn the_ranges_are_those_of_a_model(
            steps in prop::collection::vec((0..PAGES, 0..40u32, any_use(), 1..30u32, 0..4u32), 1..60),
        ) {
            let mut addresses = Addresses::new(PAGES);
            let mut model = vec![Use::Free; PAGES as usize];
            for (first, count, used, wanted, alignment) in steps {
                let pages = first..(first + count).min(PAGES);
                addresses.set(pages.clone(), used);
                model[pages.start as usize..pages.end as usize].fill(used);
                check(&addresses, &model);
                check_parts(&addresses, &model, pages.clone());
                check_parts(&addresses, &model, 0..PAGES);
                check_find(&addresses, &model, wanted, 1 << alignment);
                if !pages.is_empty() {
                    prop_assert_eq!(addresses.use_of(pages.clone()), Some(used));
                    prop_assert_eq!(addresses.is_free(pages), used == Use::Free);
                }
            }
        }
    }

    #[test]
    fn the_shortest_range_with_room_is_found() {
        let mut addresses = Addresses::new(1000);
        addresses.set(0..1000, Use::Anonymous(3));
        addresses.set(10..30, Use::Free);
        addresses.set(100..105, Use::Free);
        addresses.set(500..1000, Use::Free);
        assert_eq!(addresses.find(5, 1), Some(100));
        assert_eq!(addresses.find(6, 1), Some(10));
        assert_eq!(addresses.find(6, 16), Some(16));
        assert_eq!(addresses.find(20, 512), Some(512));
        assert_eq!(addresses.find(501, 1), None);
        assert_eq!(addresses.use_of(99..101), None);
    }
}
