//! The words of each page that visits use. Several threads visit the same pages, so that the words are atomic.

// SAFETY of this module: bytes that a caller lends exclusively are viewed as atomic words for as long.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_os::page_size;

use super::pattern;
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

/// Pages that are visited, by one thread or several.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pages<'m> {
    words: &'m [AtomicU64],
    page_words: usize,
    pub(super) count: u64,
}

impl<'m> Pages<'m> {
    /// The pages of memory that nothing else uses meanwhile.
    pub(super) fn of(memory: &'m mut [u8]) -> Result<Pages<'m>, PagesError> {
        // SAFETY: `AtomicU64` has the size and the bit validity of `u64`, of which every pattern of bytes is a value;
        // `align_to_mut` cuts off what is not aligned; and the exclusive borrow lasts as long as the words.
        let (before, words, _) = unsafe { memory.align_to_mut::<AtomicU64>() };
        match before {
            [] => Pages::of_words(words),
            _ => Err(PagesError::Unaligned),
        }
    }

    pub(super) fn of_words(words: &'m [AtomicU64]) -> Result<Pages<'m>, PagesError> {
        let page_words = page_size() / WORD;
        let count = (words.len() / page_words) as u64;
        if !(1..1 << 32).contains(&count) {
            return Err(PagesError::Count(count));
        }
        Ok(Pages {
            words,
            page_words,
            count,
        })
    }

    /// The words of a page. They are in another line of each page: the first lines of all would share a few sets of the
    /// caches.
    #[inline]
    pub(super) fn words(&self, page: u64) -> Words<'m> {
        // Below the length of the memory, which is a usize.
        let page = page as usize;
        let at = page * self.page_words + (page * LINE) % self.page_words;
        Words(&self.words[at..at + LINE])
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

    #[test]
    fn no_count_of_threads_on_one_page_is_lost() {
        const EACH: u64 = 1_000_000;
        // All at once: counts that follow one another are not lost in any way.
        let start = std::sync::Barrier::new(4);
        let mut memory = vec![0; 2 * page_size()];
        let pages = Pages::of(&mut memory).expect("pages");
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
        assert!(matches!(Pages::of(&mut memory[1..]), Err(PagesError::Unaligned)));
    }

    #[test]
    fn words_leave_the_rest_of_a_page_as_it_was() {
        let mut memory = vec![0xAB; 10 * page_size()];
        let pages = Pages::of(&mut memory).expect("pages");
        pages.tag(Pattern::Chase, 1);
        (0..10).for_each(|page| pages.words(page).count(true));
        let untouched = memory.iter().filter(|&&byte| byte == 0xAB).count();
        assert!(untouched >= 10 * (page_size() - 3 * WORD));
    }
}
