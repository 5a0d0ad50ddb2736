//! A hand of the clock over all pages: it stands at the oldest page that its transition has not passed.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering};

use crate::page::{CHUNK_PAGES, PageIndex, PageRange};

/// Pages that a hand passes at once; also the longest batch of a move.
pub(crate) const BLOCK: u32 = 64;

/// The position of a hand, in pages.
///
/// The hands of trim, save and take pass the pages in the same order, so that each finds first the pages that the hand
/// before left first: the lists of modified and standby pages are first in, first out, without links.
#[derive(Debug, Default)]
pub(crate) struct Hand {
    position: AtomicU32,
}

/// One lap of a hand at most.
#[derive(Debug)]
pub(crate) struct Lap<'h> {
    hand: &'h Hand,
    extent: u32,
    passed: u32,
}

impl Hand {
    /// A walk of one lap over `extent` pages, in blocks that no other thread gets in this lap.
    pub(crate) fn lap(&self, extent: u32) -> Lap<'_> {
        Lap {
            hand: self,
            extent,
            passed: 0,
        }
    }

    /// Places the hand behind `page`: the rest of its block is next again.
    pub(crate) fn stop_behind(&self, page: PageIndex) {
        self.position.store(page.number() + 1, Ordering::Relaxed);
    }
}

impl Lap<'_> {
    /// The next block of a chunk that is wanted: `find` returns the number of the first one from that of its argument on, or
    /// any number behind the extent. A block lies in one chunk.
    pub(crate) fn next(&mut self, find: impl Fn(u32) -> u32) -> Option<PageRange> {
        while self.passed < self.extent {
            let at = self.hand.position.load(Ordering::Relaxed);
            let first = if at < self.extent { at } else { 0 };
            let chunk = first / CHUNK_PAGES;
            let wanted = find(chunk);
            let is_wanted = wanted == chunk;
            let end = match is_wanted {
                true => (first / BLOCK).saturating_add(1).saturating_mul(BLOCK),
                false => wanted.saturating_mul(CHUNK_PAGES),
            };
            let count = end.min(self.extent) - first;
            let next = self.hand.position.compare_exchange_weak(
                at,
                first + count,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            if next.is_err() {
                continue;
            }
            self.passed = self.passed.saturating_add(count);
            if is_wanted {
                return Some(PageRange::new(PageIndex::new(first), count));
            }
        }
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{BLOCK, Hand};
    use crate::page::{CHUNK_PAGES, PageIndex};

    #[test]
    fn a_lap_passes_every_wanted_block_once() {
        let hand = Hand::default();
        let extent = 3 * CHUNK_PAGES + 100;
        hand.stop_behind(PageIndex::new(CHUNK_PAGES + 69));
        let mut lap = hand.lap(extent);
        let mut pages = 0;
        while let Some(block) = lap.next(|chunk| if chunk == 2 { 3 } else { chunk }) {
            assert!(block.count <= BLOCK && block.first.number() / CHUNK_PAGES != 2);
            pages += block.count;
        }
        // The lap ends within the block in which it began.
        assert!(
            (extent - CHUNK_PAGES..extent - CHUNK_PAGES + BLOCK).contains(&pages),
            "{pages}"
        );
    }

    #[test]
    fn a_lap_over_nothing_ends() {
        assert!(Hand::default().lap(0).next(|chunk| chunk).is_none());
        assert!(Hand::default().lap(10 * CHUNK_PAGES).next(|_| 10).is_none());
        assert!(Hand::default().lap(u32::MAX - 5000).next(|_| u32::MAX).is_none());
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// Two threads walk over three blocks at the same time: no block goes to both before the hand has been around.
    #[test]
    fn a_block_goes_to_one_thread() {
        loom::model(|| {
            let hand = Arc::new(Hand::default());
            let walk = |hand: &Hand| hand.lap(3 * BLOCK).next(|chunk| chunk).expect("a block");
            let other = {
                let hand = hand.clone();
                thread::spawn(move || walk(&hand))
            };
            let mine = walk(&hand);
            let others = other.join().unwrap();
            assert_ne!(mine, others);
            assert_eq!((mine.count, others.count), (BLOCK, BLOCK));
            let last = walk(&hand);
            assert!(last != mine && last != others);
        });
    }

    /// A thread that stops within its block gives the rest back; the walk of another one stays within the extent.
    #[test]
    fn a_hand_that_is_set_back_stays_in_the_extent() {
        loom::model(|| {
            let hand = Arc::new(Hand::default());
            let other = {
                let hand = hand.clone();
                thread::spawn(move || hand.stop_behind(PageIndex::new(2 * BLOCK - 1)))
            };
            let mut lap = hand.lap(2 * BLOCK);
            let mut passed = 0;
            while let Some(block) = lap.next(|chunk| chunk) {
                assert!(block.end() <= 2 * BLOCK && block.count <= BLOCK);
                passed += block.count;
            }
            assert!(passed >= 2 * BLOCK);
            other.join().unwrap();
        });
    }
}
