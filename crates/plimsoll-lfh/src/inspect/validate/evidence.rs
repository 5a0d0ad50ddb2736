//! Results of the checks of a subsegment.

use crate::bucket::SMALLEST_BLOCK;
use crate::inspect::hardened::STATE;
use crate::inspect::runs::Run;
use crate::unit::UNIT;

/// Blocks of a subsegment at most.
const MOST_BLOCKS: usize = UNIT / SMALLEST_BLOCK;

/// The data behind a damage of a subsegment.
#[derive(PartialEq, Eq)]
pub(super) enum Evidence {
    Run(Run),
    /// The state of a block in the block table, and the word behind it. Other changes of the subsegment do not matter.
    Block([u8; STATE], u64),
}

/// Numbers of blocks of a subsegment.
#[derive(Default)]
pub(super) struct Numbers([u64; MOST_BLOCKS / 64]);

impl Numbers {
    pub(super) fn has(&self, number: u32) -> bool {
        self.0[number as usize / 64] & 1 << (number % 64) != 0
    }

    /// Adds a number. Returns false if it was there.
    pub(super) fn add(&mut self, number: u32) -> bool {
        let is_new = !self.has(number);
        self.0[number as usize / 64] |= 1 << (number % 64);
        is_new
    }
}
