//! Cleaning of the page file: entries in use of slots that are mostly out of use move to one slot together.
//!
//! The new slot is written first; then each page's word changes from the old place to the new one, unless the page was
//! freed or is locked: then it stays where it is.

use plimsoll_os::Errno;

use super::file_tier::{FileTier, Sources, Worker};
use super::relocate;
use crate::backing::Owners;
use crate::page::Place;
use crate::page_file::{BLOCK_BYTES, BLOCKS_PER_SLOT};
use crate::store::{Blocks as _, SEGMENT, entries_of};

impl FileTier {
    /// Writes up to `most` segments of entries from slots with less than `live` of 256 of their pages in use. Returns the slots
    /// that became free, less those that were written.
    pub(super) fn clean(&self, worker: &mut Worker, owners: &dyn Owners, live: u64, most: u32) -> u64 {
        let Some(own) = self.files.last() else { return 0 };
        let file = &own.file;
        let before = file.free_slots();
        for _ in 0..most {
            if !self.clean_once(worker, owners, live) {
                break;
            }
        }
        file.free_slots().saturating_sub(before)
    }

    /// Writes one segment. Returns whether it did.
    fn clean_once(&self, worker: &mut Worker, owners: &dyn Owners, live: u64) -> bool {
        let Some(own) = self.files.last() else {
            return false;
        };
        let victims = own.counts.victims(live);
        // One slot alone would fill one slot again.
        if victims[1].is_none() {
            return false;
        }
        let sources = &mut worker.sources.0;
        sources.clear();
        let (segments, _) = worker.plain.bytes_mut().as_chunks_mut::<SEGMENT>();
        let [read, packed, ..] = segments else {
            return false;
        };
        let mut filled = 0;
        for slot in victims.into_iter().flatten() {
            if self.read_slot(own.number_of(slot), read).is_err() {
                own.counts.damage(slot);
                continue;
            }
            for entry in entries_of(read) {
                let Ok(entry) = entry else {
                    own.counts.damage(slot);
                    break;
                };
                let place = entry.place(own.number_of(slot));
                let Ok(named) = Place::new(place.bits()) else {
                    break;
                };
                if !entry
                    .pages()
                    .any(|page| owners.names(super::page_of(page), named))
                {
                    continue;
                }
                let end = filled + entry.bytes.len();
                if end > SEGMENT || sources.len() == Sources::MOST {
                    continue;
                }
                packed[filled..end].copy_from_slice(entry.bytes);
                sources.push(place);
                filled = end;
            }
        }
        packed[filled..].fill(0);
        !sources.is_empty() && self.write_packed(worker, owners)
    }

    fn read_slot(&self, slot: u32, bytes: &mut [u8; SEGMENT]) -> Result<(), Errno> {
        let (blocks, _) = bytes.as_chunks_mut::<BLOCK_BYTES>();
        for (number, block) in blocks.iter_mut().enumerate().take(BLOCKS_PER_SLOT) {
            self.read(slot, number, block).map_err(|_| Errno::IO)?;
        }
        Ok(())
    }

    /// Writes the packed segment, and names its slot to the owners of its pages. Returns whether it did.
    fn write_packed(&self, worker: &mut Worker, owners: &dyn Owners) -> bool {
        let (segments, _) = worker.plain.bytes().as_chunks::<SEGMENT>();
        let packed = &segments[1];
        let (Some(writer), Some(own)) = (&mut worker.writer, self.files.last()) else {
            return false;
        };
        let Ok(batch) = writer.start_with_kept_slots(&[packed]) else {
            return false;
        };
        // No other write is in flight but those of a thread that panicked.
        let slot = loop {
            match writer.complete(true) {
                Some(done) if done.batch == batch => match done.outcome {
                    Ok(slots) => break slots[0],
                    Err(_) => return false,
                },
                Some(other) => {
                    let slots = other.outcome.into_iter();
                    slots.for_each(|slots| slots.iter().for_each(|slot| self.free_slot(own, *slot)));
                }
                None => return false,
            }
        };
        own.counts.begin(slot);
        let mut moved = 0;
        for (entry, old) in entries_of(packed).flatten().zip(&worker.sources.0) {
            let Some(from) = old.slot() else { continue };
            for page in entry.pages() {
                own.counts.add(slot);
                if relocate(owners, page, *old, entry.place(own.number_of(slot))) {
                    moved += 1;
                    self.free_page(from);
                } else {
                    // Never the last one: the slot is being filled.
                    let _ = own.counts.remove(slot);
                }
            }
        }
        if own.counts.end(slot, moved) {
            self.free_slot(own, slot);
        }
        moved > 0
    }
}
