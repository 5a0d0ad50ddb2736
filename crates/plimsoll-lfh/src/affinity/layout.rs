//! Where things are in a slot.

use crate::bucket::{BUCKETS, Bucket};

/// Bytes of a slot; a power of two, so that a section finds it by a shift.
pub(crate) const SLOT: usize = 1 << SLOT_SHIFT;
pub(super) const SLOT_SHIFT: u32 = 16;
/// Bytes of a step, in which positions in a slot are counted: those of a pointer.
pub(crate) const STEP: usize = size_of::<u64>();

/// Bytes of blocks that the array of a bucket may hold, as far as [`MOST_POINTERS`] allows.
const MOST_BYTES: usize = 64 << 10;
/// Pointers of the largest array: an odd number of cache lines.
pub(crate) const MOST_POINTERS: usize = 248;
/// Pointers of the smallest array: a cache line.
pub(crate) const FEWEST_POINTERS: usize = 8;

/// Where the arrays begin, in steps: after a header for each bucket, in whole cache lines.
const ARRAYS: usize = (BUCKETS + 1).next_multiple_of(8);

/// Where the array of each bucket begins, in steps; the last entry is where the last array ends.
///
/// Arrays are an odd number of cache lines, so that they do not all begin in the same few sets of the cache.
static BEGIN: [u16; BUCKETS + 2] = BEGIN_TABLE;
const BEGIN_TABLE: [u16; BUCKETS + 2] = {
    let mut table = [0; BUCKETS + 2];
    let mut at = ARRAYS;
    let mut number = 1;
    while number <= BUCKETS {
        table[number] = at as u16;
        let Some(bucket) = Bucket::new(number as u8) else {
            panic!("numbers up to BUCKETS have a bucket")
        };
        let mut pointers = MOST_BYTES / bucket.size();
        if pointers > MOST_POINTERS {
            pointers = MOST_POINTERS;
        }
        // Odd multiples of eight.
        pointers = (pointers.saturating_sub(FEWEST_POINTERS) / 16) * 16 + FEWEST_POINTERS;
        at += pointers;
        number += 1;
    }
    table[number] = at as u16;
    table
};

/// Where the records of the slow path are, in steps: the active subsegment of each bucket, and the lock.
const RECORDS: usize = BEGIN_TABLE[BUCKETS + 1] as usize;

/// Where the active subsegments are, in bytes: a `u32` for each bucket.
pub(super) const ACTIVE: usize = RECORDS * STEP;
/// Where the lock of a slot that sections do not serve is, in bytes.
pub(crate) const LOCK: usize = ACTIVE + (BUCKETS + 1).next_multiple_of(16) * size_of::<u32>();

/// The header of a hardened heap's quarantine: that of bucket 0, which is none.
pub(crate) const QUARANTINE_HEADER: usize = 0;
/// Pointers of its array.
pub(crate) const QUARANTINED: usize = 64;
/// Where that array begins, in steps: behind the lock, in cache lines of its own.
pub(crate) const QUARANTINE: u16 = (LOCK / STEP + 8) as u16;

/// Rows of runs, see `runs`, and the pointers that the array of each has room for: a cache line.
pub(crate) const RUN_ROWS: usize = 3;
pub(crate) const RUN_POINTERS: usize = 8;
/// Units of the shortest run that a row holds: 32 KiB.
pub(crate) const SHORTEST_RUN: u32 = 2;
/// Where the headers of the rows are, in steps: in a cache line of their own. The arrays follow.
pub(super) const RUN_HEADERS: usize = QUARANTINE as usize + QUARANTINED;

const _: () = assert!(run_begin(RUN_ROWS) as usize * STEP <= SLOT);

/// Units of a run of a row.
pub(crate) const fn units_of(row: usize) -> u32 {
    row as u32 + SHORTEST_RUN
}

/// Where the array of a row begins, in steps.
pub(super) const fn run_begin(row: usize) -> u16 {
    (RUN_HEADERS + 8 + row * RUN_POINTERS) as u16
}

/// Where the array of `bucket` begins, in steps.
pub(crate) fn begin(bucket: Bucket) -> u16 {
    BEGIN[bucket.index()]
}

/// The most pointers that the array of `bucket` can hold.
pub(crate) fn most_pointers(bucket: Bucket) -> u16 {
    BEGIN[bucket.index() + 1] - BEGIN[bucket.index()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_adjacent_and_have_their_capacity() {
        assert!(begin(Bucket::new(1).unwrap()) as usize > BUCKETS);
        for bucket in Bucket::all() {
            let pointers = most_pointers(bucket) as usize;
            assert!((FEWEST_POINTERS..=MOST_POINTERS).contains(&pointers));
            assert_eq!(pointers / 8 % 2, 1, "{bucket:?}");
            assert!(pointers == FEWEST_POINTERS || pointers * bucket.size() <= MOST_BYTES);
        }
    }
}
