//! The record of a segment: its state, how many units of it are in use, and where it stands in a list.
//!
//! ```text
//!          open                 close                      claim
//!   Free --------> Open(writer) ------> Closed <---------------------------> Claimed(cleaner, spill)
//!    ^                 |                  |  finish: entries are in use         |
//!    |                 | close: nothing   | subtract: the last                  | finish: nothing is in use
//!    '-----------------+------------------+-------------------------------------'
//! ```
//!
//! `finish(Damaged)` ends a claim of a segment whose entries cannot all be read: no claim succeeds again, and it is free
//! when its last entry is.
//!
//! Invariant: one thread makes each transition to Free, and that thread puts the segment into a list of free ones.
//! Checked by `a_segment_becomes_free_once`.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum State {
    /// In a list of free segments, or in the hands of the thread that made it so. Zeroed memory is this state.
    Free = 0,
    /// A writer appends to it.
    Open = 1,
    /// No writer appends to it.
    Closed = 2,
    /// A cleaner or a spill moves its entries.
    Claimed = 3,
    /// As Closed, but an entry of it is damaged, so that the entries behind it cannot be found.
    Damaged = 4,
}

impl State {
    fn of(word: u32) -> State {
        match word & STATE_MASK {
            0 => State::Free,
            1 => State::Open,
            2 => State::Closed,
            3 => State::Claimed,
            _ => State::Damaged,
        }
    }
}

const STATE_MASK: u32 = 0b111;
const LIVE_SHIFT: u32 = 3;

/// The end of a transition that may have freed the segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Outcome {
    /// The segment is as before, or in the state asked for.
    Kept,
    /// It is free now: the caller puts it into a list.
    Freed,
}

/// The contents of a segment, which decide its next place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Content {
    /// Pages as they were put.
    Fresh = 0,
    /// Such pages, moved by a cleaner.
    Settled = 1,
    /// Pages compressed again, one by one.
    Packed = 2,
    Quads = 3,
}

impl Content {
    pub(super) const COUNT: usize = 4;

    fn of(number: u32) -> Content {
        match number {
            0 => Content::Fresh,
            1 => Content::Settled,
            2 => Content::Packed,
            _ => Content::Quads,
        }
    }
}

/// The part that one thread alone changes: the writer of an open segment, or the thread that made it free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// Units written, from the start on.
    pub(super) filled: u32,
    /// Pages that may be resident, from the start on.
    pub(super) resident: u32,
    pub(super) content: Content,
}

/// The record of a segment. Zeroed memory is that of a segment that was never used.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Record {
    /// State, and units of entries in use from bit 3 on.
    word: AtomicU32,
    /// Number + 1 of the next segment of a list, 0 at its end.
    next: AtomicU32,
    /// When the last entry was put, of the epochs of the store.
    epoch: AtomicU32,
    /// [`Extent`]: 16 bits, 8 bits, 8 bits.
    extent: AtomicU32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Record>() == 16);

impl Record {
    pub(super) fn state(&self) -> State {
        State::of(self.word.load(Ordering::Acquire))
    }

    /// Units of entries in use.
    pub(super) fn live(&self) -> u32 {
        self.word.load(Ordering::Relaxed) >> LIVE_SHIFT
    }

    /// State and units in use, at one moment.
    pub(super) fn state_and_live(&self) -> (State, u32) {
        let word = self.word.load(Ordering::Acquire);
        (State::of(word), word >> LIVE_SHIFT)
    }

    /// Whether a writer appends to it, of whose entries half is out of use.
    pub(super) fn is_open_and_sparse(&self) -> bool {
        let (state, live) = self.state_and_live();
        let filled = self.extent().filled;
        state == State::Open && filled > 0 && live <= filled / 2
    }

    pub(super) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    pub(super) fn set_epoch(&self, epoch: u32) {
        self.epoch.store(epoch, Ordering::Relaxed);
    }

    pub(super) fn extent(&self) -> Extent {
        let word = self.extent.load(Ordering::Relaxed);
        Extent {
            filled: word & 0xffff,
            resident: word >> 16 & 0xff,
            content: Content::of(word >> 24),
        }
    }

    /// Only by the thread that the segment is in the hands of.
    pub(super) fn set_extent(&self, extent: Extent) {
        let word = extent.filled | extent.resident << 16 | (extent.content as u32) << 24;
        self.extent.store(word, Ordering::Relaxed);
    }

    /// Free -> Open, by the thread that took it from a list.
    pub(super) fn open(&self) {
        self.word.store(State::Open as u32, Ordering::Release);
    }

    /// Counts units of an entry before its place is known to others, by the writer of the open segment.
    pub(super) fn add(&self, units: u32) {
        self.word.fetch_add(units << LIVE_SHIFT, Ordering::Relaxed);
    }

    /// Counts units of an entry that is out of use.
    pub(super) fn subtract(&self, units: u32) -> Outcome {
        self.change(|state, live| {
            let live = live.saturating_sub(units);
            match state {
                State::Closed | State::Damaged if live == 0 => (State::Free, 0),
                _ => (state, live),
            }
        })
    }

    /// Open -> Closed, or Free if nothing is in use, by the writer.
    pub(super) fn close(&self) -> Outcome {
        self.change(|_, live| {
            if live == 0 {
                (State::Free, 0)
            } else {
                (State::Closed, live)
            }
        })
    }

    /// Closed -> Claimed. Returns false in another state.
    pub(super) fn claim(&self) -> bool {
        let claim = |word: u32| {
            (State::of(word) == State::Closed).then_some(word & !STATE_MASK | State::Claimed as u32)
        };
        self.word
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, claim)
            .is_ok()
    }

    /// Claimed -> `state` (Closed or Damaged), or Free if nothing is in use, by the thread that claimed it.
    pub(super) fn finish(&self, state: State) -> Outcome {
        self.change(|_, live| {
            if live == 0 {
                (State::Free, 0)
            } else {
                (state, live)
            }
        })
    }

    fn change(&self, to: impl Fn(State, u32) -> (State, u32)) -> Outcome {
        let mut word = self.word.load(Ordering::Relaxed);
        let after = loop {
            let (state, live) = to(State::of(word), word >> LIVE_SHIFT);
            let new = state as u32 | live << LIVE_SHIFT;
            match self
                .word
                .compare_exchange_weak(word, new, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => break state,
                Err(now) => word = now,
            }
        };
        if after == State::Free {
            Outcome::Freed
        } else {
            Outcome::Kept
        }
    }
}

/// A list of free segments: a stack, from which any thread takes the one that was added last.
///
/// The head's upper half counts the changes, so that a head that returns to an old segment does no harm (the ABA
/// problem).
#[derive(Debug)]
pub(super) struct FreeList {
    head: AtomicU64,
    length: AtomicU32,
}

impl FreeList {
    pub(super) fn new() -> FreeList {
        FreeList {
            head: AtomicU64::new(0),
            length: AtomicU32::new(0),
        }
    }

    /// Segments in the list; while others change it, about so many.
    pub(super) fn length(&self) -> u32 {
        self.length.load(Ordering::Relaxed)
    }

    /// Adds a segment, which is Free and in no list.
    pub(super) fn push(&self, records: &[Record], segment: u32) {
        let record = &records[segment as usize];
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            record.next.store(head as u32, Ordering::Relaxed);
            match self.head.compare_exchange_weak(
                head,
                following(head, segment + 1),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        self.length.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the segment that was added last.
    pub(super) fn pop(&self, records: &[Record]) -> Option<u32> {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let segment = (head as u32).checked_sub(1)?;
            let next = records[segment as usize].next.load(Ordering::Relaxed);
            match self.head.compare_exchange_weak(
                head,
                following(head, next),
                Ordering::Acquire,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    self.length.fetch_sub(1, Ordering::Relaxed);
                    return Some(segment);
                }
                Err(now) => head = now,
            }
        }
    }
}

/// The head after `head`: another count, and that link.
fn following(head: u64, link: u32) -> u64 {
    ((head >> 32) + 1) << 32 | u64::from(link)
}

#[cfg(test)]
impl Record {
    /// That of a segment that was never used.
    fn new() -> Record {
        Record {
            word: AtomicU32::new(0),
            next: AtomicU32::new(0),
            epoch: AtomicU32::new(0),
            extent: AtomicU32::new(0),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_last_entry_frees_a_closed_segment_alone() {
        let record = Record::new();
        record.open();
        record.add(5);
        assert_eq!(record.subtract(5), Outcome::Kept, "a writer appends to it");
        record.add(7);
        record.add(3);
        assert_eq!(record.close(), Outcome::Kept);
        assert_eq!(record.subtract(3), Outcome::Kept);
        assert!(record.claim());
        assert!(!record.claim());
        assert_eq!(record.subtract(7), Outcome::Kept, "a cleaner has it");
        assert_eq!(record.finish(State::Closed), Outcome::Freed);
        assert_eq!(record.state(), State::Free);
    }

    #[test]
    fn a_damaged_segment_is_freed_by_its_last_entry_and_never_claimed() {
        let record = Record::new();
        record.open();
        record.add(2);
        assert_eq!(record.close(), Outcome::Kept);
        assert!(record.claim());
        assert_eq!(record.finish(State::Damaged), Outcome::Kept);
        assert!(!record.claim());
        assert_eq!(record.subtract(2), Outcome::Freed);
    }

    #[test]
    fn an_extent_is_read_back() {
        let record = Record::new();
        for content in [Content::Fresh, Content::Settled, Content::Packed, Content::Quads] {
            let extent = Extent {
                filled: 8192,
                resident: 16,
                content,
            };
            record.set_extent(extent);
            assert_eq!(record.extent(), extent);
        }
    }

    #[test]
    fn a_list_returns_the_last_first() {
        let records: Vec<Record> = (0..3).map(|_| Record::new()).collect();
        let list = FreeList::new();
        (0..3).for_each(|segment| list.push(&records, segment));
        assert_eq!(list.length(), 3);
        let taken: Vec<_> = core::iter::from_fn(|| list.pop(&records)).collect();
        assert_eq!((taken, list.length()), (vec![2, 1, 0], 0));
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// One thread frees the last entry while another closes the segment, or cleans it.
    #[test]
    fn a_segment_becomes_free_once() {
        for is_cleaned in [false, true] {
            loom::model(move || {
                let record = Arc::new(Record::new());
                record.open();
                record.add(4);
                if is_cleaned {
                    assert_eq!(record.close(), Outcome::Kept);
                }
                let other = record.clone();
                let freeing = thread::spawn(move || other.subtract(4));
                let ended = match is_cleaned {
                    true if record.claim() => record.finish(State::Closed),
                    true => Outcome::Kept,
                    false => record.close(),
                };
                let outcomes = [freeing.join().expect("it ends"), ended];
                let freed = outcomes.iter().filter(|outcome| **outcome == Outcome::Freed);
                assert_eq!((freed.count(), record.state()), (1, State::Free));
            });
        }
    }

    /// Two threads take from a list and put back; each segment is in the hands of one.
    #[test]
    fn a_free_segment_is_taken_once() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let shared = Arc::new((FreeList::new(), [Record::new(), Record::new()]));
            shared.0.push(&shared.1, 0);
            shared.0.push(&shared.1, 1);
            let other = shared.clone();
            let taking = thread::spawn(move || {
                let first = other.0.pop(&other.1);
                let second = other.0.pop(&other.1);
                if let Some(segment) = first {
                    other.0.push(&other.1, segment);
                }
                second
            });
            let mine = shared.0.pop(&shared.1);
            let theirs = taking.join().expect("it ends");
            assert!(mine.is_none() || mine != theirs, "{mine:?}");
            let mut seen: Vec<u32> = core::iter::from_fn(|| shared.0.pop(&shared.1)).collect();
            seen.extend(mine);
            seen.extend(theirs);
            seen.sort_unstable();
            assert_eq!(seen, [0, 1]);
        });
    }
}
