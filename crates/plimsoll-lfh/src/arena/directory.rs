//! The parts of the window that other processes read first: its head, and the table of segments.

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

/// The bytes by which another process finds a heap: the first of the window, at the start of a private anonymous
/// mapping.
pub const MAGIC: [u8; 16] = *b"PLIMSOLL-HEAP\0\0\x01";

/// Version of the memory that other processes may read of a heap: [`Unit`](crate::Unit), and the way to it.
pub const LAYOUT: u32 = 2;

/// The head of the window, with the way to everything else. Addresses are this process's.
///
/// Layout: version [`LAYOUT`](crate::LAYOUT) of it is read from outside by `plimsoll heap stat`.
#[derive(Debug)]
#[repr(C)]
pub struct Directory {
    /// [`MAGIC`], written last.
    pub(super) magic: [AtomicU64; 2],
    /// [`LAYOUT`](crate::LAYOUT).
    pub layout: AtomicU32,
    /// Bytes of a unit, [`UNIT`](crate::UNIT).
    pub unit: AtomicU32,
    /// Address of the window: of this directory.
    pub window: AtomicU64,
    /// [`WINDOW`](super::WINDOW): addresses in which units are counted, used or not.
    pub window_bytes: AtomicU64,
    /// Address of the unit table, [`Unit`](crate::Unit)s by index.
    pub units: AtomicU64,
    /// Address of the table of [`Segment`]s, by number: that of a unit is its index /
    /// [`SEGMENT_UNITS`](super::SEGMENT_UNITS).
    pub segments: AtomicU64,
    /// Address of the first heap's record; that of heap `n` is `n - 1` times [`RECORD`](super::RECORD) further.
    pub records: AtomicU64,
    /// The first unit that no heap ever had. The unit table is readable up to it.
    pub end: AtomicU32,
    /// The highest number that a heap ever had.
    pub heaps: AtomicU32,
    /// Segments that belong to no heap any more, below `end`.
    pub unowned: AtomicU32,
    /// 1 if the window is only addresses, as the address space is limited.
    pub addresses_only: AtomicU32,
    /// The process's key, with which in-block words are encoded.
    pub key: AtomicU64,
    /// How often the window grew.
    pub growths: AtomicU64,
    /// How often growth was refused by the kernel.
    pub refusals: AtomicU64,
    /// Times that pages returned to the kernel.
    pub purges: AtomicU64,
    /// Bytes that returned to the kernel, as addresses: not every page was resident.
    pub purged_bytes: AtomicU64,
}

/// The entry of a segment. Written under the arena's lock, or as noted.
#[derive(Debug)]
#[repr(C)]
pub struct Segment {
    /// Number of the heap that it belongs to, 0 for none, [`Segment::FOREIGN`] if it is memory of other code.
    pub heap: AtomicU16,
    /// 1 where huge pages were requested. Back end's lock.
    pub huge: AtomicU8,
    /// 1 if other code mapped addresses of a run in use. Owner of the run.
    pub lost: AtomicU8,
}

impl Segment {
    /// No heap's: something else is mapped there.
    pub const FOREIGN: u16 = u16::MAX;
}
