//! How often blocks may move by their pages.
//!
//! A move may split mappings of the kernel's, of which a process may only have so many (`vm.max_map_count`): the moved
//! pages are a mapping that does not join its neighbours. So a process has a number of moves, and when it has made them,
//! its mappings are counted: memory that moved often has no more of them than memory that moved once.
//!
//! Invariant: moves alone never take more than half of the mappings that the process may have. Checked by
//! `moves_are_counted_by_the_mappings_that_they_leave`.

use core::sync::atomic::{AtomicU32, Ordering};

/// Moves before the first count.
const FIRST: u32 = 8192;
/// Mappings that a move adds at most.
const MAPPINGS: usize = 2;
/// Fewer moves than this are not worth a count of mappings.
const FEWEST: usize = 256;
/// After a count that left none, so many moves are refused until the next.
const REFUSED: u32 = 1024;
/// After so many failures in a row, the kernel is assumed to be unable to move pages.
const MOST_FAILURES: u32 = 64;

/// The moves of a process.
#[derive(Debug)]
pub(crate) struct Moves {
    /// Moves until the next count.
    left: AtomicU32,
    /// Refusals since the last count that left moves.
    refused: AtomicU32,
    /// Failures since the last success.
    failed: AtomicU32,
}

pub(crate) static MOVES: Moves = Moves::new(FIRST);

impl Moves {
    const fn new(left: u32) -> Moves {
        Moves {
            left: AtomicU32::new(left),
            refused: AtomicU32::new(0),
            failed: AtomicU32::new(0),
        }
    }

    /// Whether a block may move by its pages now. Counts it.
    pub(crate) fn take(&self) -> bool {
        self.take_or(most_moves)
    }

    fn take_or(&self, most_moves: impl FnOnce() -> Option<usize>) -> bool {
        let less = |left: u32| left.checked_sub(1);
        let taken = || {
            self.left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
                .is_ok()
        };
        self.failed.load(Ordering::Relaxed) < MOST_FAILURES && (taken() || self.renew(most_moves))
    }

    /// Counts the mappings, unless it was done not long ago, and takes one of the moves that they leave.
    #[cold]
    fn renew(&self, most_moves: impl FnOnce() -> Option<usize>) -> bool {
        if !self
            .refused
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(REFUSED)
        {
            return false;
        }
        match most_moves() {
            Some(most) if most >= FEWEST => {
                self.left
                    .store((most - 1).min(u32::MAX as usize) as u32, Ordering::Relaxed);
                self.refused.store(0, Ordering::Relaxed);
                true
            }
            _ => false,
        }
    }

    /// Moves until the next count.
    #[cfg(test)]
    pub(crate) fn left(&self) -> u32 {
        self.left.load(Ordering::Relaxed)
    }

    /// Notes whether the kernel moved the pages.
    pub(crate) fn note(&self, moved: bool) {
        match moved {
            true => self.failed.store(0, Ordering::Relaxed),
            false => _ = self.failed.fetch_add(1, Ordering::Relaxed),
        }
    }
}

/// The moves that the process's mappings leave; none if they cannot be counted.
fn most_moves() -> Option<usize> {
    let half = plimsoll_os::most_mappings()? / 2;
    Some(half.saturating_sub(plimsoll_os::count_mappings()?) / MAPPINGS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_are_counted_by_the_mappings_that_they_leave() {
        let moves = Moves::new(2);
        let never = || -> Option<usize> { panic!("moves are left") };
        assert!(moves.take_or(never) && moves.take_or(never));
        assert!(moves.take_or(|| Some(1000)), "few mappings came of the others");
        assert!((1..1000).all(|_| moves.take_or(never)));
        assert!(!moves.take_or(|| Some(FEWEST - 1)));
        assert!(
            (1..REFUSED).all(|_| !moves.take_or(never)),
            "no count for each refusal"
        );
        assert!(!moves.take_or(|| None));
        assert!((1..REFUSED).all(|_| !moves.take_or(never)));
        assert!(moves.take_or(|| Some(FEWEST)));
        assert_eq!(moves.left(), FEWEST as u32 - 1);
    }

    #[test]
    fn a_kernel_that_moves_nothing_is_not_asked_for_ever() {
        let moves = Moves::new(1000);
        for _ in 1..MOST_FAILURES {
            moves.note(false);
        }
        assert!(moves.take());
        moves.note(true);
        for _ in 0..MOST_FAILURES {
            assert!(moves.take());
            moves.note(false);
        }
        assert!(!moves.take());
    }
}
