//! The words of each page that visits use. Several threads visit the same pages, so that the words are atomic.

// SAFETY of this module: bytes that a caller lends exclusively are viewed as atomic words for as long.
#![allow(
    unsafe_code,
    reason = "bytes of filled memory viewed as atomic words, for threads that share pages"
)]

use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_os::{Errno, Range, page_size, write_back};

use super::pattern;
use crate::workload::Whole;
use plimsoll_model::scenario::Pattern;

/// Words of a cache line: those of a page are in one.
const LINE: usize = 8;
/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// Memory that has no pages to visit.
#[derive(Debug, thiserror::Error)]
pub(super) enum PagesError {
    #[error("cannot visit memory that does not begin with a whole word; fill whole pages")]
    Unaligned,
    #[error("cannot visit {0} pages; ask for 1 to 2^32 - 1")]
    Count(u64),
}

/// Pages that are visited, by one thread or several: anonymous ones and those of a file, which lie evenly among each other
/// in the order of their numbers, so that every pattern visits both alike.
///
/// Invariant: of the pages below any number `n`, `files_before(n)` are those of the file, and all of them below `count`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pages<'m> {
    anonymous: &'m [AtomicU64],
    file: &'m [AtomicU64],
    /// Pages of the file over all pages, as a fraction of 2^32, rounded up.
    share: u64,
    page_words: usize,
    pub(super) count: u64,
}

impl<'m> Pages<'m> {
    /// The pages of memory that nothing else uses meanwhile.
    pub(super) fn of(whole: Whole<'m>) -> Result<Pages<'m>, PagesError> {
        Pages::of_words(words_of(whole.memory)?, words_of(whole.file)?)
    }

    pub(super) fn of_words(
        anonymous: &'m [AtomicU64],
        file: &'m [AtomicU64],
    ) -> Result<Pages<'m>, PagesError> {
        let page_words = page_size() / WORD;
        let files = (file.len() / page_words) as u64;
        let count = (anonymous.len() / page_words) as u64 + files;
        if !(1..1 << 32).contains(&count) {
            return Err(PagesError::Count(count));
        }
        Ok(Pages {
            anonymous,
            file,
            // Both are below 2^32.
            share: (files << 32).div_ceil(count),
            page_words,
            count,
        })
    }

    /// Pages of the file among the first `page` ones: the whole part of their share of it.
    #[inline]
    pub(super) fn files_before(&self, page: u64) -> u64 {
        (page * self.share) >> 32
    }

    /// The words of a page. They are in another line of each page: the first lines of all would share a few sets of the
    /// caches.
    #[inline]
    pub(super) fn words(&self, page: u64) -> Words<'m> {
        let (words, place) = if self.share == 0 {
            (self.anonymous, page)
        } else {
            let files = self.files_before(page);
            match self.files_before(page + 1) > files {
                true => (self.file, files),
                false => (self.anonymous, page - files),
            }
        };
        // Below the length of the memory, which is a usize.
        let place = place as usize;
        let at = place * self.page_words + (place * LINE) % self.page_words;
        Words(&words[at..at + LINE])
    }

    /// Writes the pages of the file to the disk, so that they are clean.
    pub(super) fn write_back(&self) -> Result<(), Errno> {
        if self.file.is_empty() {
            return Ok(());
        }
        write_back(Range {
            start: self.file.as_ptr() as u64,
            length: size_of_val(self.file) as u64,
        })
    }

    /// Sets the words of every page, from the last page on: those that were filled last are most likely resident.
    pub(super) fn tag(&self, pattern: Pattern, seed: u64) {
        let successors = match pattern {
            Pattern::Chase => pattern::cycle(self.count, seed),
            _ => Vec::new(),
        };
        for page in (0..self.count).rev() {
            let successor = successors.get(page as usize).copied().unwrap_or(0);
            self.words(page).set(page ^ seed, u64::from(successor));
        }
    }
}

fn words_of(memory: &mut [u8]) -> Result<&[AtomicU64], PagesError> {
    // SAFETY: `AtomicU64` has the size and the bit validity of `u64`, of which every pattern of bytes is a value;
    // `align_to_mut` cuts off unaligned bytes; and the exclusive borrow lasts as long as the words.
    let (before, words, _) = unsafe { memory.align_to_mut::<AtomicU64>() };
    match before {
        [] => Ok(words),
        _ => Err(PagesError::Unaligned),
    }
}

/// The words of one page: tag, counter, successor.
pub(super) struct Words<'m>(&'m [AtomicU64]);

impl Words<'_> {
    #[inline]
    fn get(&self, word: usize) -> u64 {
        self.0[word].load(Ordering::Relaxed)
    }

    #[inline]
    fn put(&self, word: usize, value: u64) {
        self.0[word].store(value, Ordering::Relaxed);
    }

    pub(super) fn set(&self, tag: u64, successor: u64) {
        self.put(0, tag);
        self.put(1, 0);
        self.put(2, successor);
    }

    #[inline]
    pub(super) fn tag(&self) -> u64 {
        self.get(0)
    }

    #[inline]
    pub(super) fn counter(&self) -> u64 {
        self.get(1)
    }

    /// Raises the counter. If no other thread does (`shared` is false) it is a plain addition, which costs less than an
    /// atomic one.
    #[inline]
    pub(super) fn count(&self, shared: bool) {
        if shared {
            // Only the sum after the end of all threads counts, which their join orders.
            self.0[1].fetch_add(1, Ordering::Relaxed);
        } else {
            self.put(1, self.get(1).wrapping_add(1));
        }
    }

    #[inline]
    pub(super) fn successor(&self) -> u64 {
        self.get(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn alone(memory: &mut [u8]) -> Whole<'_> {
        Whole {
            memory,
            file: &mut [],
        }
    }

    proptest! {
        /// With any share, each page has words of its own, and every stretch of pages has its share of the file's.
        #[test]
        fn pages_of_both_parts_lie_evenly_and_none_is_two_pages(anonymous in 0usize..40, file in 0usize..40, start in 0u64..80) {
            let count = (anonymous + file) as u64;
            prop_assume!(count > 0);
            let (mut memory, mut of_file) = (vec![0; anonymous * page_size()], vec![0; file * page_size()]);
            let pages = Pages::of(Whole { memory: &mut memory, file: &mut of_file }).expect("pages");
            prop_assert_eq!((pages.count, pages.files_before(count)), (count, file as u64));
            pages.tag(Pattern::Uniform, 7);
            for page in 0..count {
                prop_assert_eq!(pages.words(page).tag(), page ^ 7);
            }
            let start = start % count;
            for end in start..=count {
                let share = (end - start) as f64 * file as f64 / count as f64;
                let found = (pages.files_before(end) - pages.files_before(start)) as f64;
                prop_assert!((found - share).abs() <= 1.0, "{} of {} to {}", found, start, end);
            }
        }
    }

    #[test]
    fn any_number_of_pages_has_its_share_of_the_file() {
        let most = (1_u64 << 32) - 1;
        for files in [0, 1, most / 3, most / 2, most - 1, most] {
            let pages = Pages {
                anonymous: &[],
                file: &[],
                share: (files << 32).div_ceil(most),
                page_words: 512,
                count: most,
            };
            assert_eq!(pages.files_before(most), files);
        }
    }

    #[test]
    fn no_count_of_threads_on_one_page_is_lost() {
        const EACH: u64 = 1_000_000;
        // All at once: counts that follow one another are not lost in any way.
        let start = std::sync::Barrier::new(4);
        let mut memory = vec![0; 2 * page_size()];
        let pages = Pages::of(alone(&mut memory)).expect("pages");
        pages.tag(Pattern::Uniform, 7);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    (0..EACH).for_each(|_| pages.words(1).count(true));
                });
            }
        });
        assert_eq!(
            (pages.words(0).counter(), pages.words(1).counter()),
            (0, 4 * EACH)
        );
        assert_eq!((pages.words(0).tag(), pages.words(1).tag()), (7, 1 ^ 7));
    }

    #[test]
    fn memory_that_is_not_aligned_is_refused() {
        let mut memory = vec![0; 3 * page_size()];
        assert!(matches!(
            Pages::of(alone(&mut memory[1..])),
            Err(PagesError::Unaligned)
        ));
    }

    #[test]
    fn words_leave_the_rest_of_a_page_as_it_was() {
        let mut memory = vec![0xAB; 10 * page_size()];
        let pages = Pages::of(alone(&mut memory)).expect("pages");
        pages.tag(Pattern::Chase, 1);
        (0..10).for_each(|page| pages.words(page).count(true));
        let untouched = memory.iter().filter(|&&byte| byte == 0xAB).count();
        assert!(untouched >= 10 * (page_size() - 3 * WORD));
    }
}
