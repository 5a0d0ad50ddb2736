//! Claims of segments whose entries move, the pages that moved, and how the claims end.

use super::segment::State;
use super::space::{Full, Space};

/// Pages that moved, and pages whose owner refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Moves {
    pub(super) moved: u64,
    pub(super) refused: u64,
    /// Bytes of the copies.
    pub(super) copied: u64,
}

impl Moves {
    pub(super) fn add(&mut self, other: Moves) {
        self.moved += other.moved;
        self.refused += other.refused;
        self.copied += other.copied;
    }
}

/// The result of [`Store::clean`](super::Store::clean) and [`Store::recompress`](super::Store::recompress).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cleaned {
    /// Segments that were worked on.
    pub segments: u32,
    /// Pages that moved.
    pub moved: u64,
    /// Pages whose owner refused.
    pub refused: u64,
    /// Bytes that were written.
    pub copied: u64,
    /// Segments in which a damaged entry was found.
    pub damaged: u32,
    /// Whether the work ended because the limit left no room for a copy, not even the reserve.
    pub is_full: bool,
}

impl Cleaned {
    pub(super) fn add(&mut self, moves: Moves) {
        self.moved += moves.moved;
        self.refused += moves.refused;
        self.copied += moves.copied;
    }

    /// Ends the claim of a segment whose work ended so.
    pub(super) fn finish(&mut self, space: &Space, segment: u32, ended: Result<(), End>) {
        let state = match ended {
            Err(End::Damaged) => State::Damaged,
            Ok(()) | Err(End::Full) => State::Closed,
        };
        self.segments += 1;
        self.is_full |= ended == Err(End::Full);
        self.damaged += u32::from(state == State::Damaged);
        space.settle(segment, space.record(segment).finish(state));
    }
}

/// Why the work on a segment ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The limit leaves no room.
    Full,
    /// An entry is damaged: those behind it cannot be found.
    Damaged,
}

impl From<Full> for End {
    fn from(Full: Full) -> End {
        End::Full
    }
}
