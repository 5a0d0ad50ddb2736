//! Absent pages: pages of a subsegment that returned to the kernel while other blocks of it are in use.
//!
//! Only a page without a byte of a block in use returns, and all blocks with a byte in it are absent with it. So a bit
//! for each page, away from the blocks, describes them: an absent block has no link and no tag, and is in no list.

use super::{capacity, units};
use crate::bucket::Bucket;
use crate::unit::UNIT;

/// Bytes of one bit. If the system's pages are larger, all bits of a page are set at once.
pub(crate) const PAGE: usize = 4096;

const _: () = assert!(
    8 * UNIT / PAGE <= u32::BITS as usize,
    "a bit for each page of the longest"
);

/// Which pages of a subsegment of a bucket are absent, a bit each from the first page on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Absent {
    pub(crate) pages: u32,
    pub(crate) bucket: Bucket,
}

/// Pages of a subsegment of the bucket.
pub(crate) const fn pages(bucket: Bucket) -> usize {
    units(bucket) as usize * UNIT / PAGE
}

/// The numbers of the blocks that have a byte in a page.
pub(crate) fn blocks_in(page: usize, bucket: Bucket) -> core::ops::Range<u16> {
    let first = page * PAGE / bucket.size();
    let end = ((page + 1) * PAGE).div_ceil(bucket.size());
    let capacity = capacity(bucket);
    (first as u16).min(capacity)..(end as u16).min(capacity)
}

impl Absent {
    /// Whether the block of that number is absent.
    pub(crate) fn has(self, number: u16) -> bool {
        let start = number as usize * self.bucket.size();
        let (first, last) = (start / PAGE, (start + self.bucket.size() - 1) / PAGE);
        let of_block = (2_u64 << last) - (1_u64 << first);
        u64::from(self.pages) & of_block != 0
    }

    /// How many blocks are absent.
    pub(crate) fn count(self) -> u16 {
        let (mut count, mut counted_to) = (0, 0);
        for page in self.each_page() {
            let blocks = blocks_in(page, self.bucket);
            count += blocks.end.saturating_sub(blocks.start.max(counted_to));
            counted_to = blocks.end.max(counted_to);
        }
        count
    }

    /// The absent pages, from the first.
    pub(crate) fn each_page(self) -> impl Iterator<Item = usize> {
        let mut left = self.pages;
        core::iter::from_fn(move || {
            let page = left.trailing_zeros() as usize;
            left &= left.checked_sub(1)?;
            Some(page)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_absent_with_each_page_that_they_have_a_byte_in() {
        for bucket in Bucket::all() {
            let all = ((1_u64 << pages(bucket)) - 1) as u32;
            for set in [0, 1, 2, 0b1011, 0x8000_0001, 0x5555_5555, u32::MAX] {
                let absent = Absent {
                    pages: set & all,
                    bucket,
                };
                let mut counted = 0;
                for number in 0..capacity(bucket) {
                    let start = number as usize * bucket.size();
                    let bytes = start..start + bucket.size();
                    let in_one = absent
                        .each_page()
                        .any(|page| bytes.start < (page + 1) * PAGE && page * PAGE < bytes.end);
                    assert_eq!(absent.has(number), in_one, "{number} of {bucket:?}, {set:b}");
                    counted += u16::from(in_one);
                }
                assert_eq!(absent.count(), counted, "{bucket:?}, {set:b}");
            }
        }
    }
}
