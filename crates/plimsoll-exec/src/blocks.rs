//! The program's blocks: of the heap, over the arena, or of unmanaged memory.
#![allow(unsafe_code, reason = "blocks that are freed and resized by their addresses")]

use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_c_malloc::Source;
use plimsoll_lfh::Heap;

use crate::{callers, unmanaged};

/// Whether the heap serves blocks: once its memory is set. Until then all blocks are unmanaged.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

/// Has the heap serve blocks from here on.
pub(crate) fn open() {
    IS_OPEN.store(true, Ordering::Release);
}

/// Blocks for code at an address: of the heap, unless the C library or the dynamic linker asks for its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForCaller(pub(crate) usize);

/// Blocks for the program, whose allocating calls name no caller: those of C++.
pub(crate) const FOR_PROGRAM: ForCaller = ForCaller(0);

impl ForCaller {
    #[inline(always)]
    fn is_managed(self, size: usize) -> bool {
        IS_OPEN.load(Ordering::Acquire) && (size > callers::LARGEST || !callers::is_system(self.0))
    }

    /// Copies a block to a new one of the other kind, or of unmanaged memory, and frees it.
    ///
    /// # Safety
    /// As for [`Source::reallocate`]; the block is not null.
    unsafe fn move_to(self, block: *mut u8, size: usize) -> *mut u8 {
        let new = self.allocate_or(size, || ());
        if !new.is_null() {
            // SAFETY: both blocks are that long; the old one is not used again.
            unsafe {
                ptr::copy_nonoverlapping(block, new, size.min(self.usable_size(block)));
                self.free(block);
            }
        }
        new
    }
}

impl Source for ForCaller {
    #[inline(always)]
    fn allocate_or(self, size: usize, no_memory: fn()) -> *mut u8 {
        if self.is_managed(size) {
            return Heap::process().allocate_or(size, no_memory);
        }
        let block = unmanaged::allocate(size);
        if block.is_null() {
            no_memory();
        }
        block
    }

    fn allocate_zeroed(self, size: usize) -> *mut u8 {
        match self.is_managed(size) {
            true => Heap::process().allocate_zeroed(size),
            false => unmanaged::allocate_zeroed(1, size),
        }
    }

    fn allocate_aligned(self, align: usize, size: usize) -> *mut u8 {
        match self.is_managed(size) {
            true => Heap::process().allocate_aligned(align, size),
            false => unmanaged::allocate_aligned(align, size),
        }
    }

    #[inline(always)]
    unsafe fn free(self, block: *mut u8) {
        // SAFETY: the caller's premise.
        unsafe {
            match unmanaged::contains(block as usize) {
                true => unmanaged::free(block),
                false => Heap::process().free(block),
            }
        }
    }

    unsafe fn reallocate(self, block: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: the caller's premise.
        unsafe {
            match (
                block.is_null(),
                unmanaged::contains(block as usize),
                self.is_managed(size),
            ) {
                (true, ..) => self.allocate_or(size, || ()),
                (_, true, false) => unmanaged::reallocate(block, size),
                // A short block of the C library may have been shorter than it is now.
                (_, true, true) => self.move_to(block, size),
                // A block of the heap stays one: the program made it.
                (_, false, _) => Heap::process().reallocate(block, size),
            }
        }
    }

    unsafe fn usable_size(self, block: *mut u8) -> usize {
        // SAFETY: the caller's premise.
        unsafe {
            match (block.is_null(), unmanaged::contains(block as usize)) {
                (true, _) => 0,
                (_, true) => unmanaged::usable_size(block),
                (_, false) => Heap::process().usable_size(block),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before the heap is open, all blocks are unmanaged.
    #[test]
    fn blocks_are_unmanaged_before_the_start() {
        let block = FOR_PROGRAM.allocate_zeroed(100);
        assert!(unmanaged::contains(block as usize));
        // SAFETY: the block is in use, and not used after it is freed.
        unsafe {
            block.write_bytes(7, 100);
            let longer = FOR_PROGRAM.reallocate(block, 100_000);
            assert_eq!((longer.read(), longer.add(99).read()), (7, 7));
            assert!(FOR_PROGRAM.usable_size(longer) >= 100_000);
            FOR_PROGRAM.free(longer);
            assert_eq!(FOR_PROGRAM.usable_size(ptr::null_mut()), 0);
            FOR_PROGRAM.free(ptr::null_mut());
        }
    }
}
