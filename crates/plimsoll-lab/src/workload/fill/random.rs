//! The random stream: xoroshiro128+ in eight lanes, so that the compiler makes vectors of them.
//!
//! The stream is cut into blocks of [`BLOCK`] bytes, each with its own start state mixed from seed and block number.
//! Source of the generator: D. Blackman and S. Vigna, Scrambled linear pseudorandom number generators, 2021. A plain
//! one-lane generator reaches about 4 GB/s, less than half of the memory's write speed.
#![allow(unsafe_code, reason = "vector instructions, chosen at run time")]

/// Bytes of one block: small enough for the first-level cache, large enough to hide the cost of its start state.
pub(super) const BLOCK: usize = 16 * 1024;

const LANES: usize = 8;
/// Bytes that one step of all lanes yields.
const STEP: usize = LANES * size_of::<u64>();
const _: () = assert!(BLOCK.is_multiple_of(STEP));

/// Spreads the bits of `value` over 64 (the output function of SplitMix64).
pub(crate) fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// A random stream, with the block that was used last.
#[derive(Debug, Clone)]
pub(super) struct Source {
    seed: u64,
    /// Number of the block in `bytes`.
    cached: Option<u64>,
    bytes: Box<[u8; BLOCK]>,
}

impl Source {
    pub(super) fn new(seed: u64) -> Source {
        Source {
            seed,
            cached: None,
            bytes: Box::new([0; BLOCK]),
        }
    }

    /// The bytes of the stream from `offset` to the end of its block: at least one.
    pub(super) fn at(&mut self, offset: u64) -> &[u8] {
        let (block, within) = (offset / BLOCK as u64, (offset % BLOCK as u64) as usize);
        if self.cached != Some(block) {
            write_block(self.seed, block, &mut self.bytes);
            self.cached = Some(block);
        }
        &self.bytes[within..]
    }

    /// Writes the stream from `offset` on into all of `target`, whole blocks directly.
    pub(super) fn write(&mut self, mut offset: u64, mut target: &mut [u8]) {
        while !target.is_empty() {
            let length = if offset.is_multiple_of(BLOCK as u64)
                && let Some(block) = target.first_chunk_mut()
            {
                write_block(self.seed, offset / BLOCK as u64, block);
                BLOCK
            } else {
                let bytes = self.at(offset);
                let length = bytes.len().min(target.len());
                target[..length].copy_from_slice(&bytes[..length]);
                length
            };
            offset += length as u64;
            target = &mut target[length..];
        }
    }
}

/// Writes block number `block` of the stream of `seed`.
fn write_block(seed: u64, block: u64, target: &mut [u8; BLOCK]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        unsafe { generate_avx2(seed, block, target) };
        return;
    }
    generate(seed, block, target);
}

/// [`generate`] compiled for AVX2: vectors of four lanes instead of two.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn generate_avx2(seed: u64, block: u64, target: &mut [u8; BLOCK]) {
    generate(seed, block, target);
}

#[inline(always)]
fn generate(seed: u64, block: u64, target: &mut [u8; BLOCK]) {
    let start = mix(seed) ^ mix(!block);
    let mut first: [u64; LANES] = std::array::from_fn(|lane| mix(start.wrapping_add(lane as u64)));
    let mut second: [u64; LANES] = std::array::from_fn(|lane| mix(start.wrapping_sub(1 + lane as u64)));
    let (steps, _) = target.as_chunks_mut::<STEP>();
    for step in steps {
        let (words, _) = step.as_chunks_mut::<8>();
        for lane in 0..LANES {
            let (a, b) = (first[lane], second[lane]);
            words[lane] = a.wrapping_add(b).to_le_bytes();
            let b = b ^ a;
            first[lane] = a.rotate_left(24) ^ b ^ (b << 16);
            second[lane] = b.rotate_left(37);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The generator as its authors wrote it, one lane at a time.
    fn reference_lane(mut s0: u64, mut s1: u64, count: usize) -> Vec<u64> {
        (0..count)
            .map(|_| {
                let result = s0.wrapping_add(s1);
                s1 ^= s0;
                s0 = s0.rotate_left(24) ^ s1 ^ (s1 << 16);
                s1 = s1.rotate_left(37);
                result
            })
            .collect()
    }

    #[test]
    fn each_lane_is_the_published_generator() {
        let (seed, block) = (42, 3);
        let start = mix(seed) ^ mix(!block);
        let mut bytes = [0; BLOCK];
        write_block(seed, block, &mut bytes);
        for lane in 0..LANES {
            let expected = reference_lane(
                mix(start.wrapping_add(lane as u64)),
                mix(start.wrapping_sub(1 + lane as u64)),
                BLOCK / STEP,
            );
            let written = bytes
                .chunks(STEP)
                .map(|step| u64::from_le_bytes(step[lane * 8..lane * 8 + 8].try_into().unwrap()));
            assert!(written.eq(expected), "lane {lane}");
        }
    }

    #[test]
    fn the_stream_is_the_same_on_every_processor() {
        let (mut detected, mut portable) = ([0; BLOCK], [0; BLOCK]);
        write_block(1, 2, &mut detected);
        generate(1, 2, &mut portable);
        assert!(detected == portable);
    }
}
