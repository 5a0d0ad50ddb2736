//! A thread's blocks, in memory that is not the allocator's.
//!
//! Premise of the unsafe code: the mapping is large enough for `length` blocks, aligned to a page, and zeroed, and zero
//! bits are [`Block::NONE`].
#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};

use crate::block::Block;
use crate::error::LoadError;
use crate::mapping::Mapping;
use crate::source::Source;

/// A fixed number of blocks, none at first.
#[derive(Debug)]
pub(crate) struct Table {
    mapping: Mapping,
    length: usize,
}

impl Table {
    pub(crate) fn new(length: usize) -> Result<Table, LoadError> {
        let mapping = Mapping::new(length * size_of::<Block>())?;
        Ok(Table { mapping, length })
    }

    /// The bytes requested and live.
    pub(crate) fn live(&self) -> u64 {
        self.iter().map(|block| u64::from(block.size())).sum()
    }

    pub(crate) fn release<S: Source>(&mut self, source: &mut S) -> Result<(), LoadError> {
        for block in self.iter_mut() {
            source.release(std::mem::replace(block, Block::NONE))?;
        }
        Ok(())
    }
}

impl Deref for Table {
    type Target = [Block];

    fn deref(&self) -> &[Block] {
        // SAFETY: the module's premise; every bit pattern that is stored there was a `Block`.
        unsafe { std::slice::from_raw_parts(self.mapping.address().as_ptr().cast(), self.length) }
    }
}

impl DerefMut for Table {
    fn deref_mut(&mut self) -> &mut [Block] {
        // SAFETY: as above; `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.address().as_ptr().cast(), self.length) }
    }
}
