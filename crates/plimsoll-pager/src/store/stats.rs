//! Counters of a store.

use core::sync::atomic::{AtomicU64, Ordering};

use super::Store;
use super::segment::{Content, State};
use super::units::{PAGE, SEGMENT, UNIT};

/// Counters that every put and free changes.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) pages: AtomicU64,
    pub(super) same_filled: AtomicU64,
    pub(super) damaged: AtomicU64,
}

/// The contents of a store at about one moment; bytes except where the name says pages or segments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// RAM in use for anything: segments, headers, tables, buffers.
    pub used: u64,
    /// The most that puts and cleaning may use.
    pub limit: u64,
    /// Pages that entries hold.
    pub pages: u64,
    /// Pages that places hold.
    pub same_filled_pages: u64,
    /// Entries in use, with their headers.
    pub live: u64,
    /// Entries in use of segments with pages as they were put.
    pub live_fresh: u64,
    /// Entries in use of segments that were compressed again, one page at a time.
    pub live_packed: u64,
    /// Entries in use of segments that were compressed again, up to four pages together.
    pub live_quads: u64,
    /// Entries out of use, and ends of segments that no entry fits. Cleaning frees a part of it.
    pub dead: u64,
    /// Free segments that are resident, to be used again soon.
    pub recycled: u64,
    /// Segments that writers append to.
    pub open_segments: u64,
    /// Segments that no writer appends to, those that are cleaned at the moment included.
    pub closed_segments: u64,
    /// Segments that hold a damaged entry; they are free when all their pages are.
    pub damaged_segments: u64,
    /// Pages whose copy was found damaged.
    pub damaged_pages: u64,
}

impl Store {
    /// The numbers, counted over all segments: some microseconds for each GiB.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            used: self.used_bytes(),
            limit: self.space.limit(),
            pages: self.counters.pages.load(Ordering::Relaxed),
            same_filled_pages: self.counters.same_filled.load(Ordering::Relaxed),
            recycled: u64::from(self.space.free_segments().0) * SEGMENT as u64,
            damaged_pages: self.counters.damaged.load(Ordering::Relaxed),
            ..Stats::default()
        };
        for segment in 0..self.space.begun() {
            let record = self.space.record(segment);
            let (state, live) = record.state_and_live();
            let live = u64::from(live) * UNIT as u64;
            let extent = record.extent();
            match state {
                State::Free => continue,
                State::Open => {
                    stats.open_segments += 1;
                    stats.dead += (u64::from(extent.filled) * UNIT as u64).saturating_sub(live);
                }
                State::Closed | State::Claimed | State::Damaged => {
                    stats.closed_segments += 1;
                    stats.damaged_segments += u64::from(state == State::Damaged);
                    stats.dead += (u64::from(extent.resident) * PAGE as u64).saturating_sub(live);
                }
            }
            stats.live += live;
            match extent.content {
                Content::Fresh | Content::Settled => stats.live_fresh += live,
                Content::Packed => stats.live_packed += live,
                Content::Quads => stats.live_quads += live,
            }
        }
        stats
    }
}
