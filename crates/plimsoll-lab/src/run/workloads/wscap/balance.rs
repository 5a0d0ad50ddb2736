//! A balance-set manager in user space: a thread that reads its process's resident memory once a second, and trims
//! the part above a cap. It needs no privilege and no cgroup.

use std::io;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plimsoll_os::{Errno, Range, page_out};

use crate::workload::WorkingSet;

/// Time between two looks, as Windows' balance-set manager has it.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Bytes trimmed between two reads of the resident memory: small beside any cap.
const PIECE: u64 = 1 << 20;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum BalanceError {
    #[error("cannot read /proc/self/statm: {0}; is /proc mounted?")]
    Unreadable(#[from] io::Error),
    #[error("cannot call madvise(MADV_PAGEOUT): {0}; it needs Linux 5.4 or newer")]
    Refused(Errno),
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Balanced {
    /// Looks, the first at once.
    pub(super) looks: u64,
    /// Bytes by which the resident memory was smaller after its trims.
    pub(super) trimmed_bytes: u64,
    /// Seconds that the trims took.
    pub(super) seconds: f64,
}

/// The manager of some ranges of this process.
pub(super) struct Balancer {
    /// In pieces, in the order in which they are trimmed: the one that was left alone the longest comes next.
    pieces: Vec<Range>,
    working_set: WorkingSet,
    cap: u64,
    look_every: Duration,
    ended: Mutex<bool>,
    end: Condvar,
}

impl Balancer {
    /// A manager that keeps a working set at `cap` bytes by trimming `ranges` (address and length).
    pub(super) fn new(ranges: Vec<(u64, u64)>, working_set: WorkingSet, cap: u64) -> Balancer {
        Balancer {
            working_set,
            pieces: ranges.into_iter().flat_map(pieces).collect(),
            cap,
            look_every: LOOK_EVERY,
            ended: Mutex::new(false),
            end: Condvar::new(),
        }
    }

    /// Ends [`Balancer::go_on`] in the other thread.
    pub(super) fn end(&self) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.end.notify_all();
    }

    fn has_ended(&self) -> bool {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks and trims until the end.
    pub(super) fn go_on(&self) -> Result<Balanced, BalanceError> {
        let mut balanced = Balanced::default();
        let mut next = 0;
        loop {
            balanced.looks += 1;
            let start = Instant::now();
            let before = self.working_set.bytes()?;
            if before > self.cap {
                next = self.trim(next)?;
                balanced.trimmed_bytes += before.saturating_sub(self.working_set.bytes()?);
                balanced.seconds += start.elapsed().as_secs_f64();
            }
            let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = self
                .end
                .wait_timeout_while(ended, self.look_every, |ended| !*ended);
            if *waited.unwrap_or_else(PoisonError::into_inner).0 {
                return Ok(balanced);
            }
        }
    }

    /// Trims piece after piece from `next` on, until no more than the cap is resident or all have had their turn.
    /// Returns which comes next.
    fn trim(&self, mut next: usize) -> Result<usize, BalanceError> {
        for _ in 0..self.pieces.len() {
            page_out(self.pieces[next]).map_err(BalanceError::Refused)?;
            next = (next + 1) % self.pieces.len();
            if self.has_ended() || self.working_set.bytes()? <= self.cap {
                break;
            }
        }
        Ok(next)
    }
}

fn pieces((start, length): (u64, u64)) -> impl Iterator<Item = Range> {
    (0..length.div_ceil(PIECE)).map(move |number| Range {
        start: start + number * PIECE,
        length: PIECE.min(length - number * PIECE),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::scenario::Backing;

    #[test]
    fn pieces_cover_a_range_once_and_in_order() {
        for length in [1, 4096, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 4096] {
            let mut end = 1 << 30;
            for piece in pieces((1 << 30, length)) {
                assert_eq!(piece.start, end);
                assert!(piece.length > 0 && piece.length <= PIECE);
                end += piece.length;
            }
            assert_eq!(end, (1 << 30) + length);
        }
    }

    #[test]
    fn an_end_is_noticed_while_it_waits() {
        // A manager that waited for its next look would keep this test for an hour.
        let balancer = Balancer {
            look_every: Duration::from_secs(3600),
            ..Balancer::new(Vec::new(), WorkingSet::filled(Backing::Anonymous, 0), u64::MAX)
        };
        let start = Instant::now();
        let balanced = std::thread::scope(|scope| {
            let manager = scope.spawn(|| balancer.go_on());
            balancer.end();
            manager.join().unwrap().unwrap()
        });
        assert_eq!((balanced.looks, balanced.trimmed_bytes), (1, 0));
        assert!(start.elapsed() < balancer.look_every);
    }
}
