//! Reading of entries: into memory of the reader's own, where they are checked and decompressed.
//!
//! The copy makes the check hold: the bytes that were checked are those that are decompressed. Readers take no lock.
#![allow(unsafe_code, reason = "a reader's buffers, whose zeroed memory is a value")]

use core::sync::atomic::Ordering;

use super::codec::{self, Decompressor};
use super::entry::{Codec, Flaw, HEADER, Header, LONGEST};
use super::lease::{Area, Areas, Lease};
use super::place::Spot;
use super::space::Space;
use super::units::{BLOCK, PAGE, Page, QUAD_BYTES, SEGMENT_UNITS, UNIT};

/// The readers of a store: 256 threads can read at a time.
pub(super) type Readers = Areas<ReaderArea, 4>;
pub(super) type Reader<'m> = Lease<'m, ReaderArea, 4>;

/// Memory of a reader.
#[repr(C, align(4096))]
pub(super) struct ReaderArea {
    /// Blocks of the page file, aligned for direct access: adjacent ones while an entry is in both.
    blocks: [[u8; BLOCK]; 2],
    /// The entry, as it is stored.
    pub(super) entry: [u8; LONGEST],
    /// The seals of the blocks; 0 for none.
    held: [u64; 2],
    /// The parts that are counted as resident, a bit each.
    counted: u8,
    /// The pages of the entry.
    plain: [u8; QUAD_BYTES],
    decompressor: Decompressor,
}

// SAFETY: zeros are a value of each field, and none needs a drop.
unsafe impl Area for ReaderArea {}

const _: () = assert!(core::mem::offset_of!(ReaderArea, blocks) == 0);

/// Parts of an area, and the bytes that they make resident.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
enum Part {
    /// The entry of one page.
    Page = 1,
    /// The rest of the entry.
    Entry = 2,
    /// Blocks of the page file.
    Blocks = 16,
    /// Several pages.
    Plain = 4,
    Decompressor = 8,
}

impl Part {
    fn bytes(self) -> usize {
        match self {
            // Two pages of the entry, and the one of `counted`.
            Part::Page => 3 * PAGE,
            Part::Entry => LONGEST.next_multiple_of(PAGE) - 2 * PAGE,
            Part::Blocks => 2 * BLOCK,
            Part::Plain => QUAD_BYTES,
            Part::Decompressor => Decompressor::used().next_multiple_of(PAGE) + PAGE,
        }
    }
}

impl ReaderArea {
    fn count(&mut self, space: &Space, part: Part) {
        if self.counted & part as u8 == 0 {
            self.counted |= part as u8;
            space.count(part.bytes());
        }
    }

    /// Copies an entry to `self.entry`, and checks it. Its live bits are those of a moment of the copy.
    ///
    /// # Errors
    /// As [`header`] and [`Header::check`].
    pub(super) fn load(&mut self, space: &Space, spot: Spot) -> Result<Header, Flaw> {
        let header = header(space, spot)?;
        let words = &space.words(spot.segment)[spot.unit as usize..][..header.units() as usize];
        self.count(space, Part::Page);
        if header.bytes() > PAGE + HEADER + UNIT {
            self.count(space, Part::Entry);
        }
        for (target, word) in self.entry.chunks_exact_mut(UNIT).zip(words) {
            target.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        Header::check(&self.entry[..header.bytes()])
    }

    /// Has the block with that seal at `index`: it is there, or at the other index, or `read` reads it.
    ///
    /// # Errors
    /// Those of `read`.
    pub(super) fn hold_block<E>(
        &mut self,
        space: &Space,
        index: usize,
        seal: u64,
        read: impl FnOnce(&mut [u8; BLOCK]) -> Result<(), E>,
    ) -> Result<(), E> {
        for part in [Part::Page, Part::Entry, Part::Blocks] {
            self.count(space, part);
        }
        if seal != 0 && self.held[index] == seal {
            return Ok(());
        }
        self.held[index] = 0;
        if seal != 0 && self.held[1 - index] == seal {
            self.blocks[index] = self.blocks[1 - index];
        } else {
            read(&mut self.blocks[index])?;
        }
        self.held[index] = seal;
        Ok(())
    }

    /// The offset behind the entry at `offset` of the blocks; past both of them if no entry is there.
    pub(super) fn end_of_entry(&self, offset: usize) -> usize {
        let word = |at: usize| {
            let bytes = self.blocks.as_flattened().get(at..at + UNIT).unwrap_or_default();
            bytes.try_into().map_or(0, u64::from_le_bytes)
        };
        Header::read(word(offset), word(offset + UNIT)).map_or(usize::MAX, |header| offset + header.bytes())
    }

    /// Checks the entry at `offset` of the first `count` blocks, and copies it to `self.entry`.
    ///
    /// # Errors
    /// As [`Header::check`].
    pub(super) fn load_from_blocks(&mut self, offset: usize, count: usize) -> Result<Header, Flaw> {
        let bytes = self.blocks[..count]
            .as_flattened()
            .get(offset..)
            .unwrap_or_default();
        let header = Header::check(bytes)?;
        let entry = bytes.get(..header.bytes()).ok_or(Flaw::Header)?;
        self.entry[..entry.len()].copy_from_slice(entry);
        Ok(header)
    }

    /// Decompresses one page of the checked entry in `self.entry`.
    ///
    /// # Errors
    /// [`Flaw::Owner`] if the entry has no such page, [`Flaw::Body`] if it does not decompress.
    pub(super) fn page(
        &mut self,
        space: &Space,
        header: &Header,
        bit: u8,
        target: &mut Page,
    ) -> Result<(), Flaw> {
        let position = header.position(bit).ok_or(Flaw::Owner)?;
        if header.pages() > 1 {
            self.unpack_pages(space, header)?;
            target.copy_from_slice(self.plain_page(position));
            return Ok(());
        }
        if header.codec == Codec::Zstd {
            self.count(space, Part::Decompressor);
        }
        let body = &self.entry[HEADER..HEADER + header.length];
        unpack(header.codec, body, target, &mut self.decompressor)
    }

    /// Decompresses all pages of the checked entry in `self.entry`, for [`ReaderArea::plain_page`].
    ///
    /// # Errors
    /// [`Flaw::Body`] if it does not decompress.
    pub(super) fn unpack_pages(&mut self, space: &Space, header: &Header) -> Result<(), Flaw> {
        self.count(space, Part::Plain);
        self.count(space, Part::Decompressor);
        let body = &self.entry[HEADER..HEADER + header.length];
        let plain = &mut self.plain[..header.plain_bytes()];
        unpack(header.codec, body, plain, &mut self.decompressor)
    }

    /// The page at that position of the entry that was decompressed last.
    pub(super) fn plain_page(&self, position: usize) -> &[u8] {
        &self.plain[position * PAGE..(position + 1) * PAGE]
    }
}

fn unpack(codec: Codec, body: &[u8], target: &mut [u8], zstd: &mut Decompressor) -> Result<(), Flaw> {
    let is_whole = match codec {
        Codec::Lz4 => codec::decompress_lz4(body, target),
        Codec::Zstd => zstd.decompress(body, target),
        Codec::Raw if body.len() == target.len() => {
            target.copy_from_slice(body);
            true
        }
        Codec::Same => match (body.try_into(), <&mut Page>::try_from(target)) {
            (Ok(word), Ok(page)) => {
                codec::fill(page, u64::from_le_bytes(word));
                true
            }
            _ => false,
        },
        Codec::Raw => false,
    };
    if is_whole { Ok(()) } else { Err(Flaw::Body) }
}

/// The header of the entry at `spot`, without a check of the entry.
///
/// # Errors
/// [`Flaw::Place`] for a spot outside of the segments in use, [`Flaw::Header`] for fields that no entry there has.
pub(super) fn header(space: &Space, spot: Spot) -> Result<Header, Flaw> {
    if spot.segment >= space.begun() || spot.unit >= SEGMENT_UNITS - 1 {
        return Err(Flaw::Place);
    }
    let words = &space.words(spot.segment)[spot.unit as usize..];
    let header = Header::read(words[0].load(Ordering::Acquire), words[1].load(Ordering::Relaxed))?;
    if header.units() as usize > words.len() {
        return Err(Flaw::Header);
    }
    Ok(header)
}

/// Leases a reader. Waits only while 256 threads read, each for the time of one decompression.
pub(super) fn lease<'m>(readers: &'m Readers, space: &'m Space) -> Reader<'m> {
    loop {
        if let Some(reader) = readers.lease(&space.memory) {
            return reader;
        }
        std::thread::yield_now();
    }
}
