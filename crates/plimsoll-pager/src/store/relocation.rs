//! Entries that move: each of their pages by the consent of its owner.
//!
//! The order makes it safe without a lock of the store: the copy is complete before the owner is asked; the owner changes
//! the page's word from the old place to the new one, or refuses; only then the losing side is retired. A reader that has
//! the page's word locked makes its owner refuse, so its entry stays.

use super::claim::{End, Moves};
use super::entry::{Codec, Flaw, Header, Weight};
use super::place::{PageIndex, Place, Spot, page_of};
use super::reader::Reader;
use super::space::{Full, Space};
use super::writer::{Target, Writer};

/// Asks the owner of a page to move it: the page, the old place and the new one. The owner returns true if it changed the
/// page's word from the old place to the new one, and false if it did not: the word is locked, or names another place.
pub(super) type Relocate<'r> = dyn FnMut(PageIndex, Place, Place) -> bool + 'r;

/// The old entry of some pages of a new one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Source {
    pub(super) spot: Spot,
    pub(super) weight: Weight,
    /// The pages, a bit each.
    pub(super) pages: u8,
}

/// The leases for moving entries.
pub(super) struct Mover<'s, 'r> {
    pub(super) space: &'s Space,
    pub(super) writer: Writer<'s>,
    pub(super) reader: Reader<'s>,
    pub(super) relocate: &'r mut Relocate<'r>,
}

impl Mover<'_, '_> {
    /// Moves pages from their old entries to the one that is ready in the writer's memory, with its header.
    ///
    /// # Errors
    /// [`Full`] if the limit leaves no room, not even the reserve; nothing moved.
    pub(super) fn hand_over(
        &mut self,
        sources: &[Source],
        header: &Header,
        to: Target,
    ) -> Result<Moves, Full> {
        let new = self.writer.append_sealed(self.space, header, to)?;
        let mut moves = Moves {
            copied: header.bytes() as u64,
            ..Moves::default()
        };
        let mut refused = header.live;
        for source in sources {
            for bit in bits(source.pages & header.live) {
                let page = page_of(header.quad, bit);
                if (self.relocate)(page, Place::in_memory(source.spot), Place::in_memory(new)) {
                    self.space.retire(source.spot, bit, source.weight);
                    refused &= !bit;
                    moves.moved += 1;
                }
            }
        }
        moves.refused = u64::from(refused.count_ones());
        if refused == header.live {
            self.writer.take_back(self.space, to.content, new, header);
        } else if refused != 0 {
            self.space.retire(new, refused, header.weight());
        }
        Ok(moves)
    }

    /// Moves the checked entry in the reader's memory as it is.
    ///
    /// # Errors
    /// As [`Mover::hand_over`].
    pub(super) fn copy(&mut self, spot: Spot, header: &Header, to: Target) -> Result<Moves, Full> {
        let bytes = header.bytes();
        self.writer.entry[..bytes].copy_from_slice(&self.reader.entry[..bytes]);
        let source = Source {
            spot,
            weight: header.weight(),
            pages: header.live,
        };
        self.hand_over(&[source], header, to)
    }

    /// Decompresses a page of the checked entry in the reader's memory into the writer's, at that position of a quad.
    ///
    /// # Errors
    /// As [`ReaderArea::page`](super::reader::ReaderArea::page).
    pub(super) fn unpack(&mut self, header: &Header, bit: u8, position: usize) -> Result<(), Flaw> {
        let target = self.writer.plain_page(self.space, position);
        self.reader.page(self.space, header, bit, target)
    }

    /// Moves the pages in use of a quad, the checked entry in the reader's memory, without the others: into one entry, or
    /// into one for each if Zstandard makes none that is short enough.
    ///
    /// # Errors
    /// [`End::Full`] as above; [`End::Damaged`] if the entry does not decompress.
    pub(super) fn repack(&mut self, spot: Spot, quad: &Header, to: Target) -> Result<Moves, End> {
        for (position, bit) in bits(quad.live).enumerate() {
            self.unpack(quad, bit, position).map_err(|_| End::Damaged)?;
        }
        let source = Source {
            spot,
            weight: quad.weight(),
            pages: quad.live,
        };
        if let Some(length) = self.writer.pack_plain_pages(quad.live.count_ones() as usize) {
            let header = Header {
                length,
                codec: Codec::Zstd,
                present: quad.live,
                ..*quad
            };
            header.seal(&mut self.writer.entry);
            return Ok(self.hand_over(&[source], &header, to)?);
        }
        let mut moves = Moves::default();
        for (position, bit) in bits(quad.live).enumerate() {
            let (codec, length) = self.writer.pack_plain_page_or_copy(position);
            let header = Header {
                length,
                codec,
                present: bit,
                live: bit,
                quad: quad.quad,
            };
            header.seal(&mut self.writer.entry);
            moves.add(self.hand_over(&[source], &header, to)?);
        }
        Ok(moves)
    }
}

/// The single bits of a mask.
pub(super) fn bits(mask: u8) -> impl Iterator<Item = u8> {
    (0..4).map(|shift| 1 << shift).filter(move |bit| mask & bit != 0)
}

/// A walk over the entries of a segment that this thread has claimed.
#[derive(Debug)]
pub(super) struct Walk {
    spot: Spot,
    filled: u32,
}

impl Walk {
    pub(super) fn of(space: &Space, segment: u32) -> Walk {
        Walk {
            spot: Spot { segment, unit: 0 },
            filled: space.record(segment).extent().filled,
        }
    }

    /// Loads the next entry into the reader's memory; none at the end.
    ///
    /// # Errors
    /// The flaw of a damaged entry: those behind it cannot be found.
    pub(super) fn next(
        &mut self,
        space: &Space,
        reader: &mut Reader<'_>,
    ) -> Result<Option<(Spot, Header)>, Flaw> {
        if self.spot.unit >= self.filled {
            return Ok(None);
        }
        let spot = self.spot;
        let header = reader.load(space, spot)?;
        self.spot.unit += header.units();
        Ok(Some((spot, header)))
    }

    /// As [`Walk::next`], in the walk of a claimed segment.
    ///
    /// # Errors
    /// [`End::Damaged`].
    pub(super) fn next_of(&mut self, mover: &mut Mover<'_, '_>) -> Result<Option<(Spot, Header)>, End> {
        self.next(mover.space, &mut mover.reader)
            .map_err(|_| End::Damaged)
    }
}
