//! Units: what the heap's address space is counted in, and the description of each.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use crate::remote_free::RemoteFree;

/// Bytes of a unit. Extents and subsegments are runs of whole units, and start at one.
pub const UNIT: usize = 16 << 10;

/// Number of a unit, counted from the start of the window (see `arena`). 0 is never given out: it stands for none.
pub type UnitIndex = u32;

/// What the run is to which a unit belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum UnitKind {
    /// Outside of every heap: never taken, or given back to the arena.
    Nothing = 0,
    /// A free extent of a heap's back end.
    Free = 1,
    /// Blocks of one bucket.
    Subsegment = 2,
    /// One block larger than [`LARGEST_BLOCK`](crate::LARGEST_BLOCK).
    Large = 3,
    /// Coalescing blocks of the Standard front end.
    Standard = 4,
    /// A run that the back end is about to change, in nobody's list: being purged, for one.
    Busy = 5,
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
            _ => return None,
        })
    }
}

/// The description of a unit, a cache line, out of the way of the blocks: nothing that overruns a block hits it.
///
/// The first unit of a run describes the run. The others have `kind` and `first` alone (and the last unit of a free
/// extent `length`, so that its right neighbour finds its start: [`UnitKind::Free`] runs are coalesced by it).
///
/// Fields are atomics because another process, and statistics of this one, read them at any time; who may *write*
/// them is written at each. Zeroed memory is a unit that is [`UnitKind::Nothing`].
///
/// Layout: version [`LAYOUT`](crate::LAYOUT) of it is read from outside by `plimsoll heap stat`.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Unit {
    /// Subsegment: blocks freed and not yet taken back, see `remote_free`. Lock-free.
    pub remote: RemoteFree,
    /// [`UnitKind`]. Back end's lock.
    pub kind: AtomicU8,
    /// Subsegment: its bucket's number. Set before it is used.
    pub bucket: AtomicU8,
    /// Subsegment: where it stands, see `subsegment`. Bucket's lock.
    pub state: AtomicU8,
    /// Free extent: 1 where some of its pages may be resident. Back end's lock.
    pub dirty: AtomicU8,
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
    pub local: AtomicU32,
    /// Subsegment: blocks in its local free list. Bucket's lock.
    pub local_free: AtomicU32,
    /// Subsegment: blocks that were ever handed out; those from this number on are untouched. Bucket's lock.
    pub carved: AtomicU32,
    /// Free extent: when it became so, in milliseconds of `CLOCK_MONOTONIC`, for the purge. Back end's lock.
    pub since: AtomicU32,
    /// Large: bytes that were asked for. Owner of the block.
    pub asked: AtomicU64,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Unit>() == 64);
