//! Faults of a heap.

use core::fmt;

use crate::bucket::Bucket;
use crate::unit::{UnitIndex, UnitKind};

/// Something wrong, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the fields describe them")]
pub struct Damage {
    /// Number of the heap, 0 if it is not known.
    pub heap: u32,
    /// Address of the block or of the unit.
    pub address: usize,
    pub fault: Fault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names of the fields describe them")]
pub enum Fault {
    /// The description of a unit holds no kind, no heap, no length, or those of no run.
    Description {
        unit: UnitIndex,
        /// Number of the kind that it holds.
        kind: u8,
        /// The first unit that it holds.
        first: u32,
        /// The length that it holds.
        length: u32,
    },
    /// A run belongs to another heap than its segment.
    Owner {
        /// The heap of the segment.
        segment: u32,
    },
    /// The description of a unit inside of a run names another run.
    Inner {
        unit: UnitIndex,
        /// Its first unit by its own description.
        first: u32,
    },
    /// The last unit of a free extent does not know its length.
    Tail { unit: UnitIndex },
    /// Two free extents side by side were not made one.
    Apart {
        /// First unit of the second.
        next: UnitIndex,
    },
    /// A unit in use does not follow on a unit of the segment: there is a hole.
    Hole {
        /// The unit that belongs to no run.
        unit: UnitIndex,
    },
    /// A run's neighbour in its list does not name it as its neighbour.
    List {
        neighbour: UnitIndex,
        /// The unit that it names.
        names: u32,
    },
    /// A subsegment is of no bucket.
    NoBucket {
        /// The number that it holds.
        number: u8,
    },
    /// A subsegment counts more blocks than it has room for.
    Count {
        bucket: Bucket,
        counted: u64,
        /// Blocks that it has room for, or that may be there.
        most: u64,
    },
    /// A list of free blocks leads to something that is no block of its subsegment.
    Link {
        bucket: Bucket,
        /// The number of the block that the link holds.
        number: u32,
    },
    /// A list of free blocks has another length than its count: it runs in a circle, or was cut.
    Length {
        bucket: Bucket,
        /// Blocks that were found.
        found: u32,
        /// Blocks by the subsegment's count.
        said: u32,
    },
    /// A block is in two lists.
    Twice { bucket: Bucket },
    /// The mark of a free block is gone: it was written after it was freed, or overrun from the block before it.
    Mark {
        bucket: Bucket,
        /// The word in place of the tag.
        found: u64,
    },
    /// A pointer of a bucket's array in a slot is no free block.
    Slot { slot: u32, bucket: Bucket },
    /// The array of a bucket in a slot has impossible ends.
    Header {
        slot: u32,
        bucket: Bucket,
        /// Its bounds, in steps: begin, end, current.
        positions: [u16; 3],
    },
    /// The canary behind a block in use of a hardened heap was overwritten.
    Canary {
        /// Its bucket; none of a large block.
        bucket: Option<Bucket>,
        /// The word in place of the canary.
        found: u64,
    },
    /// The block table of a hardened heap holds an impossible state for a block.
    State { bucket: Bucket, state: u8 },
    /// The description of a large block of a hardened heap has more requested bytes than the block.
    Slack {
        /// Bytes of its run beyond the requested ones.
        slack: usize,
    },
    /// A block in the quarantine of a hardened heap has another state than resting, or is not zero any more.
    Resting { slot: u32 },
    /// The quarantine of a slot has impossible ends.
    Quarantine {
        slot: u32,
        /// Its bounds, in steps: begin, end, current.
        positions: [u16; 3],
    },
    /// A block of the Standard front end has an impossible header.
    Standard {
        /// The word in its place.
        header: u64,
    },
}

impl Fault {
    /// The stable name in JSON.
    pub fn code(&self) -> &'static str {
        match self {
            Fault::Description { .. } => "description",
            Fault::Owner { .. } => "owner",
            Fault::Inner { .. } => "inner-unit",
            Fault::Tail { .. } => "last-unit",
            Fault::Apart { .. } => "not-coalesced",
            Fault::Hole { .. } => "hole",
            Fault::List { .. } => "list",
            Fault::NoBucket { .. } => "no-bucket",
            Fault::Count { .. } => "count",
            Fault::Link { .. } => "link",
            Fault::Length { .. } => "length",
            Fault::Twice { .. } => "listed-twice",
            Fault::Mark { .. } => "free-block-tag",
            Fault::Slot { .. } => "slot-pointer",
            Fault::Header { .. } => "slot-bounds",
            Fault::Canary { .. } => "canary",
            Fault::State { .. } => "block-state",
            Fault::Slack { .. } => "requested-size",
            Fault::Resting { .. } => "quarantined-block",
            Fault::Quarantine { .. } => "quarantine-bounds",
            Fault::Standard { .. } => "block-header",
        }
    }

    /// The bucket whose blocks it concerns; none if it concerns other memory.
    pub fn bucket(&self) -> Option<Bucket> {
        match self {
            Fault::Count { bucket, .. }
            | Fault::Link { bucket, .. }
            | Fault::Length { bucket, .. }
            | Fault::Twice { bucket }
            | Fault::Mark { bucket, .. }
            | Fault::Slot { bucket, .. }
            | Fault::Header { bucket, .. }
            | Fault::State { bucket, .. } => Some(*bucket),
            Fault::Canary { bucket, .. } => *bucket,
            _ => None,
        }
    }
}

/// A table with a sentence for each fault: one `match`, so that the compiler finds a fault without one.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Fault::Description {
                unit,
                kind,
                first,
                length,
            } => write!(
                f,
                "the description of unit {unit} is damaged: kind {kind}, first unit {first}, length {length}"
            ),
            Fault::Owner { segment: 0 } => f.write_str("the run is in a segment that belongs to no heap"),
            Fault::Owner { segment } => write!(f, "the run is in a segment of heap {segment}"),
            Fault::Inner { unit, first } => {
                write!(
                    f,
                    "unit {unit} of the run names the run at unit {first} as its own"
                )
            }
            Fault::Tail { unit } => write!(
                f,
                "the last unit ({unit}) of the free extent does not name its first"
            ),
            Fault::Apart { next } => write!(
                f,
                "the free extents here and at unit {next} are neighbours and not coalesced"
            ),
            Fault::Hole { unit } => write!(f, "unit {unit} belongs to a heap but to no run"),
            Fault::List { neighbour, names } => write!(
                f,
                "the list is damaged: its neighbour, unit {neighbour}, names unit {names} in its place"
            ),
            Fault::NoBucket { number } => {
                write!(f, "the subsegment has bucket {number}, which does not exist")
            }
            Fault::Count {
                bucket,
                counted,
                most,
            } => write!(
                f,
                "the subsegment of {}-byte blocks counts {counted} blocks where {most} are possible",
                bucket.size()
            ),
            Fault::Link { bucket, number } => write!(
                f,
                "a free block of {} bytes leads to block {number}, which its subsegment does not have: written after \
                 it was freed, or overrun from the block before it",
                bucket.size()
            ),
            Fault::Length { bucket, found, said } => write!(
                f,
                "a list of free blocks of {} bytes has {found} blocks and should have {said}",
                bucket.size()
            ),
            Fault::Twice { bucket } => write!(
                f,
                "a block of {} bytes is in two lists of free blocks: freed twice",
                bucket.size()
            ),
            Fault::Mark { bucket, found } => write!(
                f,
                "a free block of {} bytes holds {found:#x} in place of its tag: written after it was freed, or \
                 overrun from the block before it",
                bucket.size()
            ),
            Fault::Slot { slot, bucket } => write!(
                f,
                "slot {slot} holds this address as a free block of {} bytes, which it is not",
                bucket.size()
            ),
            Fault::Header {
                slot,
                bucket,
                positions: [begin, end, current],
            } => write!(
                f,
                "the array of free {}-byte blocks of slot {slot} is damaged: from {begin} to {end}, filled up to \
                 {current}",
                bucket.size()
            ),
            Fault::Canary {
                bucket: Some(bucket),
                found,
            } => write!(
                f,
                "{found:#x} is behind a block in use of {} bytes, in place of its canary: it was written past the end of \
                 the requested size",
                bucket.size()
            ),
            Fault::Canary { bucket: None, found } => write!(
                f,
                "{found:#x} is behind a large block, in place of its canary: it was written past the end of the requested size"
            ),
            Fault::State { bucket, state } => write!(
                f,
                "the block table holds the impossible state {state} for a block of {} bytes",
                bucket.size()
            ),
            Fault::Slack { slack } => write!(
                f,
                "the description of the large block is damaged: it has {slack} bytes behind the requested size"
            ),
            Fault::Resting { slot } => write!(
                f,
                "slot {slot} holds this block in quarantine, where it does not rest, or it was written after it was freed"
            ),
            Fault::Quarantine {
                slot,
                positions: [begin, end, current],
            } => write!(
                f,
                "the quarantine of slot {slot} is damaged: from {begin} to {end}, filled up to {current}"
            ),
            Fault::Standard { header } => write!(
                f,
                "{header:#x} is no header of a block of the Standard front end: overrun from the block before it"
            ),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "heap {} at {:#x}: {}", self.heap, self.address, self.fault)
    }
}

/// Whether the other units of a run of that kind are described, too.
pub(super) const fn describes_inner(kind: UnitKind) -> bool {
    matches!(kind, UnitKind::Subsegment | UnitKind::Standard)
}
