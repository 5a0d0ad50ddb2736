//! Segments that move whole to a page file, and entries that are read from there.

use super::claim::End;
use super::entry::{Flaw, HEADER, Header, Weight};
use super::place::{PageIndex, Place, Spot, page_of};
use super::relocation::{Walk, bits};
use super::segment::State;
use super::units::{BLOCK, SEGMENT, SEGMENT_UNITS, UNIT};
use super::{Damaged, Store, reader};

/// A segment whose bytes are on their way to a page file. Its pages stay readable in RAM until [`Spill::finish`]; if it
/// is dropped instead, as after a write error, they stay for good.
#[derive(Debug)]
#[must_use]
pub struct Spill<'s> {
    store: &'s Store,
    segment: u32,
    state: State,
}

/// The result of [`Spill::finish`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spilled {
    /// Pages that the page file has now: the slot is free when all of them were read back or freed.
    pub moved: u32,
    /// Pages whose owner refused; they stay in RAM.
    pub refused: u32,
}

/// The reason for which a page of the page file could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpilledError<E> {
    /// A block could not be read.
    #[error(transparent)]
    Read(E),
    /// The bytes in the file are no intact entry.
    #[error(transparent)]
    Damaged(#[from] Damaged),
}

/// Segments that one search finds.
pub(crate) const FOUND: usize = 16;

impl Store {
    /// Copies the segment that was idle longest to `target`, after checking each of its entries; none if no segment is
    /// closed. Segments of which less than half is in use come last: cleaning is the better remedy for them.
    pub fn take_segment_for_spill(&self, target: &mut [u8; SEGMENT]) -> Option<Spill<'_>> {
        loop {
            let found = self.idle_longest();
            found[0]?;
            let mut spills = found.into_iter().flatten();
            if let Some(spill) = spills.find_map(|segment| self.take_for_spill(segment, target)) {
                return Some(spill);
            }
        }
    }

    /// Copies that segment to `target`, after checking each of its entries; none if it is not closed any more, or damaged.
    pub(crate) fn take_for_spill(&self, segment: u32, target: &mut [u8; SEGMENT]) -> Option<Spill<'_>> {
        if !self.space.record(segment).claim() {
            return None;
        }
        let mut spill = Spill {
            store: self,
            segment,
            state: State::Closed,
        };
        // Damage is never written to the file as if it were whole.
        if spill.for_each(|_, _| {}).is_err() {
            spill.state = State::Damaged;
            return None;
        }
        for (bytes, word) in target.chunks_exact_mut(UNIT).zip(self.space.words(segment)) {
            let word = word.load(core::sync::atomic::Ordering::Relaxed);
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let filled = self.space.record(segment).extent().filled as usize * UNIT;
        target[filled..].fill(0);
        Some(spill)
    }

    /// The closed segments that were idle longest, longest first; those of which less than half is in use come last.
    pub(crate) fn idle_longest(&self) -> [Option<u32>; FOUND] {
        type Key = (bool, u32, u32);
        let mut found: [Option<Key>; FOUND] = [None; FOUND];
        for segment in 0..self.space.begun() {
            let record = self.space.record(segment);
            let (state, live) = record.state_and_live();
            if state != State::Closed {
                continue;
            }
            let key = (live < SEGMENT_UNITS / 2, record.epoch(), segment);
            if found[FOUND - 1].is_none_or(|last| key < last) {
                found[FOUND - 1] = Some(key);
                found.sort_unstable_by_key(|key| key.unwrap_or((true, u32::MAX, u32::MAX)));
            }
        }
        found.map(|key| key.map(|(_, _, segment)| segment))
    }
}

impl Spill<'_> {
    /// Calls `found` with each page in use, and its place in RAM.
    ///
    /// # Errors
    /// [`Flaw`] of a damaged entry.
    fn for_each(&self, mut found: impl FnMut(PageIndex, Found)) -> Result<(), Flaw> {
        let space = &self.store.space;
        let mut reader = reader::lease(&self.store.readers, space);
        let mut walk = Walk::of(space, self.segment);
        while let Some((spot, header)) = walk.next(space, &mut reader)? {
            for bit in bits(header.live) {
                let page = page_of(header.quad, bit);
                let weight = header.weight();
                found(page, Found { spot, bit, weight });
            }
        }
        Ok(())
    }

    /// The file has the bytes: names the places there to the owners, and frees the pages in RAM. `relocate` as in
    /// [`Store::clean`]; the new place is one of the page file, in the slot of that number.
    pub fn finish(mut self, slot: u32, mut relocate: impl FnMut(PageIndex, Place, Place) -> bool) -> Spilled {
        let mut spilled = Spilled::default();
        let space = &self.store.space;
        let walked = self.for_each(|page, found| {
            let new = Spot {
                segment: slot,
                unit: found.spot.unit,
            };
            if relocate(page, Place::in_memory(found.spot), Place::in_file(new)) {
                space.retire(found.spot, found.bit, found.weight);
                spilled.moved += 1;
            } else {
                spilled.refused += 1;
            }
        });
        self.store.forget_pages(u64::from(spilled.moved));
        if walked.is_err() {
            self.state = State::Damaged;
        }
        spilled
    }
}

/// An entry of a segment that was read back from the page file whole.
#[derive(Debug)]
pub(crate) struct FileEntry<'b> {
    /// Its bytes, whole units.
    pub(crate) bytes: &'b [u8],
    header: Header,
    unit: u32,
}

impl FileEntry<'_> {
    /// The pages in the entry, those that were freed included.
    pub(crate) fn pages(&self) -> impl Iterator<Item = PageIndex> {
        let quad = self.header.quad;
        bits(self.header.present).map(move |bit| page_of(quad, bit))
    }

    /// The place of its pages, in the page file's slot of that number.
    pub(crate) fn place(&self, slot: u32) -> Place {
        let unit = self.unit;
        Place::in_file(Spot { segment: slot, unit })
    }
}

/// The entries of a segment of the page file, up to the zeros at its end or the first one that is damaged.
pub(crate) fn entries_of(segment: &[u8; SEGMENT]) -> impl Iterator<Item = Result<FileEntry<'_>, Flaw>> {
    let mut offset = 0;
    std::iter::from_fn(move || {
        let rest = &segment[offset..];
        if rest.len() < 2 * UNIT || rest[..UNIT] == [0; UNIT] {
            return None;
        }
        let unit = (offset / UNIT) as u32;
        let entry = Header::check(rest).and_then(|header| {
            let bytes = rest.get(..header.bytes()).ok_or(Flaw::Header)?;
            Ok(FileEntry { bytes, header, unit })
        });
        offset = match &entry {
            Ok(entry) => offset + entry.bytes.len(),
            Err(_) => SEGMENT,
        };
        Some(entry)
    })
}

/// A page in use of a segment.
struct Found {
    spot: Spot,
    bit: u8,
    weight: Weight,
}

impl Drop for Spill<'_> {
    fn drop(&mut self) {
        let ended = match self.state {
            State::Damaged => Err(End::Damaged),
            _ => Ok(()),
        };
        super::Cleaned::default().finish(&self.store.space, self.segment, ended);
    }
}

const _: () = assert!(SEGMENT.is_multiple_of(BLOCK) && HEADER <= 2 * UNIT);
