//! The blocks of a run of the Standard front end, read from anywhere.

use super::memory::{Memory, MemoryError};
use crate::standard::{HEADER, Header, RUN_STEPS, SMALLEST, STEP};

/// Bytes that are read at once: most blocks are small, so that many headers are among them.
const READ_AT_ONCE: usize = 4096;

/// The bytes of a run at the place of a block's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// Address of the header.
    pub(super) header: usize,
    /// The header's word, as it is.
    pub(super) word: u64,
    /// The decoded header; none if it is damaged, or changed during the read.
    pub(super) block: Option<Header>,
}

/// The blocks of a run, by address. Ends with the run, or after the first that is damaged, or that does not fit to the
/// one before it: at most [`RUN_STEPS`], for any contents of the memory.
#[derive(Debug)]
pub(super) struct Blocks<'m, M> {
    memory: &'m M,
    key: u64,
    at: usize,
    end: usize,
    /// Steps of the block before.
    previous: u32,
    read: [u8; READ_AT_ONCE],
    read_from: usize,
}

impl<'m, M: Memory> Blocks<'m, M> {
    pub(super) fn new(memory: &'m M, key: u64, run: usize) -> Blocks<'m, M> {
        let first = run + HEADER;
        Blocks {
            memory,
            key,
            at: first,
            end: first + RUN_STEPS as usize * STEP,
            previous: 0,
            read: [0; READ_AT_ONCE],
            read_from: 0,
        }
    }

    fn word(&mut self) -> Result<u64, MemoryError> {
        let page = self.at & !(READ_AT_ONCE - 1);
        if self.read_from != page {
            self.memory.read(page, &mut self.read)?;
            self.read_from = page;
        }
        let offset = self.at - page;
        Ok(u64::from_ne_bytes(
            *self.read[offset..]
                .first_chunk()
                .expect("headers do not cross pages"),
        ))
    }

    /// Whether a block with that header may begin here.
    fn fits(&self, block: &Header) -> bool {
        let room = ((self.end - self.at) / STEP) as u32;
        let size = match room {
            0 => block.size == 0 && block.in_use,
            room => (SMALLEST..=room).contains(&block.size),
        };
        size && block.previous == self.previous
    }
}

impl<M: Memory> Iterator for Blocks<'_, M> {
    type Item = Result<Found, MemoryError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at > self.end {
            return None;
        }
        let word = match self.word() {
            Ok(word) => word,
            Err(error) => {
                self.at = self.end + 1;
                return Some(Err(error));
            }
        };
        let header = self.at;
        let block = Header::decode(word, self.key).filter(|block| self.fits(block));
        match block {
            Some(block) if block.size > 0 => {
                self.at += block.size as usize * STEP;
                self.previous = block.size;
            }
            _ => self.at = self.end + 1,
        }
        Some(Ok(Found { header, word, block }))
    }
}
