//! Recompression: entries that were idle for a number of epochs are compressed again by Zstandard, those that
//! were idle longest four neighbours together.

use super::claim::{Cleaned, End};
use super::entry::{Codec, Header};
use super::place::{PageIndex, Place, Spot};
use super::relocation::{Mover, Source, Walk};
use super::segment::{Content, Record, State};
use super::units::QUAD;
use super::writer::Target;
use super::{BusyError, Store};

/// Which entries [`Store::recompress`] works on, by the epochs ([`Store::advance_epoch`]) since the last entry of their
/// segment was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idle {
    /// Epochs after which a page is compressed by Zstandard.
    pub pages: u32,
    /// Epochs after which neighbours are compressed together. A fault on one of them decompresses all.
    pub quads: u32,
}

/// The new entry must save a sixteenth of the old one: it costs more at a fault.
const fn is_smaller(new: usize, old: usize) -> bool {
    new * 16 <= old * 15
}

impl Store {
    /// Compresses idle entries again, until about `budget` bytes of pages were compressed or none is left. `relocate` as in
    /// [`Store::clean`].
    ///
    /// # Errors
    /// [`BusyError`] if 64 other threads write at the moment.
    pub fn recompress(
        &self,
        idle: Idle,
        budget: u64,
        mut relocate: impl FnMut(PageIndex, Place, Place) -> bool,
    ) -> Result<Cleaned, BusyError> {
        let purpose = self.space.moving();
        let mut mover = self.mover(&mut relocate)?;
        let mut done = Cleaned::default();
        let mut plain = 0;
        for segment in 0..self.space.begun() {
            if plain >= budget || done.is_full {
                break;
            }
            let record = self.space.record(segment);
            let Some(content) = due(record, self.space.epoch(), idle) else {
                continue;
            };
            if !record.claim() {
                continue;
            }
            let mut work = Work {
                mover: &mut mover,
                to: Target {
                    content,
                    epoch: record.epoch(),
                    purpose,
                },
                quad: Quad::default(),
                done: &mut done,
                plain: &mut plain,
            };
            let ended = work.segment(segment);
            done.finish(&self.space, segment, ended);
        }
        Ok(done)
    }
}

/// The content that a segment is to have; none if it stays as it is.
fn due(record: &Record, now: u32, idle: Idle) -> Option<Content> {
    if record.state() != State::Closed {
        return None;
    }
    let age = now.saturating_sub(record.epoch());
    match record.extent().content {
        Content::Quads => None,
        _ if age >= idle.quads => Some(Content::Quads),
        Content::Fresh | Content::Settled if age >= idle.pages => Some(Content::Packed),
        _ => None,
    }
}

/// Old entries of one page each, of one quad, whose pages are in the writer's memory by position.
#[derive(Debug, Default)]
struct Quad {
    number: u32,
    members: [Option<(Spot, Header)>; QUAD],
}

/// The recompression of one segment.
struct Work<'w, 's, 'r> {
    mover: &'w mut Mover<'s, 'r>,
    to: Target,
    quad: Quad,
    done: &'w mut Cleaned,
    /// Bytes of pages that were compressed.
    plain: &'w mut u64,
}

impl Work<'_, '_, '_> {
    fn segment(&mut self, segment: u32) -> Result<(), End> {
        let mut walk = Walk::of(self.mover.space, segment);
        while let Some((spot, header)) = walk.next_of(self.mover)? {
            if header.live == 0 {
                continue;
            }
            // Quads that a cleaner moved here, and words that fill a page.
            if header.pages() > 1 || header.codec == Codec::Same {
                self.keep(spot, &header)?;
                continue;
            }
            *self.plain += header.plain_bytes() as u64;
            let position = header.present.trailing_zeros() as usize;
            if self.to.content == Content::Quads {
                self.collect(spot, header, position)?;
            } else {
                self.unpack(&header, position)?;
                self.page(spot, &header, position)?;
            }
        }
        self.flush()
    }

    /// Adds a page to the quad, which moves before if the page is one of another quad.
    fn collect(&mut self, spot: Spot, header: Header, position: usize) -> Result<(), End> {
        if self.quad.number != header.quad || self.quad.members[position].is_some() {
            self.flush()?;
            self.reload(spot)?;
        }
        self.unpack(&header, position)?;
        self.quad.number = header.quad;
        self.quad.members[position] = Some((spot, header));
        Ok(())
    }

    /// Decompresses the page of the entry in the reader's memory.
    fn unpack(&mut self, header: &Header, position: usize) -> Result<(), End> {
        self.mover
            .unpack(header, header.present, position)
            .map_err(|_| End::Damaged)
    }

    /// Loads an entry into the reader's memory again.
    fn reload(&mut self, spot: Spot) -> Result<Header, End> {
        let mover = &mut *self.mover;
        mover.reader.load(mover.space, spot).map_err(|_| End::Damaged)
    }

    /// Moves the entry in the reader's memory as it is.
    fn keep(&mut self, spot: Spot, header: &Header) -> Result<(), End> {
        let moves = self.mover.copy(spot, header, self.to)?;
        self.done.add(moves);
        Ok(())
    }

    /// Moves the page at that position of the writer's memory into an entry of its own: the old one if Zstandard makes
    /// none that is smaller.
    fn page(&mut self, spot: Spot, old: &Header, position: usize) -> Result<(), End> {
        let length = match old.codec {
            Codec::Zstd => None,
            _ => self.mover.writer.pack_plain_page(position),
        };
        let new = length.map(|length| Header {
            length,
            codec: Codec::Zstd,
            ..*old
        });
        if let Some(new) = new.filter(|new| is_smaller(new.bytes(), old.bytes())) {
            return self.replace(&[(spot, *old)], &new);
        }
        let old = self.reload(spot)?;
        if old.live == 0 {
            Ok(())
        } else {
            self.keep(spot, &old)
        }
    }

    /// Moves pages to the entry whose body is in the writer's memory.
    fn replace(&mut self, old: &[(Spot, Header)], new: &Header) -> Result<(), End> {
        new.seal(&mut self.mover.writer.entry);
        let mut sources = [Source::default(); QUAD];
        for (source, (spot, header)) in sources.iter_mut().zip(old) {
            *source = Source {
                spot: *spot,
                weight: header.weight(),
                pages: header.present,
            };
        }
        let moves = self.mover.hand_over(&sources[..old.len()], new, self.to)?;
        self.done.add(moves);
        Ok(())
    }

    /// Moves the pages of the quad: together if that is smaller, else one by one.
    fn flush(&mut self) -> Result<(), End> {
        let quad = core::mem::take(&mut self.quad);
        let mut members = [(Spot::default(), Header::NONE); QUAD];
        let (mut count, mut present, mut old) = (0, 0, 0);
        for (position, member) in quad.members.into_iter().enumerate() {
            let Some((spot, header)) = member else {
                continue;
            };
            // Pages of a body follow each other.
            self.mover.writer.move_plain_page(position, count);
            members[count] = (spot, header);
            present |= header.present;
            old += header.bytes();
            count += 1;
        }
        let members = &members[..count];
        let length = match count {
            0 | 1 => None,
            _ => self.mover.writer.pack_plain_pages(count),
        };
        let new = length.map(|length| Header {
            length,
            codec: Codec::Zstd,
            present,
            live: present,
            quad: quad.number,
        });
        match new.filter(|new| is_smaller(new.bytes(), old)) {
            Some(new) => self.replace(members, &new),
            None => members
                .iter()
                .enumerate()
                .try_for_each(|(position, (spot, header))| self.page(*spot, header, position)),
        }
    }
}
