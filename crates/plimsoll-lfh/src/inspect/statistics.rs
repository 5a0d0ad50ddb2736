//! What a heap holds, counted from the outside: from the table of units, the slots, and what slow paths counted.

use super::distribution::Distribution;
use super::runs::Run;
use crate::bucket::{BUCKETS, Bucket};
use crate::unit::{UNIT, UnitKind};

/// What a heap holds at one moment. Nothing of it is kept while the heap works: it is counted when it is asked for.
///
/// Invariants: `committed + uncommitted = reserved`; `committed <= virtual_bytes <= reserved`; `free <= committed`.
#[derive(Debug, Clone, PartialEq)]
pub struct HeapStatistics {
    /// Pieces of address space, each without a gap.
    pub segments: u64,
    /// Bytes of address space.
    pub reserved: u64,
    /// Bytes that may be resident.
    pub committed: u64,
    /// Bytes of the segments, each from its start to the end of its last committed unit.
    pub virtual_bytes: u64,
    /// Bytes of free blocks of the back end (and of the Standard front end) that are committed.
    pub free: u64,
    /// How many free blocks those are.
    pub free_blocks: u64,
    /// Bytes that were given back to the system, or never used.
    pub uncommitted: u64,
    /// How many ranges those are.
    pub uncommitted_ranges: u64,
    /// Blocks larger than [`LARGEST_BLOCK`](crate::LARGEST_BLOCK).
    pub large_blocks: u64,
    /// Bytes of them.
    pub large: u64,
    /// Blocks of the back end and of the Standard front end, by size.
    pub back: Distribution,
    /// The low-fragmentation front end.
    pub front: FrontStatistics,
    /// Units that were changed while they were read; they are counted nowhere else.
    pub moved: u64,
}

/// What the low-fragmentation front end of a heap holds.
#[derive(Debug, Clone, PartialEq)]
pub struct FrontStatistics {
    /// Subsegments.
    pub subsegments: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// By bucket number; 0 is not used.
    pub buckets: [BucketStatistics; BUCKETS + 1],
}

/// The blocks of one bucket. Invariant: `busy + cached + listed + untouched = capacity`, where nothing moved meanwhile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BucketStatistics {
    /// Subsegments.
    pub subsegments: u64,
    /// Blocks that they have room for.
    pub capacity: u64,
    /// Blocks in use.
    pub busy: u64,
    /// Free blocks in the arrays of slots.
    pub cached: u64,
    /// Free blocks in the lists of subsegments.
    pub listed: u64,
    /// Blocks that were never handed out.
    pub untouched: u64,
}
