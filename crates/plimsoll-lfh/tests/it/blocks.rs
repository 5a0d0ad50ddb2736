//! Many blocks, all written to: memory counts from then on.
#![allow(unsafe_code)]

use plimsoll_lfh::Heap;

/// Blocks of `total` bytes together, added to a list that has room for them.
pub(crate) fn fill(heap: &Heap, blocks: &mut Vec<*mut u8>, total: usize, mut size: impl FnMut() -> usize) {
    let mut left = total;
    while left > 0 {
        let size = size().clamp(1, left);
        let block = heap.allocate(size);
        assert!(!block.is_null());
        // SAFETY: the block was just made.
        unsafe { block.write_bytes(1, size) };
        blocks.push(block);
        left -= size;
    }
}

/// As [`fill`], with a list of its own.
pub(crate) fn filled(heap: &Heap, total: usize, size: impl FnMut() -> usize) -> Vec<*mut u8> {
    let mut blocks = Vec::with_capacity(total / 16);
    fill(heap, &mut blocks, total, size);
    blocks
}

pub(crate) fn free_all(heap: &Heap, blocks: impl IntoIterator<Item = *mut u8>) {
    for block in blocks {
        // SAFETY: the block is in use, and the caller's.
        unsafe { heap.free(block) };
    }
}

/// Whether all of a block is zero.
///
/// # Safety
/// The block is in use, and so long.
pub(crate) unsafe fn is_zero(block: *const u8, length: usize) -> bool {
    // SAFETY: the caller's premise.
    let (before, words, after) = unsafe { std::slice::from_raw_parts(block, length).align_to::<u128>() };
    words.iter().all(|word| *word == 0) && before.iter().chain(after).all(|byte| *byte == 0)
}
