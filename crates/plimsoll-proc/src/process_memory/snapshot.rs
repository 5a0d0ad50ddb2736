//! Memory of a process as a validation reads it: pages that were read stay until the reader looks again.
//!
//! A check of a subsegment reads each of its free blocks. By a system call for each, it took a millisecond or more, in
//! which the blocks of a busy program had always changed.

use std::cell::RefCell;

use plimsoll_os::{Memory, MemoryError};

use super::BoundedMemory;

/// Bytes that are read at once. Base pages are as long or longer, so a part of one is readable if the whole is.
const PAGE: usize = 4096;
/// Pages that are kept: more than the longest subsegment has, with its description.
const PAGES: usize = 256;

/// Bytes of a read that is not copied.
const LONG: usize = 64 * 1024;

/// The memory of another process, with copies of the last pages that were read.
#[derive(Debug)]
pub struct Snapshot {
    memory: BoundedMemory,
    pages: RefCell<Pages>,
}

#[derive(Debug)]
struct Pages {
    /// Address of each page, 0 for none. A page has one place.
    addresses: [usize; PAGES],
    bytes: Vec<u8>,
}

impl Snapshot {
    /// The memory of the process `pid`.
    pub fn new(pid: u32) -> Snapshot {
        Snapshot {
            memory: BoundedMemory::new(pid),
            pages: RefCell::new(Pages {
                addresses: [0; PAGES],
                bytes: vec![0; PAGES * PAGE],
            }),
        }
    }
}

impl Memory for Snapshot {
    fn read(&self, address: usize, into: &mut [u8]) -> Result<(), MemoryError> {
        // A long read would replace the copies of most pages.
        if into.len() > LONG {
            return self.memory.read(address, into);
        }
        let mut pages = self.pages.borrow_mut();
        let mut at = address;
        let mut left = into;
        while !left.is_empty() {
            let start = at & !(PAGE - 1);
            let length = left.len().min(start.saturating_add(PAGE) - at);
            let (piece, rest) = left.split_at_mut(length);
            let page = pages.page(&self.memory, start)?;
            piece.copy_from_slice(&page[at - start..][..length]);
            (at, left) = (at + length, rest);
        }
        Ok(())
    }

    fn refresh(&self) {
        self.pages.borrow_mut().addresses = [0; PAGES];
    }
}

impl Pages {
    /// The page at an address, read unless it was.
    fn page(&mut self, memory: &BoundedMemory, address: usize) -> Result<&[u8], MemoryError> {
        let place = address / PAGE % PAGES;
        let page = &mut self.bytes[place * PAGE..][..PAGE];
        if self.addresses[place] != address || address == 0 {
            self.addresses[place] = 0;
            memory.read(address, page)?;
            self.addresses[place] = address;
        }
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of this process, in several pages.
    fn words() -> Vec<u64> {
        (0..5000).collect()
    }

    #[test]
    fn pages_stay_until_the_next_look() {
        let mut words = words();
        let snapshot = Snapshot::new(std::process::id());
        let address = words.as_ptr().expose_provenance();
        let read = |snapshot: &Snapshot| {
            let mut bytes = vec![0; 5000 * 8];
            snapshot.read(address, &mut bytes).expect("it is memory");
            let words = bytes
                .chunks_exact(8)
                .map(|word| word.try_into().expect("8 bytes"));
            words.map(u64::from_ne_bytes).collect::<Vec<_>>()
        };
        assert_eq!(read(&snapshot), words);
        let before = words.clone();
        words[3000] = 7;
        assert_eq!(read(&snapshot), before);
        snapshot.refresh();
        assert_eq!(read(&snapshot), words);
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let snapshot = Snapshot::new(std::process::id());
        let mut bytes = [0; 64];
        for address in [8, PAGE - 8, usize::MAX - 8] {
            let read = snapshot.read(address, &mut bytes);
            assert!(matches!(read, Err(MemoryError::Unreadable { .. })), "{address}");
        }
    }
}
