//! Subsegments (slabs): runs of units of the back end, split into blocks of one bucket.
//!
//! Blocks are side by side from the start; the rest at the end is less than an eighth. A subsegment is 1, 2, 4 or 8
//! units and starts at a multiple of its length, so the start follows from any address in it. Its description is that
//! of its first unit.
#![allow(unsafe_code)]

mod absent;
mod purgeable;

use core::sync::atomic::Ordering;

pub(crate) use self::absent::{Absent, PAGE};
use crate::arena;
use crate::block_table::{self, HIDDEN};
use crate::bucket::{BUCKETS, Bucket};
use crate::integrity::{self, Damage};
use crate::remote_free::SubsegmentState;
use crate::unit::{UNIT, Unit, UnitIndex};

/// Added to the bucket's number in the bucket table while pages of the subsegment are absent: no fast path knows such
/// a bucket, so every free looks whether the block is absent, and thus free already.
const SPARSE: u8 = BUCKETS as u8;

const _: () = assert!(2 * BUCKETS <= HIDDEN as usize);

/// Bytes that one call splits off the untouched part of a subsegment: about a page.
const SPLIT_AT_ONCE: usize = 4096;

/// The geometry of blocks of a bucket in a subsegment.
#[derive(Debug, Clone, Copy)]
struct Geometry {
    /// Bytes of the subsegment - 1; a power of two - 1.
    mask: u32,
    /// 2^32 / bytes of a block, rounded up: an offset is a multiple of the block's size exactly if the low half of its
    /// product with this is below this, and the high half is the quotient (for offsets below 2^17 and sizes up to 2^14).
    reciprocal: u32,
}

/// By the number of the bucket table. Nothing starts at a block of bucket 0, nor of one that is sparse or hidden.
static GEOMETRY: [Geometry; 256] = {
    let mut table = [Geometry {
        mask: 0,
        reciprocal: 0,
    }; 256];
    let mut number = 1;
    while number <= BUCKETS {
        let Some(bucket) = Bucket::new(number as u8) else {
            panic!("numbers up to BUCKETS have a bucket")
        };
        table[number] = Geometry {
            mask: (units(bucket) as usize * UNIT - 1) as u32,
            reciprocal: (1_u64 << 32).div_ceil(bucket.size() as u64) as u32,
        };
        number += 1;
    }
    table
};

/// Counts of blocks of a subsegment, which slow paths ask for too often to divide for them.
#[derive(Debug, Clone, Copy)]
struct Counts {
    /// All.
    capacity: u16,
    /// With so many free blocks it is sparse: so few are in use that some pages are likely without any.
    sparse: u16,
}

/// By bucket number.
static COUNTS: [Counts; BUCKETS + 1] = {
    let mut table = [Counts {
        capacity: 0,
        sparse: 0,
    }; BUCKETS + 1];
    let mut number = 1;
    while number <= BUCKETS {
        let Some(bucket) = Bucket::new(number as u8) else {
            panic!("numbers up to BUCKETS have a bucket")
        };
        table[number] = Counts {
            capacity: capacity(bucket),
            sparse: purgeable::sparse_from(bucket),
        };
        number += 1;
    }
    table
};

/// The bucket that a number of the bucket table means; none for 0 and for those of hardened heaps.
pub(crate) fn bucket_of(number: u8) -> Option<Bucket> {
    Bucket::new(number).or_else(|| Bucket::new(number.checked_sub(SPARSE)?))
}

/// Units of a subsegment of the bucket.
pub(crate) const fn units(bucket: Bucket) -> u32 {
    match bucket.size() {
        ..=1024 => 1,
        1025..=4096 => 2,
        4097..=8192 => 4,
        _ => 8,
    }
}

/// Blocks of a subsegment of the bucket.
pub(crate) const fn capacity(bucket: Bucket) -> u16 {
    (units(bucket) as usize * UNIT / bucket.size()) as u16
}

/// Whether a block of the bucket of that number of the bucket table may start at an address of one of its
/// subsegments. Never for numbers that fast paths do not know.
#[inline(always)]
pub(crate) fn starts_block(number: u8, address: usize) -> bool {
    let geometry = GEOMETRY[number as usize];
    let offset = address as u32 & geometry.mask;
    offset.wrapping_mul(geometry.reciprocal) < geometry.reciprocal
}

/// Whether the block that starts at an address of a subsegment of the bucket is absent. Reads the description only if
/// pages of the subsegment are.
pub(crate) fn is_absent(block: usize, bucket: Bucket) -> bool {
    let number = arena::bucket_of_unit(arena::unit_within(block)).load(Ordering::Relaxed);
    let subsegment = Subsegment::containing(block, bucket);
    number != bucket.number() && subsegment.absent().has(subsegment.number(block as *mut u8))
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Subsegment {
    pub(crate) first: UnitIndex,
    pub(crate) bucket: Bucket,
    start: usize,
}

impl Subsegment {
    /// The subsegment of `bucket` whose first unit is `first`.
    pub(crate) fn new(first: UnitIndex, bucket: Bucket) -> Subsegment {
        Subsegment {
            first,
            bucket,
            start: arena::address_of(first),
        }
    }

    /// The subsegment of `bucket` in which `address` is.
    #[inline]
    pub(crate) fn containing(address: usize, bucket: Bucket) -> Subsegment {
        let start = address & !(GEOMETRY[bucket.index()].mask as usize);
        Subsegment {
            first: ((start - arena::window()) / UNIT) as UnitIndex,
            bucket,
            start,
        }
    }

    /// Its description.
    #[inline]
    pub(crate) fn unit(&self) -> &'static Unit {
        arena::unit(self.first)
    }

    pub(crate) fn capacity(&self) -> u16 {
        COUNTS[self.bucket.index()].capacity
    }

    /// The number of the block that starts at `block`.
    #[inline]
    pub(crate) fn number(&self, block: *mut u8) -> u16 {
        let offset = (block as usize - self.start) as u64;
        ((offset * u64::from(GEOMETRY[self.bucket.index()].reciprocal)) >> 32) as u16
    }

    #[inline]
    pub(crate) fn block(&self, number: u16) -> *mut u8 {
        (self.start + number as usize * self.bucket.size()) as *mut u8
    }

    /// Makes a run that was just taken a subsegment, of a slot.
    pub(crate) fn begin(&self, hidden: bool) {
        let unit = self.unit();
        unit.bucket.store(self.bucket.number(), Ordering::Relaxed);
        let mut number = self.bucket.number();
        if hidden {
            block_table::begin_subsegment(self.start, units(self.bucket));
            number |= HIDDEN;
        }
        self.set_number(number);
        unit.remote.start();
    }

    /// Writes its number into the bucket table.
    fn set_number(&self, number: u8) {
        for at in 0..units(self.bucket) {
            arena::bucket_of_unit(self.first + at).store(number, Ordering::Release);
        }
    }

    /// Resets the lists. All blocks are free, and count as never allocated afterwards.
    pub(crate) fn reset(&self, state: SubsegmentState) {
        let unit = self.unit();
        unit.local.store(0, Ordering::Relaxed);
        unit.local_free.store(0, Ordering::Relaxed);
        unit.split.store(0, Ordering::Relaxed);
        self.set_absent(0);
        unit.remote.end(state, self.capacity());
    }

    /// Ends the subsegment, before its run goes to the back end. All blocks are free.
    pub(crate) fn end(&self) {
        self.reset(SubsegmentState::Nothing);
        self.set_number(0);
        self.unit().bucket.store(0, Ordering::Relaxed);
    }

    /// Free blocks outside the chain. Bucket's lock.
    pub(crate) fn unchained(&self) -> u16 {
        let unit = self.unit();
        let split = unit.split.load(Ordering::Relaxed);
        unit.local_free.load(Ordering::Relaxed) + (self.capacity() - split) + self.absent().count()
    }

    /// Takes up to `blocks.len()` blocks: freed ones, or if there are none, those of an absent page, or some that were
    /// never allocated. All have a tag. The subsegment is active, and the caller holds the bucket's lock. Returns how
    /// many.
    pub(crate) fn take(&self, blocks: &mut [*mut u8]) -> usize {
        let mut taken = self.take_local(blocks);
        if taken < blocks.len() && self.collect() {
            taken += self.take_local(&mut blocks[taken..]);
        }
        if taken == 0 && self.restore() {
            taken = self.take_local(blocks);
        }
        if taken == 0 {
            taken = self.split_off(blocks);
        }
        taken
    }

    /// Makes the chain the local list, which is empty. Returns false if there is no chain.
    fn collect(&self) -> bool {
        let unit = self.unit();
        let chain = unit.remote.collect();
        unit.local.store(chain.head, Ordering::Relaxed);
        unit.local_free.store(chain.count, Ordering::Relaxed);
        chain.count > 0
    }

    fn take_local(&self, blocks: &mut [*mut u8]) -> usize {
        let unit = self.unit();
        let free = unit.local_free.load(Ordering::Relaxed) as usize;
        let split = unit.split.load(Ordering::Relaxed);
        let count = free.min(blocks.len());
        let mut next = unit.local.load(Ordering::Relaxed);
        for taken in &mut blocks[..count] {
            *taken = self.block(next.wrapping_sub(1));
            next = self.follow(next, split);
        }
        unit.local.store(next, Ordering::Relaxed);
        unit.local_free.store((free - count) as u16, Ordering::Relaxed);
        count
    }

    /// The number + 1 of the block that comes after the free one of number `next` - 1 in its list, of the first `split`
    /// blocks. The process ends if the link is damaged.
    fn follow(&self, next: u16, split: u16) -> u16 {
        let block = self.block(next.wrapping_sub(1));
        let link = match next {
            0 => None,
            // SAFETY: the number + 1 of a block that was split off: checked when it was read.
            _ => unsafe { integrity::read_link(block) },
        };
        let Some(link) = link.filter(|link| link.next <= split) else {
            integrity::report(Damage::WrittenAfterFree, block as usize, Some(self.bucket))
        };
        // Another processor may have freed the blocks: fetch a few of their lines at a time.
        if link.third != 0 {
            prefetch(self.block(link.third - 1));
        }
        link.next
    }

    /// Splits off blocks that were never allocated: about a page of them.
    fn split_off(&self, blocks: &mut [*mut u8]) -> usize {
        let unit = self.unit();
        let split = unit.split.load(Ordering::Relaxed);
        let at_once = (SPLIT_AT_ONCE / self.bucket.size()).max(1);
        let count = blocks.len().min(at_once).min((self.capacity() - split) as usize);
        for (number, block) in (split..).zip(&mut blocks[..count]) {
            *block = self.block(number);
            // A tag is read before it is written: of an absent page, that would be a fault for the zero page and one for its copy.
            // SAFETY: the block is of this subsegment, was never allocated, and has at least two words.
            unsafe {
                block.cast::<u64>().write_volatile(0);
                integrity::set_tag(*block);
            }
        }
        unit.split.store(split + count as u16, Ordering::Relaxed);
        count
    }

    /// Panics unless the description is that of a subsegment whose lists are whole, while no thread uses it. Returns
    /// the numbers of the free blocks.
    #[cfg(test)]
    pub(crate) fn check(&self) -> std::collections::BTreeSet<u16> {
        let unit = self.unit();
        let free = unit.remote.load();
        let split = unit.split.load(Ordering::Relaxed);
        assert!(split <= self.capacity());
        let mut blocks: std::collections::BTreeSet<u16> = (split..self.capacity()).collect();
        let lists = [
            (free.head, free.chained),
            (
                unit.local.load(Ordering::Relaxed),
                unit.local_free.load(Ordering::Relaxed),
            ),
        ];
        let absent = self.absent();
        for number in (0..self.capacity()).filter(|number| absent.has(*number)) {
            assert!(
                number < split && blocks.insert(number),
                "block {number} is absent"
            );
        }
        let known = bucket_of(arena::bucket_of_unit(self.first).load(Ordering::Relaxed));
        assert_eq!(known, Some(self.bucket));
        for (head, count) in lists {
            let mut next = head;
            for _ in 0..count {
                assert!((1..=split).contains(&next), "link {next} of {split} blocks");
                assert!(blocks.insert(next - 1), "block {next} is free twice");
                let block = self.block(next - 1);
                // SAFETY: a block of this subsegment that is free.
                unsafe {
                    assert!(integrity::has_tag(block));
                    next = integrity::read_link(block).expect("a link").next;
                }
            }
            assert_eq!(next, 0, "a list is longer than it says");
        }
        if free.state != SubsegmentState::Active {
            assert_eq!(free.unchained, self.unchained());
        }
        blocks
    }
}

/// Has the processor fetch the block's first line, if it can, without waiting for it.
#[inline(always)]
fn prefetch(block: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which never faults.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(block.cast());
    }
    let _ = block;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_an_eighth_of_a_subsegment_is_no_block() {
        for bucket in Bucket::all() {
            let bytes = units(bucket) as usize * UNIT;
            let blocks = capacity(bucket) as usize;
            assert!(blocks >= 4);
            assert!((bytes - blocks * bucket.size()) * 8 <= bytes, "{bucket:?}");
        }
    }

    #[test]
    fn starts_and_numbers_are_found_by_multiplication() {
        for bucket in Bucket::all() {
            let geometry = GEOMETRY[bucket.index()];
            for offset in 0..units(bucket) as usize * UNIT {
                let multiple = offset.is_multiple_of(bucket.size());
                assert_eq!(
                    starts_block(bucket.number(), offset),
                    multiple,
                    "{offset} {bucket:?}"
                );
                if multiple {
                    let number = (offset as u64 * u64::from(geometry.reciprocal)) >> 32;
                    assert_eq!(number as usize, offset / bucket.size());
                }
            }
        }
        assert!((0..1 << 14).all(|address| !starts_block(0, address)));
    }
}
