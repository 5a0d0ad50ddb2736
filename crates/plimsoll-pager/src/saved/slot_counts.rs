//! The pages of each slot of a page file that are still in use.

use std::sync::atomic::{AtomicU32, Ordering};

use plimsoll_os::{AtomicWords, Errno};

use crate::page_file::Slot;

/// A page, or the thread that fills the slot, in a slot's word.
const ONE: u64 = 1;
const LIVE_MASK: u64 = 0xffff;
/// Pages that the slot had at first, from this bit on.
const TOTAL_SHIFT: u32 = 16;
const TOTAL_MASK: u64 = 0xffff;
/// A block of the slot cannot be read: it is not cleaned.
const IS_DAMAGED: u64 = 1 << 32;

/// Slots that one search passes at most.
const MOST_SEARCHED: u32 = 1 << 16;

/// A word for each slot: pages in use, pages at first, and whether it is damaged.
///
/// Invariant: the pages in use are those whose word names a place in the slot, and one more while a thread fills the
/// slot. The thread that takes the last one away frees the slot.
/// Checked by `a_slot_ends_with_its_last_page`.
#[derive(Debug)]
pub(super) struct SlotCounts {
    words: AtomicWords,
    /// Slots that were ever filled: those below.
    begun: AtomicU32,
    /// The slot at which the next search begins.
    searched: AtomicU32,
}

/// Slots with few pages in use, emptiest first.
pub(super) type Victims = [Option<Slot>; MOST_VICTIMS];

/// Slots that one search finds.
pub(super) const MOST_VICTIMS: usize = 16;

impl SlotCounts {
    /// Counts for slots of numbers below `slots`.
    pub(super) fn new(slots: u32) -> Result<SlotCounts, Errno> {
        Ok(SlotCounts {
            words: AtomicWords::new(slots as usize)?,
            begun: AtomicU32::new(0),
            searched: AtomicU32::new(0),
        })
    }

    /// Begins to fill a slot, which is in use until [`SlotCounts::end`].
    pub(super) fn begin(&self, slot: Slot) {
        self.begun.fetch_max(slot.number() + 1, Ordering::Relaxed);
        self.words[slot.number() as usize].store(ONE, Ordering::Release);
    }

    /// Counts a page, before its word names the slot.
    pub(super) fn add(&self, slot: Slot) {
        self.words[slot.number() as usize].fetch_add(ONE, Ordering::Relaxed);
    }

    /// Counts a page of the slot out. Returns whether it was the last one: the caller then frees the slot.
    #[must_use]
    pub(super) fn remove(&self, slot: Slot) -> bool {
        let word = &self.words[slot.number() as usize];
        if word.fetch_sub(ONE, Ordering::AcqRel) & LIVE_MASK != ONE {
            return false;
        }
        word.store(0, Ordering::Relaxed);
        true
    }

    /// Ends the filling of a slot with so many pages. Returns as [`SlotCounts::remove`].
    #[must_use]
    pub(super) fn end(&self, slot: Slot, pages: u32) -> bool {
        let total = u64::from(pages).min(TOTAL_MASK) << TOTAL_SHIFT;
        self.words[slot.number() as usize].fetch_add(total, Ordering::Relaxed);
        self.remove(slot)
    }

    /// Marks a slot in use as damaged.
    pub(super) fn damage(&self, slot: Slot) {
        self.words[slot.number() as usize].fetch_or(IS_DAMAGED, Ordering::Relaxed);
    }

    /// Slots whose pages in use fit together into fewer slots, found in a part of all: those with less than `most` of 256
    /// of their pages in use.
    pub(super) fn victims(&self, most: u64) -> Victims {
        let begun = self.begun.load(Ordering::Relaxed);
        let mut found = [(u64::MAX, None); MOST_VICTIMS];
        let mut at = self.searched.load(Ordering::Relaxed);
        for _ in 0..begun.min(MOST_SEARCHED) {
            at = if at < begun { at } else { 0 };
            let word = self.words[at as usize].load(Ordering::Relaxed);
            let (live, total) = (word & LIVE_MASK, word >> TOTAL_SHIFT & TOTAL_MASK);
            if live > 0 && total > 0 && word & IS_DAMAGED == 0 {
                let share = live * 256 / total;
                if share < most && share < found[MOST_VICTIMS - 1].0 {
                    found[MOST_VICTIMS - 1] = (share, Slot::new(at));
                    found.sort_unstable_by_key(|(share, _)| *share);
                }
            }
            at += 1;
        }
        self.searched.store(at, Ordering::Relaxed);
        found.map(|(_, slot)| slot)
    }

    /// Bytes of RAM of the words.
    pub(super) fn bytes(&self) -> u64 {
        let words = u64::from(self.begun.load(Ordering::Relaxed)) * size_of::<u64>() as u64;
        words.next_multiple_of(crate::page::PAGE_SIZE as u64)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::SlotCounts;
    use crate::page_file::Slot;

    fn slot(number: u32) -> Slot {
        Slot::new(number).expect("a small number")
    }

    #[test]
    fn a_slot_ends_with_its_last_page() {
        let counts = SlotCounts::new(4).expect("memory");
        counts.begin(slot(1));
        counts.add(slot(1));
        counts.add(slot(1));
        assert!(
            !counts.remove(slot(1)),
            "one page is read back during the filling"
        );
        assert!(!counts.end(slot(1), 2));
        assert!(counts.remove(slot(1)));
        // All pages were refused, or read back during the filling.
        counts.begin(slot(1));
        counts.add(slot(1));
        assert!(!counts.remove(slot(1)));
        assert!(counts.end(slot(1), 1));
    }

    #[test]
    fn the_emptiest_slots_are_found_first() {
        let counts = SlotCounts::new(100).expect("memory");
        for number in 0..100 {
            counts.begin(slot(number));
            (0..100).for_each(|_| counts.add(slot(number)));
            assert!(!counts.end(slot(number), 100));
            (0..number).for_each(|_| assert!(!counts.remove(slot(number))));
        }
        counts.damage(slot(99));
        let victims = counts.victims(128).map(|slot| slot.map(Slot::number));
        let expected: Vec<u32> = (83..99).rev().collect();
        assert_eq!(victims.into_iter().flatten().collect::<Vec<_>>(), expected);
        assert_eq!(counts.victims(1), [None; 16]);
    }
}
