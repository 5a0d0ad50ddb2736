//! The sizes of blocks that the low-fragmentation front end knows.

/// Bytes of the smallest block. Blocks are aligned to it.
pub const SMALLEST_BLOCK: usize = 16;
/// Bytes of the largest block of a bucket. A larger block is an extent of its own.
pub const LARGEST_BLOCK: usize = 16 << 10;
/// Buckets are numbered from 1 to this; 0 is none.
pub const BUCKETS: usize = 8 + 7 * 8;

/// A block size, by number: 16 to 128 in steps of 16, then eight sizes to each doubling, so that from 128 on two
/// neighbours are at most an eighth apart.
///
/// Invariant: `1 <= number <= BUCKETS`. Checked by `buckets_are_at_most_an_eighth_apart`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Bucket(u8);

impl Bucket {
    /// The bucket of that number; none for 0 and beyond [`BUCKETS`].
    pub const fn new(number: u8) -> Option<Bucket> {
        match number {
            0 => None,
            number if number as usize > BUCKETS => None,
            number => Some(Bucket(number)),
        }
    }

    /// The bucket of a number that is known to be one.
    ///
    /// # Safety
    /// `number` is from 1 to [`BUCKETS`].
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) const unsafe fn new_unchecked(number: u8) -> Bucket {
        Bucket(number)
    }

    /// The smallest bucket whose blocks hold `bytes`; none beyond [`LARGEST_BLOCK`].
    #[inline(always)]
    pub const fn for_size(bytes: usize) -> Option<Bucket> {
        if bytes <= LARGEST_BLOCK {
            Some(Bucket(OF_STEPS[bytes.div_ceil(SMALLEST_BLOCK)]))
        } else {
            None
        }
    }

    /// The smallest bucket whose blocks hold `bytes` and all start at multiples of `align`, a power of two; none
    /// where no bucket does.
    ///
    /// That is the bucket of `bytes` rounded up to `align`: between two doublings the sizes are multiples of one step.
    /// If `align` divides the step, it divides each size; otherwise the rounded number is one of the sizes itself.
    #[inline]
    pub const fn for_layout(bytes: usize, align: usize) -> Option<Bucket> {
        let rest = align - 1;
        match bytes.checked_add(rest) {
            Some(more) if more < align => Bucket::for_size(align),
            Some(more) => Bucket::for_size(more & !rest),
            None => None,
        }
    }

    /// Its number, from 1 to [`BUCKETS`].
    #[inline(always)]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Its number as an index.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Bytes of one of its blocks.
    #[inline(always)]
    pub const fn size(self) -> usize {
        SIZES[self.0 as usize] as usize
    }

    /// Every bucket, from the smallest.
    pub fn all() -> impl Iterator<Item = Bucket> {
        (1..=BUCKETS as u8).map(Bucket)
    }
}

/// The number of the smallest bucket for `bytes`, from 0 to [`LARGEST_BLOCK`].
const fn compute(bytes: usize) -> u8 {
    if bytes <= 128 {
        let steps = bytes.div_ceil(SMALLEST_BLOCK);
        return if steps == 0 { 1 } else { steps as u8 };
    }
    let last = bytes - 1;
    let log = usize::BITS - 1 - last.leading_zeros();
    let doubling = log - 7;
    let step = (last >> (log - 3)) & 7;
    (9 + doubling * 8 + step as u32) as u8
}

/// The bucket of each multiple of 16. One table for all sizes: a program's sizes touch a few of its cache lines.
static OF_STEPS: [u8; LARGEST_BLOCK / SMALLEST_BLOCK + 1] = {
    let mut table = [0; LARGEST_BLOCK / SMALLEST_BLOCK + 1];
    let mut at = 0;
    while at < table.len() {
        table[at] = compute(at * SMALLEST_BLOCK);
        at += 1;
    }
    table
};

/// Bytes of a block, by bucket number.
static SIZES: [u16; BUCKETS + 1] = {
    let mut table = [0; BUCKETS + 1];
    let mut number = 1;
    while number <= BUCKETS {
        table[number] = if number <= 8 {
            (number * SMALLEST_BLOCK) as u16
        } else {
            let doubling = (number - 9) / 8;
            let step = (number - 9) % 8;
            ((128 << doubling) + ((128 << doubling) / 8) * (step + 1)) as u16
        };
        number += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_at_most_an_eighth_apart() {
        let sizes: [usize; BUCKETS] = core::array::from_fn(|at| Bucket(at as u8 + 1).size());
        assert_eq!((sizes[0], sizes[BUCKETS - 1]), (SMALLEST_BLOCK, LARGEST_BLOCK));
        for pair in sizes.windows(2) {
            assert!(pair[0] < pair[1]);
            assert!(pair[1] - pair[0] <= SMALLEST_BLOCK.max(pair[0] / 8), "{pair:?}");
            assert_eq!(pair[1] % SMALLEST_BLOCK, 0);
        }
        assert_eq!((Bucket::new(0), Bucket::new(BUCKETS as u8 + 1)), (None, None));
    }

    #[test]
    fn every_size_goes_to_the_smallest_bucket_that_holds_it() {
        for bytes in 0..=LARGEST_BLOCK {
            let bucket = Bucket::for_size(bytes).expect("a small size has a bucket");
            assert!(bucket.size() >= bytes);
            let below = Bucket::new(bucket.number() - 1);
            assert!(
                below.is_none_or(|below| below.size() < bytes),
                "{bytes}: {bucket:?}"
            );
        }
        assert_eq!(Bucket::for_size(LARGEST_BLOCK + 1), None);
    }

    /// Each candidate of a layout was divided by the alignment, which took most of the time of `posix_memalign`.
    #[test]
    fn layouts_go_to_the_smallest_bucket_that_holds_and_aligns_them() {
        for shift in 0..=15 {
            let align = 1 << shift;
            for bytes in 0..=LARGEST_BLOCK + 1 {
                let fits = |bucket: &Bucket| bucket.size() >= bytes && bucket.size().is_multiple_of(align);
                assert_eq!(
                    Bucket::for_layout(bytes, align),
                    Bucket::all().find(fits),
                    "{bytes} at {align}"
                );
            }
        }
        assert_eq!(Bucket::for_layout(usize::MAX, 64), None);
        assert_eq!(Bucket::for_layout(1, 1 << 63), None);
    }
}
