//! A source of blocks.
#![allow(unsafe_code, reason = "blocks that are freed and resized by their addresses")]

use plimsoll_lfh::Heap;

/// A source of blocks, as the promises of the C symbols need it. Blocks are aligned to 16.
pub trait Source: Copy {
    /// A block of at least `size` bytes. Without memory it calls `no_memory` and returns null.
    fn allocate_or(self, size: usize, no_memory: fn()) -> *mut u8;

    /// A block of at least `size` bytes that are zero; null if no memory is left.
    fn allocate_zeroed(self, size: usize) -> *mut u8;

    /// A block of at least `size` bytes at a multiple of `align`, a power of two; null if no memory is left.
    fn allocate_aligned(self, align: usize, size: usize) -> *mut u8;

    /// Frees a block. Null is allowed.
    ///
    /// # Safety
    /// `block` is null or was returned by this source and is in use; it is not used again.
    unsafe fn free(self, block: *mut u8);

    /// Makes a block `size` bytes long; it may move. Null if no memory is left: the block stays as it was. No block is as
    /// [`Source::allocate_or`].
    ///
    /// # Safety
    /// `block` is null or was returned by this source and is in use; it is not used again, unless null is returned.
    unsafe fn reallocate(self, block: *mut u8, size: usize) -> *mut u8;

    /// Bytes of a block; 0 for null.
    ///
    /// # Safety
    /// `block` is null or was returned by this source and is in use.
    unsafe fn usable_size(self, block: *mut u8) -> usize;
}

impl Source for &'static Heap {
    #[inline(always)]
    fn allocate_or(self, size: usize, no_memory: fn()) -> *mut u8 {
        Heap::allocate_or(self, size, no_memory)
    }

    #[inline]
    fn allocate_zeroed(self, size: usize) -> *mut u8 {
        Heap::allocate_zeroed(self, size)
    }

    #[inline]
    fn allocate_aligned(self, align: usize, size: usize) -> *mut u8 {
        Heap::allocate_aligned(self, align, size)
    }

    #[inline(always)]
    unsafe fn free(self, block: *mut u8) {
        // SAFETY: the caller's premise.
        unsafe { Heap::free(self, block) };
    }

    #[inline]
    unsafe fn reallocate(self, block: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: the caller's premise.
        unsafe { Heap::reallocate(self, block, size) }
    }

    #[inline]
    unsafe fn usable_size(self, block: *mut u8) -> usize {
        // SAFETY: the caller's premise.
        unsafe { Heap::usable_size(self, block) }
    }
}
