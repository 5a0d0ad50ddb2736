//! Where blocks come from: the allocator under test, or places that cost nothing.
//!
//! Premises of the unsafe code: `malloc` and `realloc` return memory of the size asked for or null; the places of
//! [`Fixed`] lie `stride` bytes apart in its mapping, no block is larger than that, and callers keep a [`Fixed`] for as
//! long as they use its blocks, which is why no other crate has it.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use crate::block::Block;
use crate::error::LoadError;
use crate::mapping::Mapping;

/// What gives blocks and takes them back. Blocks are marked when given and verified when taken.
pub trait Source {
    /// A block of `size` bytes, at least 1, marked with `tag`.
    ///
    /// # Errors
    /// [`LoadError::OutOfMemory`] when there is no memory.
    fn allocate(&mut self, size: u32, tag: u32) -> Result<Block, LoadError>;

    /// Verifies a block and takes it back.
    ///
    /// # Errors
    /// [`LoadError::WrongByte`] when the block is not as it was given.
    fn release(&mut self, block: Block) -> Result<(), LoadError>;

    /// Releases a block and allocates another one in its stead. After an error there is none.
    ///
    /// # Errors
    /// As [`Source::release`] and [`Source::allocate`].
    #[inline(always)]
    fn replace(&mut self, block: &mut Block, size: u32, tag: u32) -> Result<(), LoadError> {
        self.release(std::mem::replace(block, Block::NONE))?;
        *block = self.allocate(size, tag)?;
        Ok(())
    }

    /// Makes a block larger and verifies that it kept what it held; its new last byte is not yet marked.
    ///
    /// # Errors
    /// As [`Source::release`] and [`Source::allocate`].
    fn grow(&mut self, block: &mut Block, size: u32) -> Result<(), LoadError>;
}

/// C's `malloc`, `realloc` and `free` of this process.
#[derive(Debug, Clone, Copy)]
pub struct Calls;

impl Source for Calls {
    #[inline(always)]
    fn allocate(&mut self, size: u32, tag: u32) -> Result<Block, LoadError> {
        // SAFETY: malloc has no precondition.
        match NonNull::new(unsafe { libc::malloc(size as usize) }) {
            // SAFETY: malloc gave `size` bytes to us alone.
            Some(address) => Ok(unsafe { Block::marked(address.cast(), size, tag) }),
            None => Err(LoadError::OutOfMemory { size }),
        }
    }

    #[inline(always)]
    fn release(&mut self, block: Block) -> Result<(), LoadError> {
        block.verify()?;
        let address = block.into_address().map_or(std::ptr::null_mut(), NonNull::as_ptr);
        // SAFETY: the block owned memory of malloc, or is none, and is gone now; free takes null.
        unsafe { libc::free(address.cast()) };
        Ok(())
    }

    fn grow(&mut self, block: &mut Block, size: u32) -> Result<(), LoadError> {
        block.verify()?;
        let before = std::mem::replace(block, Block::NONE);
        let (old_size, tag) = (before.size(), before.tag());
        let Some(address) = before.into_address() else {
            *block = self.allocate(size, tag)?;
            return Ok(());
        };
        // SAFETY: the block owned memory of malloc and is gone now.
        match NonNull::new(unsafe { libc::realloc(address.as_ptr().cast(), size as usize) }) {
            Some(address) => {
                // SAFETY: realloc gave `size` bytes to us alone.
                *block = unsafe { Block::resized(address.cast(), size, tag) };
                block.verify_kept(old_size - 1)
            }
            None => Err(LoadError::OutOfMemory { size }),
        }
    }
}

/// Fixed places in a mapping, one block a place: the ideal allocator, which costs nothing. A load that runs on it costs
/// what its generator costs: drawing numbers, looking up, writing and verifying marks.
#[derive(Debug)]
pub(crate) struct Fixed {
    mapping: Mapping,
    places: usize,
    stride: usize,
    next: usize,
}

/// Places take at most this much memory; a larger table is measured by its part.
const LARGEST: usize = 256 << 20;

impl Fixed {
    /// Places for up to `count` blocks of up to `largest` bytes: as many as fit into 256 MiB, at least one.
    ///
    /// # Errors
    /// [`LoadError::Mapping`] when the system gives no memory.
    pub(crate) fn new(count: usize, largest: u32) -> Result<Fixed, LoadError> {
        let stride = (largest as usize).next_multiple_of(16);
        let places = (LARGEST / stride).clamp(1, count.max(1));
        let mapping = Mapping::new(places * stride)?;
        Ok(Fixed {
            mapping,
            places,
            stride,
            next: 0,
        })
    }

    /// How many blocks can be held at a time.
    pub(crate) fn places(&self) -> usize {
        self.places
    }
}

impl Source for Fixed {
    /// The next place, the first one after the last: a block must be released before its place comes round again.
    #[inline(always)]
    fn allocate(&mut self, size: u32, tag: u32) -> Result<Block, LoadError> {
        assert!(size as usize <= self.stride, "a place is too small");
        let place = self.next;
        self.next = if place + 1 == self.places { 0 } else { place + 1 };
        // SAFETY: the place is inside of the mapping.
        let address = unsafe { self.mapping.address().add(place * self.stride) };
        // SAFETY: a place is as large as the largest block, and its last block was released, as callers see to; were
        // it not, its bytes would still be ours.
        Ok(unsafe { Block::marked(address, size, tag) })
    }

    #[inline(always)]
    fn release(&mut self, block: Block) -> Result<(), LoadError> {
        block.verify()
    }

    /// The new block takes the place of the old one.
    #[inline(always)]
    fn replace(&mut self, block: &mut Block, size: u32, tag: u32) -> Result<(), LoadError> {
        assert!(size as usize <= self.stride, "a place is too small");
        block.verify()?;
        match std::mem::replace(block, Block::NONE).into_address() {
            // SAFETY: the place is as large as the largest block, and the old block is gone.
            Some(address) => *block = unsafe { Block::marked(address, size, tag) },
            None => *block = self.allocate(size, tag)?,
        }
        Ok(())
    }

    fn grow(&mut self, block: &mut Block, size: u32) -> Result<(), LoadError> {
        assert!(size as usize <= self.stride, "a place is too small");
        block.verify()?;
        let before = std::mem::replace(block, Block::NONE);
        let (old_size, tag) = (before.size(), before.tag());
        match before.into_address() {
            Some(address) => {
                // SAFETY: the place is as large as the largest block.
                *block = unsafe { Block::resized(address, size, tag) };
                block.verify_kept(old_size - 1)
            }
            None => {
                *block = self.allocate(size, tag)?;
                Ok(())
            }
        }
    }
}
