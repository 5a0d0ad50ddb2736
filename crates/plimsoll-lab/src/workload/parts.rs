//! Parts of a worker's memory: each is the work of one thread, and has its marks.

use std::ops::Range;

use plimsoll_os::{Range as MemoryRange, page_size};

use super::area::Area;

/// Consecutive pages of all mappings, counted through them.
#[derive(Debug)]
pub(crate) struct Part {
    pages: Range<u64>,
    marks: Marks,
}

/// The marks of the pages of a part. Marks go from the first page to the last and start over, so that their count
/// determines them.
#[derive(Debug, Clone, Copy, Default)]
struct Marks {
    /// Pages marked in all, each as often as it was.
    count: u64,
}

impl Marks {
    /// The first byte of page `page` of `pages`; `None` without a mark.
    fn byte(self, page: u64, pages: u64) -> Option<u8> {
        let turn = self.count / pages + u64::from(page < self.count % pages);
        (turn > 0).then_some(turn_byte(turn))
    }
}

/// The mark of a turn, counted from 1. It differs from the turn before.
fn turn_byte(turn: u64) -> u8 {
    turn as u8
}

impl Part {
    /// `pages` pages in `count` parts, at most one a page, that differ by a page at most.
    pub(super) fn split(pages: u64, count: u32) -> Vec<Part> {
        let count = u64::from(count).clamp(1, pages.max(1));
        let start = |number: u64| {
            let start = u128::from(pages) * u128::from(number) / u128::from(count);
            // At most `pages`.
            start as u64
        };
        (0..count)
            .map(|number| Part {
                pages: start(number)..start(number + 1),
                marks: Marks::default(),
            })
            .collect()
    }

    /// Takes `pages` more at its end.
    pub(super) fn grow(&mut self, pages: u64) {
        self.pages.end += pages;
    }

    pub(super) fn len(&self) -> u64 {
        self.pages.end - self.pages.start
    }

    /// The mark of its page `page`, counted from its first one.
    pub(super) fn mark(&self, page: u64) -> Option<u8> {
        self.marks.byte(page, self.len())
    }
}

pub(super) fn pages_of(mapping: &Area) -> u64 {
    mapping.len().div_ceil(page_size()) as u64
}

/// Stretches of one mapping each: its number, and the bytes in it. A last page may be used in part.
pub(super) fn stretches(lengths: &[usize], part: &Part) -> Vec<(usize, Range<usize>)> {
    let (page_size, mut stretches, mut first) = (page_size() as u64, Vec::new(), 0);
    for (number, &length) in lengths.iter().enumerate() {
        let pages = (length as u64).div_ceil(page_size);
        let from = part.pages.start.clamp(first, first + pages) - first;
        let end = part.pages.end.clamp(first, first + pages) - first;
        if from < end {
            let end = (end * page_size).min(length as u64);
            stretches.push((number, (from * page_size) as usize..end as usize));
        }
        first += pages;
    }
    stretches
}

/// The memory of each part, of mappings by address and length.
pub(super) fn ranges_of(parts: &[Part], mappings: &[(u64, u64)]) -> Vec<Vec<MemoryRange>> {
    let lengths: Vec<usize> = mappings.iter().map(|(_, length)| *length as usize).collect();
    let of_part = |part| {
        let stretches = stretches(&lengths, part).into_iter();
        let range = |(number, range): (usize, Range<usize>)| MemoryRange {
            start: mappings[number].0 + range.start as u64,
            length: range.len() as u64,
        };
        stretches.map(range).collect()
    };
    parts.iter().map(of_part).collect()
}

/// A part that its thread may write.
#[derive(Debug)]
pub(crate) struct Writable<'m> {
    /// Number of its first page in the whole memory, and its bytes, in order.
    pub(super) stretches: Vec<Stretch<'m>>,
    pages: u64,
    marks: &'m mut Marks,
}

/// Bytes of one mapping.
#[derive(Debug)]
pub(super) struct Stretch<'m> {
    /// Offset of the first byte in the stream.
    pub(super) offset: u64,
    pub(super) bytes: &'m mut [u8],
}

/// All parts of the memory, each of which one thread may write.
pub(super) fn writable<'m>(mappings: &'m mut [Area], parts: &'m mut [Part]) -> Vec<Writable<'m>> {
    let lengths: Vec<usize> = mappings.iter().map(Area::len).collect();
    let ends: Vec<Vec<(usize, Range<usize>)>> = parts.iter().map(|part| stretches(&lengths, part)).collect();
    let mut rests: Vec<(u64, &'m mut [u8])> = Vec::with_capacity(mappings.len());
    let mut offset = 0;
    for mapping in mappings {
        let length = mapping.len() as u64;
        rests.push((offset, mapping.bytes_mut()));
        offset += length;
    }
    let cut = |(number, range): (usize, Range<usize>), rests: &mut Vec<(u64, &'m mut [u8])>| {
        let (offset, rest) = &mut rests[number];
        // The parts before it took the bytes up to its start.
        let (bytes, after) = std::mem::take(rest).split_at_mut(range.len());
        *rest = after;
        let stretch = Stretch {
            offset: *offset,
            bytes,
        };
        *offset += range.len() as u64;
        stretch
    };
    parts
        .iter_mut()
        .zip(ends)
        .map(|(part, ends)| Writable {
            stretches: ends.into_iter().map(|end| cut(end, &mut rests)).collect(),
            pages: part.len(),
            marks: &mut part.marks,
        })
        .collect()
}

impl Writable<'_> {
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// Writes one byte into each of the next `count` pages, and into the first again after the last.
    pub(crate) fn mark(&mut self, count: u64) {
        let (page_size, pages) = (page_size(), self.pages);
        let mut left = count;
        while left > 0 && pages > 0 {
            let byte = turn_byte(self.marks.count / pages + 1);
            let mut skipped = self.marks.count % pages;
            for Stretch { bytes, .. } in &mut self.stretches {
                let own = bytes.len().div_ceil(page_size) as u64;
                let first = skipped.min(own);
                let end = own.min(first + left);
                for page in first..end {
                    bytes[page as usize * page_size] = byte;
                }
                // Keeps the compiler from dropping the writes, which no code here reads.
                std::hint::black_box(bytes);
                self.marks.count += end - first;
                left -= end - first;
                skipped -= first;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A byte in no part would be neither filled nor compared; a byte in two would be written by two threads.
        #[test]
        fn parts_cover_every_byte_once_and_in_order(
            lengths in prop::collection::vec(1usize..40_000, 1..8), threads in 1u32..40, more in 0u64..3,
        ) {
            let pages: u64 = lengths.iter().map(|length| length.div_ceil(page_size()) as u64).sum();
            let mut parts = Part::split(pages.saturating_sub(more), threads);
            let grown = pages - pages.saturating_sub(more);
            parts.last_mut().unwrap().grow(grown);
            prop_assert_eq!(parts.len() as u64, u64::from(threads).clamp(1, pages.saturating_sub(more).max(1)));
            let (mut mapping, mut end) = (0, 0);
            for (number, range) in parts.iter().flat_map(|part| stretches(&lengths, part)) {
                if number != mapping {
                    prop_assert_eq!((number, end), (mapping + 1, lengths[mapping]));
                    (mapping, end) = (number, 0);
                }
                prop_assert!(range.start == end && range.end > end && range.start % page_size() == 0);
                end = range.end;
            }
            prop_assert_eq!((mapping, end), (lengths.len() - 1, lengths[lengths.len() - 1]));
        }

        #[test]
        fn parts_differ_by_a_page_at_most(pages in 1u64..u64::MAX, threads in 1u32..5000) {
            let parts = Part::split(pages, threads);
            let lengths = || parts.iter().map(Part::len);
            prop_assert!(lengths().max().unwrap() - lengths().min().unwrap() <= 1);
            prop_assert_eq!(lengths().sum::<u64>(), pages);
        }
    }
}
