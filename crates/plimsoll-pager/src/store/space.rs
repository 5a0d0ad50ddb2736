//! The segments of a store, and the budget that all of its memory counts against.
//!
//! | part of the mapping | resident |
//! |---|---|
//! | records of segments, 16 bytes each | up to the last segment that was ever used |
//! | areas of readers, then of writers | the parts of an area that were ever used |
//! | segments | the pages up to the end of the last entry |
//!
//! Invariant: [`Space::used`] counts every page of the mapping that may be resident, and no segment gets a page that
//! would make it exceed the limit. Checked by `used_bytes_cover_what_is_resident`, `the_limit_is_never_exceeded`.
#![allow(unsafe_code, reason = "segments and their records viewed as atomic words")]

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use plimsoll_os::Errno;

use super::entry::{Weight, live_bits, live_pages};
use super::memory::{Memory, Part};
use super::place::{MOST_SEGMENTS, Spot};
use super::segment::{Content, Extent, FreeList, Outcome, Record};
use super::units::{PAGE, SEGMENT, SEGMENT_PAGES, SEGMENT_UNITS, UNIT};

/// Bytes of the limit that puts leave to cleaning, which needs a segment before it frees one.
pub(super) const RESERVE: u64 = 2 * SEGMENT as u64;

/// Records on a page.
const RECORDS: u32 = (PAGE / size_of::<Record>()) as u32;

/// The reason for which bytes are written to a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A page is put.
    Put,
    /// An entry is moved, to free a segment, while no more than so many bytes are used.
    Move(u64),
}

/// The limit leaves no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

/// The segments of a store.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) memory: Memory,
    records: Part,
    units: Part,
    segments: u32,
    /// Segments that were ever used: those below.
    begun: AtomicU32,
    used: AtomicU64,
    /// Those of the used bytes that stay in use without any entry.
    fixed: AtomicU64,
    limit: AtomicU64,
    /// Free segments whose pages are resident, to be used again soon.
    recycled: FreeList,
    /// Free segments whose pages the kernel has.
    returned: FreeList,
    epoch: AtomicU32,
}

impl Space {
    /// Reserves memory for `segments` segments, and parts of those lengths for others' use.
    ///
    /// # Errors
    /// As [`Memory::map`], and [`Errno::INVAL`] for more segments than places can name.
    pub(super) fn new<const PARTS: usize>(
        segments: u32,
        parts: [usize; PARTS],
        limit: u64,
    ) -> Result<(Space, [Part; PARTS]), Errno> {
        if segments > MOST_SEGMENTS {
            return Err(Errno::INVAL);
        }
        let records = segments as usize * size_of::<Record>();
        let units = segments as usize * SEGMENT;
        // A page for each part that ends within one.
        let length = records + units + parts.iter().sum::<usize>() + (PARTS + 2) * PAGE;
        let mut memory = Memory::map(length)?;
        let mut take = |length| memory.take(length).expect("the mapping has room for every part");
        let (records, units) = (take(records), take(units));
        let others = parts.map(take);
        let space = Space {
            memory,
            records,
            units,
            segments,
            begun: AtomicU32::new(0),
            used: AtomicU64::new(0),
            fixed: AtomicU64::new(0),
            limit: AtomicU64::new(limit),
            recycled: FreeList::new(),
            returned: FreeList::new(),
            epoch: AtomicU32::new(0),
        };
        Ok((space, others))
    }

    pub(super) fn records(&self) -> &[Record] {
        let start = self.memory.at::<Record>(&self.records, 0, self.segments as usize);
        // SAFETY: the part has records alone, whose zeroed memory is one, and which change by atomic words.
        unsafe { core::slice::from_raw_parts(start.as_ptr(), self.segments as usize) }
    }

    pub(super) fn record(&self, segment: u32) -> &Record {
        &self.records()[segment as usize]
    }

    /// The units of a segment.
    pub(super) fn words(&self, segment: u32) -> &[AtomicU64] {
        let offset = segment as usize * SEGMENT;
        let start = self
            .memory
            .at::<AtomicU64>(&self.units, offset, SEGMENT_UNITS as usize);
        // SAFETY: the part has segments alone, which are read and written by atomic words alone.
        unsafe { core::slice::from_raw_parts(start.as_ptr(), SEGMENT_UNITS as usize) }
    }

    /// Segments that were ever used: those of lower numbers.
    pub(super) fn begun(&self) -> u32 {
        self.begun.load(Ordering::Acquire)
    }

    /// Free segments: with resident pages, and without.
    pub(super) fn free_segments(&self) -> (u32, u32) {
        (self.recycled.length(), self.returned.length())
    }

    pub(super) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    pub(super) fn advance_epoch(&self) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    pub(super) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
        if self.used() > bytes {
            self.return_free();
        }
    }

    /// Counts bytes that are resident from now on whatever the limit: of tables and areas.
    pub(super) fn count(&self, bytes: usize) {
        self.used.fetch_add(bytes as u64, Ordering::Relaxed);
        self.fixed.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn fixed(&self) -> u64 {
        self.fixed.load(Ordering::Relaxed)
    }

    /// Moving from now on: within the limit, or within the reserve above the present use, where the limit was lowered below
    /// that. The first copy of a segment needs room, and the segment that it frees is room for the next.
    pub(super) fn moving(&self) -> Purpose {
        Purpose::Move(self.limit().max(self.used() + RESERVE))
    }

    fn charge(&self, bytes: u64, purpose: Purpose) -> Result<(), Full> {
        let most = match purpose {
            Purpose::Put => self.limit().saturating_sub(RESERVE),
            Purpose::Move(most) => most,
        };
        let add = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= most);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(_) => Ok(()),
            Err(_) => Err(Full),
        }
    }

    /// Opens a free segment for a writer.
    pub(super) fn open(&self, content: Content) -> Result<u32, Full> {
        let records = self.records();
        let free = self.recycled.pop(records);
        let segment = free
            .or_else(|| self.returned.pop(records))
            .map_or_else(|| self.begin(), Ok)?;
        let record = self.record(segment);
        record.set_extent(Extent {
            filled: 0,
            content,
            ..record.extent()
        });
        record.set_epoch(0);
        record.open();
        Ok(segment)
    }

    /// Takes a segment that was never used.
    fn begin(&self) -> Result<u32, Full> {
        let add = |begun: u32| (begun < self.segments).then_some(begun + 1);
        let begun = self.begun.fetch_update(Ordering::AcqRel, Ordering::Relaxed, add);
        let segment = begun.map_err(|_| Full)?;
        if segment.is_multiple_of(RECORDS) {
            self.count(PAGE);
        }
        Ok(segment)
    }

    /// Writes an entry, whole units of which `live` are in use, into an open segment, by its writer.
    pub(super) fn write(&self, spot: Spot, entry: &[u8], live: u32, purpose: Purpose) -> Result<(), Full> {
        let end = spot.unit + (entry.len() / UNIT) as u32;
        let record = self.record(spot.segment);
        let extent = record.extent();
        let pages = (end as usize * UNIT).div_ceil(PAGE) as u32;
        if pages > extent.resident {
            self.charge(u64::from(pages - extent.resident) * PAGE as u64, purpose)?;
        }
        let words = &self.words(spot.segment)[spot.unit as usize..end as usize];
        for (word, bytes) in words.iter().zip(entry.chunks_exact(UNIT)) {
            word.store(bytes.try_into().map_or(0, u64::from_le_bytes), Ordering::Relaxed);
        }
        record.set_extent(Extent {
            filled: end,
            resident: pages.max(extent.resident),
            content: extent.content,
        });
        record.add(live);
        Ok(())
    }

    /// Takes the last entry of an open segment back, `live` units of which are in use, by its writer: no other thread
    /// knows it.
    pub(super) fn unwrite(&self, spot: Spot, live: u32) {
        let record = self.record(spot.segment);
        record.set_extent(Extent {
            filled: spot.unit,
            ..record.extent()
        });
        // It is open, so it stays as it is.
        let _ = record.subtract(live);
    }

    /// Clears the live bits of pages of an entry of that weight. Returns those that were set.
    pub(super) fn retire(&self, spot: Spot, pages: u8, weight: Weight) -> u8 {
        let word = &self.words(spot.segment)[spot.unit as usize];
        let before = live_pages(word.fetch_and(!live_bits(pages), Ordering::AcqRel));
        let less = weight.of(before) - weight.of(before & !pages);
        if less > 0 {
            self.settle(spot.segment, self.record(spot.segment).subtract(less));
        }
        before & pages
    }

    /// Puts a segment into a list if it has become free.
    pub(super) fn settle(&self, segment: u32, outcome: Outcome) {
        if outcome == Outcome::Kept {
            return;
        }
        let most = match self.limit() {
            limit if self.used() > limit => 1,
            limit => (limit / (64 * SEGMENT as u64)).clamp(1, 64),
        };
        if u64::from(self.recycled.length()) < most || !self.return_pages(segment) {
            self.recycled.push(self.records(), segment);
        } else {
            self.returned.push(self.records(), segment);
        }
    }

    /// Returns the pages of all free segments to the kernel. Returns the bytes.
    pub(super) fn return_free(&self) -> u64 {
        let before = self.used();
        for _ in 0..self.recycled.length() {
            let Some(segment) = self.recycled.pop(self.records()) else {
                break;
            };
            let list = if self.return_pages(segment) {
                &self.returned
            } else {
                &self.recycled
            };
            list.push(self.records(), segment);
        }
        before.saturating_sub(self.used())
    }

    /// Returns the pages of a free segment that is in no list. Returns false if they are locked.
    fn return_pages(&self, segment: u32) -> bool {
        let record = self.record(segment);
        let extent = record.extent();
        debug_assert!(extent.resident <= SEGMENT_PAGES);
        let bytes = extent.resident as usize * PAGE;
        let offset = segment as usize * SEGMENT;
        // SAFETY: the segment is free, and in the hands of this thread: no entry of it is in use. A read by a place that
        // is no more finds old words or zeros, by atomic loads.
        let is_returned = unsafe { self.memory.discard(&self.units, offset, bytes) };
        if is_returned {
            record.set_extent(Extent {
                resident: 0,
                ..extent
            });
            self.used.fetch_sub(bytes as u64, Ordering::Relaxed);
        }
        is_returned
    }
}
