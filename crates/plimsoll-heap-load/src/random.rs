//! Pseudo-random numbers, the same for the same seed.

/// Marsaglia's xorshift64*, seeded through SplitMix64, so that neighbouring seeds and streams are unlike each other.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The numbers of one stream (of a thread, for example) of a seed.
    pub fn new(seed: u64, stream: u64) -> Random {
        let mut state = seed ^ stream.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        // The state of a xorshift must not be 0.
        Random((state ^ (state >> 31)) | 1)
    }

    /// The next 64 bits; the low ones are the weakest.
    #[inline(always)]
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, index(self.draw(), last + 1));
        }
    }
}

/// A number below `count`, at most 2^32, from the upper half of a draw; the lower half is left for a size.
#[inline(always)]
pub(crate) fn index(draw: u64, count: usize) -> usize {
    (((draw >> 32) * count as u64) >> 32) as usize
}
