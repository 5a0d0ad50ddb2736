//! Units, the grains of the heap's address space, and the description of each.

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};

use crate::remote_free::{RemoteFree, SubsegmentState};

/// Bytes of a unit. Extents and subsegments are runs of whole units, and start at one.
pub const UNIT: usize = 16 << 10;

/// Number of a unit, counted from the start of the window (see `arena`). No heap has unit 0: the number stands for
/// none.
pub type UnitIndex = u32;

/// The kind of the run to which a unit belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum UnitKind {
    /// Outside of every heap: never taken, or returned to the arena.
    Nothing = 0,
    /// A free extent of a heap's back end.
    Free = 1,
    /// Blocks of one bucket.
    Subsegment = 2,
    /// One block larger than [`LARGEST_BLOCK`](crate::LARGEST_BLOCK).
    Large = 3,
    /// Coalescing blocks of the Standard front end.
    Standard = 4,
    /// A run that the back end is about to change, in no list: one that is being purged, for example.
    Busy = 5,
    /// A run that was one large block, cached whole for the next one of its length, see `run_cache`.
    Cached = 6,
}

impl UnitKind {
    /// The kind of that number, as another process's memory may hold any.
    pub const fn of_number(number: u8) -> Option<UnitKind> {
        Some(match number {
            0 => UnitKind::Nothing,
            1 => UnitKind::Free,
            2 => UnitKind::Subsegment,
            3 => UnitKind::Large,
            4 => UnitKind::Standard,
            5 => UnitKind::Busy,
            6 => UnitKind::Cached,
            _ => return None,
        })
    }
}

/// The description of a unit: one cache line, in a table away from the blocks, so that no overrun of a block reaches
/// it.
///
/// Invariants, whose executable form is `backend::check`. Checked by `runs_tile_segments_after_any_calls`.
/// 1. A unit is the first of a run exactly if `first` is its own index; it describes the run.
/// 2. Runs tile the segments that belong to a heap: `first + length` is the first unit of the next run. Free neighbours
///    are one extent.
/// 3. The last unit of a free extent has its `kind`, `heap`, `first` and `length`, so that the right neighbour finds
///    its start.
/// 4. The other units of a subsegment or of a Standard run have `kind`, `heap` and `first`. Those of a large block, a
///    cached run or a free extent are [`UnitKind::Nothing`].
/// 5. The untouched units of a free extent are zero.
///
/// Fields are atomics because another process, and statistics of this one, read them at any time; each field names the
/// lock or the owner that *writes* it. Zeroed memory is a unit that is [`UnitKind::Nothing`].
///
/// Layout: version [`LAYOUT`](crate::LAYOUT) of it is read from outside by `plimsoll heap stat`.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Unit {
    /// Subsegment: blocks freed and not yet taken back, see `remote_free`. Lock-free.
    pub remote: RemoteFree,
    /// [`UnitKind`]. Back end's lock, or the run's owner between [`UnitKind::Large`] and [`UnitKind::Cached`].
    pub kind: AtomicU8,
    /// Subsegment: its bucket's number. Set before it is used.
    pub bucket: AtomicU8,
    /// Subsegment: number of looks since its number of free blocks changed. Flush lock.
    pub rest: AtomicU8,
    /// Large, of a hardened heap: 1 if its last page is a guard page. Owner of the block.
    pub guarded: AtomicU8,
    /// Number of the heap it belongs to, from 1. Back end's lock.
    pub heap: AtomicU32,
    /// Units of the run. Back end's lock.
    pub length: AtomicU32,
    /// First unit of the run. Back end's lock.
    pub first: AtomicU32,
    /// The next run in the list that this one is in, 0 at the end. Lock of that list.
    pub next: AtomicU32,
    /// The run before this one in its list, 0 at the start. Lock of that list.
    pub previous: AtomicU32,
    /// Subsegment: number + 1 of the first block of its local free list, 0 for none. Bucket's lock.
    pub local: AtomicU16,
    /// Subsegment: blocks in its local free list. Bucket's lock.
    pub local_free: AtomicU16,
    /// Subsegment: blocks split off so far; those from this number on are untouched. Bucket's lock.
    pub split: AtomicU16,
    /// Subsegment: free blocks at the last look. Flush lock.
    pub seen: AtomicU16,
    /// Subsegment: the pages that are absent, see `subsegment::absent`. Bucket's lock.
    pub absent: AtomicU32,
    /// Free extent: units from its start that may have been written to; those from this number on are zero. Back
    /// end's lock.
    pub touched: AtomicU32,
    /// Touched free extent: the period of the purge since which it is free. Back end's lock.
    pub since: AtomicU32,
    /// Touched free extent: the next one of its period, 0 for the last. Back end's lock.
    pub purge_next: AtomicU32,
    /// Touched free extent: the one before it of its period, 0 for the first. Back end's lock.
    pub purge_previous: AtomicU32,
    /// Large: bytes of the run beyond the requested ones. Owner of the block.
    pub slack: AtomicU32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Unit>() == 64);

impl Unit {
    /// The kind of the run that the unit describes or belongs to.
    #[inline]
    pub fn kind(&self) -> UnitKind {
        // This process writes numbers of kinds alone.
        UnitKind::of_number(self.kind.load(Ordering::Relaxed)).unwrap_or(UnitKind::Nothing)
    }

    /// Makes it describe nothing.
    pub(crate) fn clear(&self) {
        self.remote.end(SubsegmentState::Nothing, 0);
        for byte in [&self.kind, &self.bucket, &self.rest, &self.guarded] {
            byte.store(0, Ordering::Relaxed);
        }
        for number in [&self.local, &self.local_free, &self.split, &self.seen] {
            number.store(0, Ordering::Relaxed);
        }
        let words = [
            &self.heap,
            &self.length,
            &self.first,
            &self.next,
            &self.previous,
            &self.absent,
            &self.touched,
            &self.since,
            &self.purge_next,
            &self.purge_previous,
            &self.slack,
        ];
        for word in words {
            word.store(0, Ordering::Relaxed);
        }
    }
}
