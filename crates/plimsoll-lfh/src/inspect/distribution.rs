//! How many blocks of which size there are.

/// Ranges of block sizes: 1 KiB each up to 16 KiB, then a doubling each.
pub const RANGES: usize = 16 + 24;

/// Blocks in use and free, by range of their size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Distribution {
    /// Blocks in use.
    pub busy: [u64; RANGES],
    /// Free blocks.
    pub free: [u64; RANGES],
}

impl Distribution {
    /// No blocks.
    pub const EMPTY: Distribution = Distribution {
        busy: [0; RANGES],
        free: [0; RANGES],
    };

    /// The range that blocks of `bytes` are counted in. A size that is a range's end belongs to it.
    pub fn range_of(bytes: u64) -> usize {
        let last = bytes.saturating_sub(1);
        if last < 16 << 10 {
            return (last >> 10) as usize;
        }
        let doubling = last.ilog2() as usize - 14;
        (16 + doubling).min(RANGES - 1)
    }

    /// Bytes that blocks of a range are larger than, and bytes that they are at most.
    pub fn bounds(range: usize) -> (u64, u64) {
        match range {
            0..16 => ((range as u64) << 10, (range as u64 + 1) << 10),
            doubling => (1 << (doubling - 2), 1 << (doubling - 1)),
        }
    }

    /// Ranges that have blocks: number, busy, free.
    pub fn occupied(&self) -> impl Iterator<Item = (usize, u64, u64)> + '_ {
        (0..RANGES)
            .map(|range| (range, self.busy[range], self.free[range]))
            .filter(|(_, busy, free)| busy + free > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_within_the_bounds_of_its_range() {
        for range in 0..RANGES {
            let (above, to) = Distribution::bounds(range);
            assert_eq!(Distribution::range_of(above + 1), range);
            assert_eq!(Distribution::range_of(to), range);
        }
        assert_eq!(Distribution::range_of(0), 0);
        assert_eq!(Distribution::range_of(u64::MAX), RANGES - 1);
    }
}
