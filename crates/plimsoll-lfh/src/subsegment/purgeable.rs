//! Purgeable pages, in which no block is in use: their removal from the lists, and their reuse as blocks.
//!
//! Callers own the subsegment: it is active, and they hold the bucket's lock, or no other thread knows it.
#![allow(unsafe_code)]

use core::ops::Range;
use core::sync::atomic::Ordering;

use super::absent::{self, Absent, PAGE};
use super::{COUNTS, SPARSE, Subsegment, capacity};
use crate::arena;
use crate::block_table::HIDDEN;
use crate::bucket::{Bucket, SMALLEST_BLOCK};
use crate::integrity::{self, Damage, Link};
use crate::unit::UNIT;

/// Blocks of a subsegment at most, in words of bits.
const WORDS: usize = UNIT / SMALLEST_BLOCK / 64;

/// Blocks in use for each page, at most, of a sparse subsegment: at random places, they leave one page of twenty
/// without any...
const USED_A_PAGE: usize = 3;
/// ... and at most this part of all blocks: a subsegment in half use may be in full use the next moment.
const USED_SHARE: usize = 8;

/// The number of free blocks from which on a subsegment is sparse. The free blocks fill a page at least.
pub(super) const fn sparse_from(bucket: Bucket) -> u16 {
    let all = capacity(bucket) as usize;
    let by_pages = USED_A_PAGE * absent::pages(bucket);
    let by_share = all.div_ceil(USED_SHARE);
    let used = if by_pages < by_share { by_pages } else { by_share };
    let fill_a_page = PAGE.div_ceil(bucket.size());
    let few_used = all - used;
    let from = if few_used > fill_a_page {
        few_used
    } else {
        fill_a_page
    };
    from as u16
}

/// A set of block numbers.
struct Numbers([u64; WORDS]);

impl Numbers {
    fn has(&self, number: u16) -> bool {
        self.0[number as usize / 64] & 1 << (number % 64) != 0
    }

    /// Adds a number. Returns false if it is in the set.
    fn add(&mut self, number: u16) -> bool {
        let is_new = !self.has(number);
        self.0[number as usize / 64] |= 1 << (number % 64);
        is_new
    }
}

impl Subsegment {
    pub(crate) fn absent(&self) -> Absent {
        Absent {
            pages: self.unit().absent.load(Ordering::Relaxed),
            bucket: self.bucket,
        }
    }

    /// Notes which pages are absent.
    pub(super) fn set_absent(&self, pages: u32) {
        let before = self.unit().absent.swap(pages, Ordering::Relaxed);
        let number = arena::bucket_of_unit(self.first).load(Ordering::Relaxed);
        // Hardened heaps know which blocks are free.
        if (before == 0) != (pages == 0) && number & HIDDEN == 0 {
            self.set_number(match pages {
                0 => self.bucket.number(),
                _ => self.bucket.number() + SPARSE,
            });
        }
    }

    /// Whether `free` blocks fill a page.
    pub(crate) fn has_a_page_of(&self, free: u16) -> bool {
        free as usize * self.bucket.size() >= PAGE
    }

    /// Whether with `free` free blocks so few are in use that some pages are likely without any.
    #[inline]
    pub(crate) fn is_sparse(&self, free: u16) -> bool {
        free >= COUNTS[self.bucket.index()].sparse
    }

    /// Makes the pages absent that hold free blocks alone, in steps of `page` bytes. The other free blocks become one
    /// list, by address. Returns the pages, which the caller returns to the kernel.
    pub(crate) fn take_purgeable(&self, page: usize) -> Absent {
        let free = self.unlink();
        let before = self.absent();
        let mut dead = before;
        let at_once = page.div_ceil(PAGE);
        for first in (0..absent::pages(self.bucket)).step_by(at_once) {
            let pages = first..first + at_once;
            if pages.end <= absent::pages(self.bucket)
                && pages.clone().all(|page| self.is_purgeable(page, &free, before))
            {
                dead.pages |= pages.fold(0, |bits, page| bits | 1 << page);
            }
        }
        let split = self.unit().split.load(Ordering::Relaxed);
        self.link(0..split, |number| free.has(number) && !dead.has(number));
        self.set_absent(dead.pages);
        Absent {
            pages: dead.pages & !before.pages,
            ..dead
        }
    }

    /// Whether a page holds free blocks alone, at least one of which was split off.
    fn is_purgeable(&self, page: usize, free: &Numbers, absent: Absent) -> bool {
        let split = self.unit().split.load(Ordering::Relaxed);
        let mut blocks = absent::blocks_in(page, self.bucket);
        !blocks.is_empty()
            && blocks.end <= split
            && blocks.all(|number| free.has(number) || absent.has(number))
    }

    /// Takes all blocks of both lists.
    fn unlink(&self) -> Numbers {
        let unit = self.unit();
        let split = unit.split.load(Ordering::Relaxed);
        let mut free = Numbers([0; WORDS]);
        let local = (
            unit.local.load(Ordering::Relaxed),
            unit.local_free.load(Ordering::Relaxed),
        );
        let chain = unit.remote.collect();
        for (mut next, count) in [local, (chain.head, chain.count)] {
            for _ in 0..count {
                let number = next.wrapping_sub(1);
                next = self.follow(next, split);
                if !free.add(number) {
                    let block = self.block(number) as usize;
                    integrity::report(Damage::DoubleFree, block, Some(self.bucket));
                }
            }
        }
        free
    }

    /// Makes the chosen blocks the local list, which is empty. They are free.
    fn link(&self, numbers: Range<u16>, is_chosen: impl Fn(u16) -> bool) {
        let mut first = Link::default();
        let mut count = 0;
        for number in numbers.rev().filter(|number| is_chosen(*number)) {
            let block = self.block(number);
            // SAFETY: the block is free, and no other thread has it.
            unsafe {
                integrity::write_link(block, first);
                integrity::set_tag(block);
            }
            first = Link {
                next: number + 1,
                second: first.next,
                third: first.second,
            };
            count += 1;
        }
        let unit = self.unit();
        unit.local.store(first.next, Ordering::Relaxed);
        unit.local_free.store(count, Ordering::Relaxed);
    }

    /// Turns the first absent page into blocks again, or so many that a whole block is in them: they become the local
    /// list, which is empty. Returns false if no page is absent.
    pub(super) fn restore(&self) -> bool {
        let before = self.absent();
        let mut after = before;
        for page in before.each_page() {
            after.pages &= !(1 << page);
            let first = absent::blocks_in(before.pages.trailing_zeros() as usize, self.bucket).start;
            let numbers = first..absent::blocks_in(page, self.bucket).end;
            let back = |number: u16| before.has(number) && !after.has(number);
            if numbers.clone().any(back) {
                self.link(numbers, back);
                break;
            }
        }
        if after != before {
            self.set_absent(after.pages);
        }
        after != before
    }
}
