//! One block of the allocator under test, with the marks that verify it.
//!
//! Premises of the unsafe code: a [`Block`] is the only owner of `size` bytes at `address`, from the allocation of the
//! memory to its free. The bytes may be shared all the same when the allocator is broken; the marks detect that, and
//! therefore they are written and read as volatile bytes through the pointer, never through references.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use crate::error::LoadError;

/// Bytes between the marks inside of a block that is marked page by page.
const PAGE: u32 = 4096;

/// A block, or none: a block of zero bits is [`Block::NONE`].
///
/// Its first and last byte hold marks drawn at random. Dropping it does not free it.
#[derive(Debug)]
#[repr(C)]
#[must_use]
pub struct Block {
    address: Option<NonNull<u8>>,
    /// 0 where there is no block, else at least 1.
    size: u32,
    /// The first byte's mark in bits 0-7, the last byte's in bits 8-15.
    tag: u32,
}

// SAFETY: the block owns its bytes, and malloc's memory may be used and freed by any thread.
unsafe impl Send for Block {}

impl Block {
    pub const NONE: Block = Block {
        address: None,
        size: 0,
        tag: 0,
    };

    /// A block of `size` bytes (at least 1) at `address`, marked with the low 16 bits of `tag`.
    ///
    /// # Safety
    /// The bytes can be read and written until [`Block::into_address`] consumes the block, and no other code uses them
    /// as anything but bytes.
    #[inline(always)]
    pub unsafe fn marked(address: NonNull<u8>, size: u32, tag: u32) -> Block {
        let block = Block {
            address: Some(address),
            size,
            tag,
        };
        let at = address.as_ptr();
        // SAFETY: both bytes are inside of the block, as `size` is at least 1.
        unsafe {
            at.write_volatile(block.first());
            at.add(size as usize - 1).write_volatile(block.last());
        }
        block
    }

    /// Its size in bytes, 0 where there is no block.
    #[inline(always)]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The address, or none; the caller owns the memory.
    #[inline(always)]
    pub fn into_address(self) -> Option<NonNull<u8>> {
        self.address
    }

    /// The mark of the first byte; a block of one byte has the last one's mark alone.
    #[inline(always)]
    fn first(&self) -> u8 {
        if self.size == 1 {
            self.last()
        } else {
            self.tag as u8
        }
    }

    #[inline(always)]
    fn last(&self) -> u8 {
        (self.tag >> 8) as u8
    }

    /// Compares the first and the last byte with their marks.
    ///
    /// # Errors
    /// [`LoadError::WrongByte`] when one differs.
    #[inline(always)]
    pub fn verify(&self) -> Result<(), LoadError> {
        if self.size == 0 {
            return Ok(());
        }
        if self.byte(0) != self.first() {
            return Err(self.wrong(0, self.first()));
        }
        if self.byte(self.size - 1) != self.last() {
            return Err(self.wrong(self.size - 1, self.last()));
        }
        Ok(())
    }

    /// Compares the first byte, and byte `offset`, with the marks of a block that was `offset + 1` bytes long: a resize
    /// must keep them.
    pub(crate) fn verify_kept(&self, offset: u32) -> Result<(), LoadError> {
        if offset > 0 && self.byte(0) != self.tag as u8 {
            return Err(self.wrong(0, self.tag as u8));
        }
        if self.byte(offset) != self.last() {
            return Err(self.wrong(offset, self.last()));
        }
        Ok(())
    }

    /// The same block after the allocator resized it, marked as it was before but not yet at its new end.
    ///
    /// # Safety
    /// As for [`Block::marked`].
    pub(crate) unsafe fn resized(address: NonNull<u8>, size: u32, tag: u32) -> Block {
        Block {
            address: Some(address),
            size,
            tag,
        }
    }

    /// The seed of the marks.
    pub(crate) fn tag(&self) -> u32 {
        self.tag
    }

    /// Marks the last byte, and the first byte of every page of the block from byte `from` on.
    pub(crate) fn mark_pages(&mut self, from: u32) {
        let Some(address) = self.address else { return };
        for offset in (from.next_multiple_of(PAGE)..self.size - 1).step_by(PAGE as usize) {
            // SAFETY: the offset is below the block's size.
            unsafe { address.as_ptr().add(offset as usize).write_volatile(self.first()) };
        }
        // SAFETY: the last byte is inside of the block.
        unsafe {
            address
                .as_ptr()
                .add(self.size as usize - 1)
                .write_volatile(self.last())
        };
    }

    /// Compares the marks of every page with their expected values.
    pub(crate) fn verify_pages(&self) -> Result<(), LoadError> {
        self.verify()?;
        for offset in (PAGE..self.size.saturating_sub(1)).step_by(PAGE as usize) {
            if self.byte(offset) != self.first() {
                return Err(self.wrong(offset, self.first()));
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn byte(&self, offset: u32) -> u8 {
        debug_assert!(offset < self.size);
        match self.address {
            // SAFETY: callers stay below the block's size, and the block owns its bytes.
            Some(address) => unsafe { address.as_ptr().add(offset as usize).read_volatile() },
            None => 0,
        }
    }

    #[cold]
    #[inline(never)]
    fn wrong(&self, offset: u32, written: u8) -> LoadError {
        LoadError::WrongByte {
            address: self.address.map_or(0, |address| address.as_ptr() as usize),
            size: self.size,
            offset,
            written,
            found: self.byte(offset),
        }
    }
}
