//! Slots, blocks and buffers.

use std::fmt;
use std::ops::Deref;

/// Bytes of a block: the unit of encryption and of reads.
pub const BLOCK_BYTES: usize = 16 << 10;
/// Bytes of a slot and of a segment: the unit of allocation.
pub const SLOT_BYTES: usize = 64 << 10;
/// Blocks of a slot.
pub const BLOCKS_PER_SLOT: usize = SLOT_BYTES / BLOCK_BYTES;
/// The most segments of one write.
pub const SLOTS_PER_WRITE: usize = 16;
/// The most slots of a page file: 4 TiB.
pub const MOST_SLOTS: u32 = 1 << 26;
/// Bytes of the largest write.
pub(super) const WRITE_BYTES: usize = SLOTS_PER_WRITE * SLOT_BYTES;

/// The data of a slot.
pub type Segment = [u8; SLOT_BYTES];

/// A part of a page file that holds one segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u32);

impl Slot {
    /// The slot of that number; none from [`MOST_SLOTS`] on.
    pub const fn new(number: u32) -> Option<Slot> {
        if number < MOST_SLOTS {
            Some(Slot(number))
        } else {
            None
        }
    }

    /// A number below [`MOST_SLOTS`]: it fits 26 bits.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The block that holds byte `offset` of the segment; none past its end.
    pub const fn block_at(self, offset: usize) -> Option<Block> {
        if offset < SLOT_BYTES {
            Some(Block(
                self.0 * BLOCKS_PER_SLOT as u32 + (offset / BLOCK_BYTES) as u32,
            ))
        } else {
            None
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {}", self.0)
    }
}

/// A part of a slot that is encrypted and read as a whole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block(u32);

impl Block {
    /// Its slot.
    pub const fn slot(self) -> Slot {
        Slot(self.0 / BLOCKS_PER_SLOT as u32)
    }

    /// Its number in the slot.
    pub(super) const fn in_slot(self) -> usize {
        self.0 as usize % BLOCKS_PER_SLOT
    }

    /// Position of its first byte in the file.
    pub const fn position(self) -> u64 {
        self.0 as u64 * BLOCK_BYTES as u64
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {} of slot {}", self.in_slot(), self.slot().0)
    }
}

/// Memory for one block, aligned for direct access to every disk whose blocks have up to 4096 bytes.
#[derive(Clone)]
#[repr(C, align(4096))]
pub struct BlockBuffer(pub [u8; BLOCK_BYTES]);

impl BlockBuffer {
    /// Zero bytes.
    pub const fn new() -> BlockBuffer {
        BlockBuffer([0; BLOCK_BYTES])
    }
}

impl Default for BlockBuffer {
    fn default() -> BlockBuffer {
        BlockBuffer::new()
    }
}

impl fmt::Debug for BlockBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BlockBuffer")
    }
}

/// The slots of a write, in the order of its segments.
#[derive(Clone, Copy)]
pub struct Slots {
    slots: [Slot; SLOTS_PER_WRITE],
    count: usize,
}

impl Slots {
    pub(super) const NONE: Slots = Slots {
        slots: [Slot(0); SLOTS_PER_WRITE],
        count: 0,
    };

    pub(super) fn push(&mut self, slot: Slot) {
        self.slots[self.count] = slot;
        self.count += 1;
    }
}

impl Deref for Slots {
    type Target = [Slot];

    fn deref(&self) -> &[Slot] {
        &self.slots[..self.count]
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
