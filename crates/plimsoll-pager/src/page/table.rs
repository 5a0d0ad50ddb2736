//! The words of all pages of an arena.
#![allow(unsafe_code, reason = "the words of all pages, in a mapping of their own")]

use std::ptr::NonNull;
use std::slice;

use plimsoll_os::{Advice, Errno, address_space};

use super::{PageIndex, PageWord};

/// One word a page, in a mapping of its own: untouched words occupy no RAM.
///
/// Invariant: `words` is a mapping of `count` words that this value owns. Words are atomics, for which every bit pattern,
/// zero too, is valid.
#[derive(Debug)]
pub struct PageTable {
    words: NonNull<PageWord>,
    count: usize,
}

// SAFETY: the words are atomics in memory that this value owns.
unsafe impl Send for PageTable {}
// SAFETY: as above; shared access is by atomic operations.
unsafe impl Sync for PageTable {}

impl PageTable {
    /// A table of `count` virgin pages.
    ///
    /// # Errors
    /// [`Errno::NOMEM`] if the address space has no room, [`Errno::INVAL`] for no pages.
    pub fn new(count: u32) -> Result<PageTable, Errno> {
        let bytes = count as usize * size_of::<PageWord>();
        let start = address_space::map(bytes)?;
        // A huge page would make more resident than is counted. A kernel without them refuses.
        let _ = address_space::advise(start, bytes, Advice::NoHugePage);
        let words = NonNull::new(start as *mut PageWord).ok_or(Errno::NOMEM)?;
        Ok(PageTable {
            words,
            count: count as usize,
        })
    }

    /// The word of `page`.
    ///
    /// # Panics
    /// `page` is not in the arena.
    pub fn word(&self, page: PageIndex) -> &PageWord {
        &self.words()[page.index()]
    }

    /// The number of pages.
    pub fn count(&self) -> u32 {
        self.count as u32
    }

    /// The address of the first word.
    pub(crate) fn address(&self) -> usize {
        self.words.as_ptr() as usize
    }

    fn words(&self) -> &[PageWord] {
        // SAFETY: by the invariant the mapping holds `count` valid words for the life of `self`.
        unsafe { slice::from_raw_parts(self.words.as_ptr(), self.count) }
    }
}

impl Drop for PageTable {
    fn drop(&mut self) {
        let bytes = self.count * size_of::<PageWord>();
        // SAFETY: the mapping is this value's, and no reference into it outlives `self`.
        let _ = unsafe { address_space::unmap(self.words.as_ptr() as usize, bytes) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::PageTable;
    use crate::page::{PageIndex, Word};

    #[test]
    fn a_table_of_many_pages_costs_nothing_untouched() {
        let table = PageTable::new(1 << 28).expect("address space for 1 TiB of pages");
        for page in [0, 1 << 20, (1 << 28) - 1] {
            assert_eq!(table.word(PageIndex::new(page)).load(), Word::VIRGIN);
        }
    }
}
