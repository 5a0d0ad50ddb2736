//! The executable twin of the store's invariants.

use core::sync::atomic::Ordering;

use super::relocation::Walk;
use super::segment::State;
use super::units::{PAGE, SEGMENT_PAGES, SEGMENT_UNITS, UNIT};
use super::{Flaw, Store, reader};

/// An invariant that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names of the fields describe them")]
pub enum Violation {
    /// An entry cannot be read, though its segment is not marked as damaged.
    #[error("an entry of segment {segment} is damaged: {flaw}")]
    Entry { segment: u32, flaw: Flaw },
    /// The count of bytes in use is not that of the entries in use.
    #[error("segment {segment} counts {counted} bytes in use, and its entries in use have {found}")]
    Live {
        segment: u32,
        /// Bytes by its record.
        counted: u64,
        /// Bytes by its entries.
        found: u64,
    },
    /// A segment is in a state that it is in only while a call works on it, or is closed without an entry in use.
    #[error("segment {segment} is in a state that no call left it in")]
    State { segment: u32 },
    /// Entries end behind the pages that are counted as resident.
    #[error("segment {segment} has entries on pages that are not counted as used")]
    Extent { segment: u32 },
    /// Free segments are missing from the lists.
    #[error("{free} segments are free, and {listed} in the lists")]
    FreeList {
        /// Segments in the state.
        free: u32,
        /// Segments in the lists.
        listed: u32,
    },
    /// The count of pages is not that of the entries.
    #[error("the store counts {counted} pages, and its entries hold {found}")]
    Pages {
        /// Pages by the counter.
        counted: u64,
        /// Pages by the entries.
        found: u64,
    },
    /// Less is counted as used than the segments have.
    #[error("the store counts {counted} bytes as used, and its segments alone have {found}")]
    Used {
        /// Bytes by the counter.
        counted: u64,
        /// Bytes by the segments.
        found: u64,
    },
}

impl Violation {
    /// The invariant, in words without numbers.
    pub fn invariant(&self) -> &'static str {
        match self {
            Violation::Entry { .. } => "entries of the store",
            Violation::Live { .. } => "bytes in use of a segment",
            Violation::State { .. } => "state of a segment",
            Violation::Extent { .. } => "extent of a segment",
            Violation::FreeList { .. } => "free segments of the store",
            Violation::Pages { .. } => "pages of the store",
            Violation::Used { .. } => "bytes of the store",
        }
    }
}

impl Store {
    /// Checks every invariant of the store, while no other thread uses it. It reads all entries.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn validate(&self) -> Result<(), Violation> {
        let (mut pages, mut resident, mut free, mut is_countable) = (0, 0, 0, true);
        for segment in 0..self.space.begun() {
            let record = self.space.record(segment);
            let extent = record.extent();
            resident += u64::from(extent.resident) * PAGE as u64;
            let end = extent.filled as usize * UNIT;
            if extent.resident > SEGMENT_PAGES
                || extent.filled > SEGMENT_UNITS
                || (record.state() != State::Free && end > extent.resident as usize * PAGE)
            {
                return Err(Violation::Extent { segment });
            }
            match record.state() {
                State::Free => free += 1,
                State::Claimed => return Err(Violation::State { segment }),
                State::Closed if record.live() == 0 => return Err(Violation::State { segment }),
                State::Damaged => is_countable = false,
                State::Open | State::Closed => pages += self.validate_segment(segment)?,
            }
        }
        let (recycled, returned) = self.space.free_segments();
        let listed = recycled + returned;
        if free != listed {
            return Err(Violation::FreeList { free, listed });
        }
        let counted = self.counters.pages.load(Ordering::Relaxed);
        if is_countable && counted != pages {
            return Err(Violation::Pages {
                counted,
                found: pages,
            });
        }
        if self.space.used() < resident {
            return Err(Violation::Used {
                counted: self.space.used(),
                found: resident,
            });
        }
        Ok(())
    }

    /// Checks the entries of a segment, and returns the number of pages in use.
    fn validate_segment(&self, segment: u32) -> Result<u64, Violation> {
        let mut reader = reader::lease(&self.readers, &self.space);
        let mut walk = Walk::of(&self.space, segment);
        let (mut pages, mut units) = (0, 0);
        loop {
            match walk.next(&self.space, &mut reader) {
                Ok(None) => break,
                Ok(Some((_, header))) if header.live != 0 => {
                    pages += u64::from(header.live.count_ones());
                    units += header.weight().of(header.live);
                }
                Ok(Some(_)) => {}
                Err(flaw) => return Err(Violation::Entry { segment, flaw }),
            }
        }
        let counted = self.space.record(segment).live();
        if counted != units {
            return Err(Violation::Live {
                segment,
                counted: u64::from(counted) * UNIT as u64,
                found: u64::from(units) * UNIT as u64,
            });
        }
        Ok(pages)
    }
}
