//! Cleaning: the entries in use of the emptiest segments move together, and the segments become free.

use super::claim::{Cleaned, End};
use super::place::{PageIndex, Place};
use super::relocation::{Mover, Walk};
use super::segment::{Content, State};
use super::space::{Purpose, Space};
use super::units::{SEGMENT_PAGES, SEGMENT_UNITS};
use super::writer::{MOST_OPEN, Target};
use super::{BusyError, Store};

/// The most units in use, scaled to a segment with all pages resident, of a segment that is cleaned: a fuller one would yield less than
/// an eighth of the bytes that move.
const MOST_LIVE: u32 = SEGMENT_UNITS / 8 * 7;

/// Open segments are closed early if writers may have this part of all segments open.
const MOST_OPEN_PART: usize = 8;

/// Segments that one search finds.
const VICTIMS: usize = 16;

impl Store {
    /// Frees segments: moves entries from those with the fewest bytes in use, until about `budget` bytes were copied or
    /// no segment is worth it. Several threads may clean at a time.
    ///
    /// `relocate` is called with a page, its old place and its new one. It locks the page's word; if the word names the
    /// old place it stores the new one there and returns true; else, or if the word is locked, it returns false. It must
    /// not call `free` for that page.
    ///
    /// # Errors
    /// [`BusyError`] if 64 other threads write at the moment.
    pub fn clean(
        &self,
        budget: u64,
        mut relocate: impl FnMut(PageIndex, Place, Place) -> bool,
    ) -> Result<Cleaned, BusyError> {
        let purpose = self.space.moving();
        let mut mover = self.mover(&mut relocate)?;
        self.close_sparse(&mut mover);
        let mut cleaned = Cleaned::default();
        loop {
            let mut is_worth_more = false;
            for segment in victims(&self.space).into_iter().flatten() {
                if cleaned.copied >= budget || cleaned.is_full {
                    return Ok(cleaned);
                }
                if self.space.record(segment).claim() {
                    let refused = cleaned.refused;
                    let ended = clean_segment(&mut mover, segment, purpose, &mut cleaned);
                    cleaned.finish(&self.space, segment, ended);
                    is_worth_more |= ended == Ok(()) && cleaned.refused == refused;
                }
            }
            if !is_worth_more {
                return Ok(cleaned);
            }
        }
    }
}

impl Store {
    /// In a store with few segments, closes the open ones of whose entries half is out of use: they would be a large part of its memory.
    fn close_sparse(&self, mover: &mut Mover<'_, '_>) {
        let (touched, begun) = (self.writers.touched(), self.space.begun());
        if touched * MOST_OPEN * MOST_OPEN_PART < begun as usize {
            return;
        }
        mover.writer.close_sparse(&self.space);
        // Another thread that writes during a lease takes memory of its own.
        if !(0..begun).any(|segment| self.space.record(segment).is_open_and_sparse()) {
            return;
        }
        for slot in 0..touched {
            if let Some(mut writer) = self.writers.lease_slot(&self.space.memory, slot) {
                writer.close_sparse(&self.space);
            }
        }
    }
}

/// The closed segments with the fewest units in use for each of their pages, fewest first.
fn victims(space: &Space) -> [Option<u32>; VICTIMS] {
    let mut found = [(MOST_LIVE, None); VICTIMS];
    for segment in 0..space.begun() {
        let record = space.record(segment);
        let (state, live) = record.state_and_live();
        // One that was closed early has fewer pages.
        let live = live * SEGMENT_PAGES / record.extent().resident.max(1);
        if state == State::Closed && live < found[VICTIMS - 1].0 {
            found[VICTIMS - 1] = (live, Some(segment));
            found.sort_unstable_by_key(|(live, _)| *live);
        }
    }
    found.map(|(_, segment)| segment)
}

/// Moves the entries of a claimed segment to those of the same content; not among fresh pages, which die sooner.
fn clean_segment(
    mover: &mut Mover<'_, '_>,
    segment: u32,
    purpose: Purpose,
    cleaned: &mut Cleaned,
) -> Result<(), End> {
    let record = mover.space.record(segment);
    let to = Target {
        content: match record.extent().content {
            Content::Fresh => Content::Settled,
            other => other,
        },
        epoch: record.epoch(),
        purpose,
    };
    let mut walk = Walk::of(mover.space, segment);
    while let Some((spot, header)) = walk.next_of(mover)? {
        if header.live == 0 {
            continue;
        }
        // What moves is all in use: it is not moved again before something is freed, so cleaning ends.
        cleaned.add(match header.live == header.present {
            true => mover.copy(spot, &header, to)?,
            false => mover.repack(spot, &header, to)?,
        });
    }
    Ok(())
}
