//! Sources of blocks: the allocator under test, or places that cost nothing.
//!
//! Premises of the unsafe code: `malloc` and `realloc` return memory of the requested size or null; the places of
//! [`Fixed`] are in its mapping, and callers keep a [`Fixed`] for as long as they use its blocks, which is why no other
//! crate has it.
#![allow(unsafe_code)]

use std::hint::black_box;
use std::ptr::NonNull;

use crate::block::Block;
use crate::error::LoadError;
use crate::mapping::Mapping;

/// A source of blocks. It marks blocks when it allocates them and verifies them when it frees them.
pub trait Source {
    /// A block of `size` bytes, at least 1, marked with `tag`.
    ///
    /// # Errors
    /// [`LoadError::OutOfMemory`] when there is no memory.
    fn allocate(&mut self, size: u32, tag: u32) -> Result<Block, LoadError>;

    /// Verifies a block and frees it.
    ///
    /// # Errors
    /// [`LoadError::WrongByte`] if a mark of the block has changed.
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

    /// Makes a block larger and verifies that it kept its contents; its new last byte is not yet marked.
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
            // SAFETY: malloc returned `size` bytes for this caller alone.
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
                // SAFETY: realloc returned `size` bytes for this caller alone.
                *block = unsafe { Block::resized(address.cast(), size, tag) };
                block.verify_kept(old_size - 1)
            }
            None => Err(LoadError::OutOfMemory { size }),
        }
    }
}

/// Fixed places in a mapping: the ideal allocator, which costs nothing and wastes nothing. A load that runs on it
/// measures its generator: drawing numbers, looking up, writing and verifying marks, and reaching the blocks.
///
/// A block keeps the place and the size of the one that it replaces, for any requested size.
#[derive(Debug)]
pub(crate) struct Fixed {
    mapping: Mapping,
    bytes: usize,
    next: usize,
    largest: u32,
    /// The least that a block's place takes.
    room: usize,
}

/// Places take at most this much memory; a larger table is measured by its part.
const LARGEST: usize = 256 << 20;

impl Fixed {
    /// Room for `count` blocks of up to `largest` bytes, or as many as fit into 256 MiB, at least one; the blocks are
    /// side by side.
    pub(crate) fn packed(count: usize, largest: u32) -> Result<Fixed, LoadError> {
        Fixed::new(count, largest, 0)
    }

    /// The same; each block has room to grow.
    pub(crate) fn roomy(count: usize, largest: u32) -> Result<Fixed, LoadError> {
        Fixed::new(count, largest, rounded(largest))
    }

    fn new(count: usize, largest: u32, room: usize) -> Result<Fixed, LoadError> {
        let bytes = rounded(largest) * (LARGEST / rounded(largest)).clamp(1, count.max(1));
        Ok(Fixed {
            mapping: Mapping::new(bytes)?,
            bytes,
            next: 0,
            largest,
            room,
        })
    }

    /// How many blocks of the largest size can be held at a time.
    pub(crate) fn places(&self) -> usize {
        self.bytes / rounded(self.largest)
    }
}

/// The bytes of a place for a block.
fn rounded(size: u32) -> usize {
    (size as usize).next_multiple_of(16)
}

impl Source for Fixed {
    /// The next place, the first one after the last: a block must be released before its place comes round again.
    #[inline(always)]
    fn allocate(&mut self, size: u32, tag: u32) -> Result<Block, LoadError> {
        let place = rounded(size).max(self.room);
        if self.next + place > self.bytes {
            self.next = 0;
        }
        assert!(
            size <= self.largest && place <= self.bytes,
            "a block is larger than was said"
        );
        // SAFETY: the place is inside of the mapping, as was just seen to.
        let address = unsafe { self.mapping.address().add(self.next) };
        self.next += place;
        // SAFETY: the bytes are this mapping's, and callers keep it. Were another block still there, its bytes would be
        // overwritten, and it would be found out.
        Ok(unsafe { Block::marked(address, size, tag) })
    }

    #[inline(always)]
    fn release(&mut self, block: Block) -> Result<(), LoadError> {
        block.verify()
    }

    #[inline(always)]
    fn replace(&mut self, block: &mut Block, size: u32, tag: u32) -> Result<(), LoadError> {
        black_box(size);
        block.verify()?;
        let before = std::mem::replace(block, Block::NONE);
        let kept = before.size();
        match before.into_address() {
            // SAFETY: the bytes are those of the old block, which is gone.
            Some(address) => *block = unsafe { Block::marked(address, kept, tag) },
            None => *block = self.allocate(size, tag)?,
        }
        Ok(())
    }

    fn grow(&mut self, block: &mut Block, size: u32) -> Result<(), LoadError> {
        assert!(size as usize <= self.room, "the place has no room to grow");
        block.verify()?;
        let before = std::mem::replace(block, Block::NONE);
        let (old_size, tag) = (before.size(), before.tag());
        match before.into_address() {
            Some(address) => {
                // SAFETY: the place has room for `size` bytes.
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
