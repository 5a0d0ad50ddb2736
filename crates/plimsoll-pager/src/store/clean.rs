//! Cleaning: the entries in use of the emptiest segments move together, and the segments become free.

use super::claim::{Cleaned, End};
use super::place::{PageIndex, Place};
use super::relocation::{Mover, Walk};
use super::segment::{Content, State};
use super::space::{Purpose, Space};
use super::units::SEGMENT_UNITS;
use super::writer::Target;
use super::{BusyError, Store};

/// A segment with more units in use is not cleaned: it would yield less than an eighth of the bytes that move.
const MOST_LIVE: u32 = SEGMENT_UNITS / 8 * 7;

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

/// The closed segments with the fewest units in use, fewest first.
fn victims(space: &Space) -> [Option<u32>; VICTIMS] {
    let mut found = [(MOST_LIVE, None); VICTIMS];
    for segment in 0..space.begun() {
        let (state, live) = space.record(segment).state_and_live();
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
