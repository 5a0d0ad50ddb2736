//! The block table: a byte for each 16 bytes of the window, out of the way of the blocks, with the state of the block of a
//! hardened heap that starts there.
//!
//! ```text
//!             allocate              free                 quarantine is full
//! NEVER or FREE ----> in use + slack ----> RESTING --------------------> FREE
//! ```
#![allow(unsafe_code)]

use core::ptr;
use core::sync::atomic::Ordering;

use crate::arena::block_byte as state;
use crate::bucket::SMALLEST_BLOCK;
use crate::unit::UNIT;

/// Set in the bucket table beside the bucket of a hardened heap's units: no fast path knows such a bucket.
pub(crate) const HIDDEN: u8 = 0x80;

/// No block starts there, or it was never allocated.
pub(crate) const NEVER: u8 = 0;
pub(crate) const FREE: u8 = 1;
pub(crate) const RESTING: u8 = 2;
/// From here on: in use, with so many bytes more than requested.
const IN_USE: u8 = 3;
/// In use, with a number of bytes more that the next two bytes of the table hold.
const IN_USE_LONG: u8 = u8::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Never allocated, or free.
    Free,
    /// In quarantine, or on its way there or from there.
    Resting,
    /// In use, with so many bytes more than requested.
    InUse { slack: usize },
}

impl State {
    /// By the block's byte of the table and the two that follow it.
    pub(crate) const fn of_bytes([byte, low, high]: [u8; 3]) -> State {
        match byte {
            NEVER | FREE => State::Free,
            RESTING => State::Resting,
            IN_USE_LONG => State::InUse {
                slack: low as usize | (high as usize) << 8,
            },
            byte => State::InUse {
                slack: (byte - IN_USE) as usize,
            },
        }
    }
}

/// Clears the bytes of units that become a subsegment.
pub(crate) fn begin_subsegment(start: usize, units: u32) {
    let bytes = units as usize * UNIT / SMALLEST_BLOCK;
    // SAFETY: the table covers the units, and no block starts in them, so no thread reads their bytes.
    unsafe { ptr::write_bytes(state(start).as_ptr(), NEVER, bytes) };
}

/// Notes how many bytes more than requested a block has, as it comes into use.
pub(crate) fn note_slack(block: usize, slack: usize) {
    if slack < (IN_USE_LONG - IN_USE) as usize {
        state(block).store(IN_USE + slack as u8, Ordering::Release);
        return;
    }
    // A block with so much slack is long enough to have further bytes of the table to itself.
    state(block + SMALLEST_BLOCK).store(slack as u8, Ordering::Relaxed);
    state(block + 2 * SMALLEST_BLOCK).store((slack >> 8) as u8, Ordering::Relaxed);
    state(block).store(IN_USE_LONG, Ordering::Release);
}

/// The bytes more than requested of a block in use, by its byte of the table.
pub(crate) fn slack(block: usize, byte: u8) -> usize {
    if byte != IN_USE_LONG {
        return (byte - IN_USE) as usize;
    }
    let low = state(block + SMALLEST_BLOCK).load(Ordering::Relaxed);
    let high = state(block + 2 * SMALLEST_BLOCK).load(Ordering::Relaxed);
    low as usize | (high as usize) << 8
}
