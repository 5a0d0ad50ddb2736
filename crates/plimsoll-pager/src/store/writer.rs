//! Writing of entries: each writer compresses into memory of its own and appends to open segments of its own, so that
//! writers share nothing but the lists of free segments and the budget.
#![allow(unsafe_code, reason = "a writer's buffers, whose zeroed memory is a value")]

use super::codec::{Compressor, Lz4State};
use super::entry::{Codec, HEADER, Header, LONGEST, LONGEST_PAGE};
use super::lease::{Area, Areas, Lease};
use super::place::Spot;
use super::segment::Content;
use super::space::{Full, Purpose, Space};
use super::units::{LONGEST_BODY, PAGE, Page, QUAD_BYTES, SEGMENT_UNITS, UNIT};

/// The writers of a store: 64 threads can write at a time.
pub(super) type Writers = Areas<WriterArea, 1>;
pub(super) type Writer<'m> = Lease<'m, WriterArea, 1>;

/// Open segments of a writer for one content. An entry goes to the fullest one that has room: with one segment alone, half
/// an entry of each would stay empty.
const OPEN: usize = 4;

/// Most open segments of a writer.
pub(super) const MOST_OPEN: usize = OPEN * Content::COUNT;

/// An open segment.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// Number + 1 of the segment, 0 for none.
    number: u32,
    /// Units written.
    filled: u32,
}

/// Memory of a writer.
#[repr(C, align(4096))]
pub(super) struct WriterArea {
    /// The parts that are counted as resident, a bit each.
    counted: u8,
    open: [[Open; OPEN]; Content::COUNT],
    /// The entry to be appended: its body from [`HEADER`] on, by the caller.
    pub(super) entry: [u8; LONGEST],
    lz4: Lz4State,
    compressor: Compressor,
    /// Pages of a quad that are compressed again, by position.
    plain: [u8; QUAD_BYTES],
}

// SAFETY: zeros are a value of each field, and none needs a drop.
unsafe impl Area for WriterArea {}

const PUT: u8 = 1;
const COMPRESSOR: u8 = 2;

impl WriterArea {
    fn count(&mut self, space: &Space, part: u8) {
        if self.counted & part == 0 {
            self.counted |= part;
            space.count(match part {
                COMPRESSOR => Compressor::used().next_multiple_of(PAGE) + PAGE + QUAD_BYTES + PAGE,
                _ => core::mem::offset_of!(WriterArea, compressor).next_multiple_of(PAGE),
            });
        }
    }

    /// Compresses a page into `self.entry` by LZ4, or copies it if it does not get smaller. Returns codec and length.
    pub(super) fn pack_fast(&mut self, space: &Space, page: &Page) -> (Codec, usize) {
        self.count(space, PUT);
        match self
            .lz4
            .compress(page, &mut self.entry[HEADER..HEADER + LONGEST_BODY])
        {
            Some(length) => (Codec::Lz4, length),
            None => self.pack_raw(page),
        }
    }

    /// Compresses a page into `self.entry` by Zstandard, or copies it if it does not get smaller.
    pub(super) fn pack_dense(&mut self, space: &Space, page: &Page) -> (Codec, usize) {
        self.count(space, PUT);
        self.count(space, COMPRESSOR);
        let target = &mut self.entry[HEADER..HEADER + LONGEST_BODY];
        match self.compressor.compress(page, target) {
            Some(length) => (Codec::Zstd, length),
            None => self.pack_raw(page),
        }
    }

    fn pack_raw(&mut self, page: &Page) -> (Codec, usize) {
        self.entry[HEADER..LONGEST_PAGE].copy_from_slice(page);
        (Codec::Raw, PAGE)
    }

    /// Copies the word of a same-filled page into `self.entry`.
    pub(super) fn pack_word(&mut self, space: &Space, word: u64) -> (Codec, usize) {
        self.count(space, PUT);
        self.entry[HEADER..HEADER + 8].copy_from_slice(&word.to_le_bytes());
        (Codec::Same, 8)
    }

    /// Memory for the page at that position of a quad.
    pub(super) fn plain_page(&mut self, space: &Space, position: usize) -> &mut Page {
        self.count(space, COMPRESSOR);
        let (pages, _) = self.plain.as_chunks_mut::<PAGE>();
        &mut pages[position]
    }

    /// Compresses the page at that position of the quad, into `self.entry`. Returns its length; none if it does not fit.
    pub(super) fn pack_plain_page(&mut self, position: usize) -> Option<usize> {
        let target = &mut self.entry[HEADER..HEADER + LONGEST_BODY];
        self.compressor
            .compress(&self.plain[position * PAGE..(position + 1) * PAGE], target)
    }

    /// As [`WriterArea::pack_plain_page`], or copies the page if it does not get smaller. Returns codec and length.
    pub(super) fn pack_plain_page_or_copy(&mut self, position: usize) -> (Codec, usize) {
        if let Some(length) = self.pack_plain_page(position) {
            return (Codec::Zstd, length);
        }
        self.entry[HEADER..LONGEST_PAGE].copy_from_slice(&self.plain[position * PAGE..(position + 1) * PAGE]);
        (Codec::Raw, PAGE)
    }

    /// Compresses the first `pages` pages of the quad together, into `self.entry`. Returns the length; none if it does not
    /// fit.
    pub(super) fn pack_plain_pages(&mut self, pages: usize) -> Option<usize> {
        let target = &mut self.entry[HEADER..HEADER + pages * LONGEST_BODY];
        self.compressor.compress(&self.plain[..pages * PAGE], target)
    }

    /// Copies a page of the quad to another position.
    pub(super) fn move_plain_page(&mut self, from: usize, to: usize) {
        self.plain.copy_within(from * PAGE..(from + 1) * PAGE, to * PAGE);
    }

    /// Writes the header before the body in `self.entry`, and appends the entry.
    ///
    /// # Errors
    /// [`Full`] if the limit leaves no room.
    pub(super) fn append(&mut self, space: &Space, header: &Header, to: Target) -> Result<Spot, Full> {
        header.seal(&mut self.entry);
        self.append_sealed(space, header, to)
    }

    /// Appends the entry in `self.entry`, which has its header.
    ///
    /// # Errors
    /// As [`WriterArea::append`].
    pub(super) fn append_sealed(&mut self, space: &Space, header: &Header, to: Target) -> Result<Spot, Full> {
        self.count(space, PUT);
        let index = self.room(space, to.content, header.units())?;
        let open = &mut self.open[to.content as usize][index];
        let spot = Spot {
            segment: open.number - 1,
            unit: open.filled,
        };
        let live = header.weight().of(header.live);
        space.write(spot, &self.entry[..header.bytes()], live, to.purpose)?;
        open.filled += header.units();
        let record = space.record(spot.segment);
        record.set_epoch(record.epoch().max(to.epoch));
        Ok(spot)
    }

    /// The open segment for an entry of so many units.
    fn room(&mut self, space: &Space, content: Content, units: u32) -> Result<usize, Full> {
        let all = &mut self.open[content as usize];
        let fullest = all
            .iter()
            .enumerate()
            .filter(|(_, open)| open.number != 0 && open.filled + units <= SEGMENT_UNITS)
            .max_by_key(|(_, open)| open.filled);
        if let Some((index, _)) = fullest {
            return Ok(index);
        }
        let unused = all.iter().position(|open| open.number == 0);
        let index = match unused {
            Some(index) => index,
            None => {
                let fullest = all.iter().enumerate().max_by_key(|(_, open)| open.filled);
                let index = fullest.map_or(0, |(index, _)| index);
                close(space, &mut all[index]);
                index
            }
        };
        all[index] = Open {
            number: space.open(content)? + 1,
            filled: 0,
        };
        Ok(index)
    }

    /// Takes back the entry that was appended last; no other thread knows it.
    pub(super) fn take_back(&mut self, space: &Space, content: Content, spot: Spot, header: &Header) {
        let all = &mut self.open[content as usize];
        let last = all
            .iter_mut()
            .find(|open| open.number == spot.segment + 1 && open.filled == spot.unit + header.units());
        if let Some(open) = last {
            open.filled = spot.unit;
            space.unwrite(spot, header.weight().of(header.live));
        }
    }

    /// Closes the open segments of whose entries at least a half is out of use, so that they can be cleaned.
    pub(super) fn close_sparse(&mut self, space: &Space) {
        for open in self.open.iter_mut().flatten() {
            let is_sparse = |segment: u32| space.record(segment).is_open_and_sparse();
            if open.number.checked_sub(1).is_some_and(is_sparse) {
                close(space, open);
            }
        }
    }

    /// Closes all open segments, so that they can be cleaned and spilled.
    pub(super) fn close_all(&mut self, space: &Space) {
        for open in self.open.iter_mut().flatten() {
            close(space, open);
        }
    }
}

fn close(space: &Space, open: &mut Open) {
    if let Some(segment) = open.number.checked_sub(1) {
        space.settle(segment, space.record(segment).close());
    }
    open.number = 0;
}

/// Where an entry is appended, and for which reason.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) content: Content,
    /// When the pages were put.
    pub(super) epoch: u32,
    pub(super) purpose: Purpose,
}

const _: () = assert!(LONGEST.is_multiple_of(UNIT) && LONGEST_PAGE <= LONGEST);
