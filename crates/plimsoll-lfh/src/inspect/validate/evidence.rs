//! What the checks of a subsegment collect.

use crate::bucket::SMALLEST_BLOCK;
use crate::inspect::hardened::STATE;
use crate::inspect::runs::Run;
use crate::unit::UNIT;

/// Blocks of a subsegment at most.
const MOST_BLOCKS: usize = UNIT / SMALLEST_BLOCK;

/// What a damage of a subsegment was read from.
#[derive(PartialEq, Eq)]
pub(super) enum Evidence {
    Run(Run),
    /// What the table of blocks says of a block, and what stands behind it. What else the subsegment does meanwhile makes
    /// no difference to it.
    Block([u8; STATE], u64),
}

/// Numbers of blocks of a subsegment.
#[derive(Default)]
pub(super) struct Numbers([u64; MOST_BLOCKS / 64]);

impl Numbers {
    pub(super) fn has(&self, number: u32) -> bool {
        self.0[number as usize / 64] & 1 << (number % 64) != 0
    }

    /// No where it was there.
    pub(super) fn add(&mut self, number: u32) -> bool {
        let is_new = !self.has(number);
        self.0[number as usize / 64] |= 1 << (number % 64);
        is_new
    }
}
