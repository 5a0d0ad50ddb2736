//! Contents of pages by owner and round, and their check: every byte.

pub(crate) const PAGE: usize = 4096;

/// Bytes of noise that a page begins with, and that the store cannot compress.
const NOISE: usize = 640;

/// The contents of a page: different for each page, owner and round.
pub(crate) fn contents(page: usize, owner: usize, round: u64) -> [u8; PAGE] {
    let mut bytes = [(owner as u8) ^ (round as u8); PAGE];
    let mut x = (page as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ round << 32 ^ (owner as u64) << 1;
    for word in bytes[..NOISE].as_chunks_mut::<8>().0 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        *word = x.to_ne_bytes();
    }
    bytes
}

/// Fills whole pages.
pub(crate) fn fill(bytes: &mut [u8], owner: usize, round: u64) {
    for (page, bytes) in bytes.chunks_exact_mut(PAGE).enumerate() {
        bytes.copy_from_slice(&contents(page, owner, round));
    }
}

/// Whether whole pages are as [`fill`] left them.
pub(crate) fn is_as_filled(bytes: &[u8], owner: usize, round: u64) -> bool {
    let mut pages = bytes.chunks_exact(PAGE).enumerate();
    pages.all(|(page, bytes)| *bytes == contents(page, owner, round))
}
