//! The order of trials: a seeded shuffle with its own small generator, so that a seed means the same order in
//! every version of the program.

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`; the bias of the multiplication is below `bound / 2^64`.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

/// Shuffles the combinations of one repeat (Fisher-Yates). Another repeat gets another order.
pub fn shuffle<T>(items: &mut [T], seed: u64, repeat: u32) {
    let mut generator = SplitMix64(seed ^ u64::from(repeat).rotate_left(32));
    for last in (1..items.len()).rev() {
        items.swap(last, generator.below(last + 1));
    }
}
