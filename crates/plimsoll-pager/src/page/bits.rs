//! Sets of chunk numbers, a bit each.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bits of a word.
const BITS: u32 = u64::BITS;

/// Words that `count` numbers need.
pub(super) const fn words(count: u32) -> usize {
    count.div_ceil(BITS) as usize
}

/// A set of numbers in words of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bits<'w>(pub(super) &'w [AtomicU64]);

impl Bits<'_> {
    pub(super) fn has(self, number: u32) -> bool {
        let word = self.0.get((number / BITS) as usize);
        word.is_some_and(|word| word.load(Ordering::Acquire) >> (number % BITS) & 1 == 1)
    }

    /// Adds a number. Returns whether it is new.
    pub(super) fn insert(self, number: u32) -> bool {
        let bit = 1 << (number % BITS);
        self.0[(number / BITS) as usize].fetch_or(bit, Ordering::AcqRel) & bit == 0
    }

    pub(super) fn remove(self, number: u32) {
        self.0[(number / BITS) as usize].fetch_and(!(1 << (number % BITS)), Ordering::AcqRel);
    }

    /// Adds the numbers from `first` up to `end`, a word at a time.
    pub(super) fn insert_all(self, first: u32, end: u32) {
        for (word, bits) in parts(first, end) {
            self.0[word].fetch_or(bits, Ordering::AcqRel);
        }
    }

    /// Removes the numbers from `first` up to `end`, a word at a time.
    pub(super) fn remove_all(self, first: u32, end: u32) {
        for (word, bits) in parts(first, end) {
            self.0[word].fetch_and(!bits, Ordering::AcqRel);
        }
    }

    /// The first number from `from` on.
    pub(super) fn next(self, from: u32) -> Option<u32> {
        let first = (from / BITS) as usize;
        let mut mask = u64::MAX << (from % BITS);
        for (index, word) in self.0.iter().enumerate().skip(first) {
            let bits = word.load(Ordering::Acquire) & mask;
            if bits != 0 {
                return Some(index as u32 * BITS + bits.trailing_zeros());
            }
            mask = u64::MAX;
        }
        None
    }
}

/// The words, by index, that hold the numbers from `first` up to `end`, with the bits of those.
fn parts(first: u32, end: u32) -> impl Iterator<Item = (usize, u64)> {
    let words = match first < end {
        true => first / BITS..end.div_ceil(BITS),
        false => 0..0,
    };
    words.map(move |word| {
        let start = first.saturating_sub(word * BITS);
        let count = (end - word * BITS).min(BITS) - start;
        (word as usize, u64::MAX >> (BITS - count) << start)
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn members(bits: Bits<'_>) -> Vec<u32> {
        let mut next = 0;
        std::iter::from_fn(|| {
            let number = bits.next(next)?;
            next = number + 1;
            Some(number)
        })
        .collect()
    }

    #[test]
    fn a_set_has_the_numbers_that_were_added() {
        let table: Vec<AtomicU64> = (0..words(300)).map(|_| AtomicU64::new(0)).collect();
        let bits = Bits(&table);
        assert!(bits.insert(63) && bits.insert(64) && bits.insert(299) && !bits.insert(64));
        assert_eq!(members(bits), [63, 64, 299]);
        assert!(bits.has(299) && !bits.has(298) && !bits.has(100_000));
        bits.remove(64);
        assert_eq!(members(bits), [63, 299]);
    }

    #[test]
    fn ranges_are_added_and_removed_whole() {
        let table: Vec<AtomicU64> = (0..words(300)).map(|_| AtomicU64::new(0)).collect();
        let bits = Bits(&table);
        for (first, end) in [(0, 64), (5, 5), (60, 200), (3, 4), (128, 192), (0, 300)] {
            bits.insert_all(first, end);
            assert_eq!(members(bits), (first..end).collect::<Vec<_>>());
            bits.remove_all(first, end);
            assert_eq!(members(bits), Vec::<u32>::new());
        }
    }
}
