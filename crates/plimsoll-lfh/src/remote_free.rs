//! The word of a subsegment through which any thread frees its blocks without a lock (*remote free*).
//!
//! Freed blocks form a chain, linked in the blocks themselves. The word holds the chain's head and length, the number
//! of other free blocks, which the bucket's lock guards, and the state of the subsegment. Threads push to the chain,
//! and one takes it whole: a head that returns to an old value does no harm (no ABA problem).
//!
//! ```text
//!             start                     deactivate(some)            push completes it
//!   Nothing --------->  Active  ----------------------->  Listed  -------------------> Emptying
//!                        |  ^                             ^    |                          |
//!       deactivate(none) |  +-----------------------------|----+ activate                 | end
//!                        v                  listed        |                               v
//!                       Full  ----------> Listing --------+--(complete)--> Emptying    Nothing
//!                              push
//! ```
//!
//! One compare-and-swap makes a transition, so one thread makes it, and that thread has the [`Duty`] that follows: the
//! thread that sets `Listing` lists the subsegment; the thread that sets `Emptying` removes it from the list and frees
//! it.
//!
//! Invariant: one thread changes the state of a subsegment, and that thread has the duty. Loom models run every order
//! in which threads are interrupted up to three times: `the_first_frees_of_a_full_subsegment_list_it_once`,
//! `the_last_free_frees_the_subsegment_once`, `a_listed_subsegment_is_either_activated_or_freed`,
//! `no_block_is_lost_when_a_slot_gives_up_its_subsegment`, `a_subsegment_given_up_full_is_listed_by_the_next_free`.
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU64, Ordering};

/// The state of a subsegment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum SubsegmentState {
    /// No subsegment.
    Nothing = 0,
    /// A slot takes its blocks from it. It is in no list.
    Active = 1,
    /// In its bucket's list: some of its blocks are free.
    Listed = 2,
    /// In no list: none of its blocks is free.
    Full = 3,
    /// The first block of a full subsegment is free; the thread that freed it is about to list the subsegment.
    Listing = 4,
    /// All blocks are free; the thread that freed the last one is about to free the subsegment.
    Emptying = 5,
    /// All blocks are free, and the bucket keeps the subsegment for its next need.
    Spare = 6,
}

/// The word's contents.
///
/// Layout: version [`LAYOUT`](crate::LAYOUT), read from outside by `plimsoll heap stat`: from bit 0 on 16 bits each of
/// `head`, `chained` and `unchained`, then 8 bits of `state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeBlocks {
    /// Number + 1 of the first block of the chain, 0 for none.
    pub head: u16,
    /// Blocks in the chain.
    pub chained: u16,
    /// Free blocks outside the chain: in the local list, or never allocated. Valid only while no slot takes blocks from
    /// the subsegment.
    pub unchained: u16,
    /// The state of the subsegment.
    pub state: SubsegmentState,
}

impl FreeBlocks {
    /// The contents of the number `word`, which another process's memory may hold.
    pub const fn of_word(word: u64) -> FreeBlocks {
        FreeBlocks {
            head: word as u16,
            chained: (word >> 16) as u16,
            unchained: (word >> 32) as u16,
            state: match (word >> 48) as u8 {
                1 => SubsegmentState::Active,
                2 => SubsegmentState::Listed,
                3 => SubsegmentState::Full,
                4 => SubsegmentState::Listing,
                5 => SubsegmentState::Emptying,
                6 => SubsegmentState::Spare,
                _ => SubsegmentState::Nothing,
            },
        }
    }

    const fn word(self) -> u64 {
        self.head as u64
            | (self.chained as u64) << 16
            | (self.unchained as u64) << 32
            | (self.state as u64) << 48
    }
}

/// The duty of a thread after a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duty {
    Nothing,
    /// To list the subsegment: [`RemoteFree::listed`] under the bucket's lock.
    List,
    /// To free the subsegment: [`RemoteFree::end`] under the bucket's lock.
    Empty,
    /// More blocks are free than the subsegment has: one was freed twice.
    TooMany,
}

/// A chain of free blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) head: u16,
    pub(crate) count: u16,
}

/// The word. Zeroed memory is that of no subsegment.
#[derive(Debug)]
#[repr(transparent)]
pub struct RemoteFree(AtomicU64);

impl RemoteFree {
    /// The contents at some moment.
    pub fn load(&self) -> FreeBlocks {
        FreeBlocks::of_word(self.0.load(Ordering::Acquire))
    }

    /// Makes a new subsegment, or a spare one, the active one of a slot. No other thread knows it.
    pub(crate) fn start(&self) {
        let started = FreeBlocks {
            head: 0,
            chained: 0,
            unchained: 0,
            state: SubsegmentState::Active,
        };
        self.0.store(started.word(), Ordering::Release);
    }

    /// Ends the subsegment, or makes it a spare. Its blocks are all free, and this thread set
    /// [`SubsegmentState::Emptying`], or took it from the bucket as a spare.
    pub(crate) fn end(&self, state: SubsegmentState, unchained: u16) {
        debug_assert!(matches!(state, SubsegmentState::Nothing | SubsegmentState::Spare));
        let ended = FreeBlocks {
            head: 0,
            chained: 0,
            unchained,
            state,
        };
        self.0.store(ended.word(), Ordering::Release);
    }

    /// Frees `count` blocks that are linked from `first`. `link` writes the current head of the chain into the last of
    /// them.
    #[inline]
    pub(crate) fn push(&self, first: u16, count: u16, capacity: u16, mut link: impl FnMut(u16)) -> Duty {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let mut new = FreeBlocks::of_word(seen);
            link(new.head);
            new.head = first;
            new.chained = new.chained.saturating_add(count);
            let all = new.chained.saturating_add(new.unchained);
            let duty = match new.state {
                _ if all > capacity => return Duty::TooMany,
                SubsegmentState::Active | SubsegmentState::Listing => Duty::Nothing,
                SubsegmentState::Full => {
                    new.state = SubsegmentState::Listing;
                    Duty::List
                }
                SubsegmentState::Listed if all == capacity => {
                    new.state = SubsegmentState::Emptying;
                    Duty::Empty
                }
                SubsegmentState::Listed => Duty::Nothing,
                SubsegmentState::Nothing | SubsegmentState::Emptying | SubsegmentState::Spare => {
                    return Duty::TooMany;
                }
            };
            match self
                .0
                .compare_exchange_weak(seen, new.word(), Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return duty,
                Err(now) => seen = now,
            }
        }
    }

    /// Replaces the word by the result of `change`; leaves it if that is none. Returns the word before.
    fn change(&self, mut change: impl FnMut(FreeBlocks) -> Option<FreeBlocks>) -> Option<FreeBlocks> {
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            let free = FreeBlocks::of_word(seen);
            let new = change(free)?;
            match self
                .0
                .compare_exchange_weak(seen, new.word(), Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Some(free),
                Err(now) => seen = now,
            }
        }
    }

    /// Takes the whole chain of an active subsegment. Bucket's lock.
    pub(crate) fn collect(&self) -> Chain {
        let taken = self.change(|free| {
            (free.chained > 0).then_some(FreeBlocks {
                head: 0,
                chained: 0,
                ..free
            })
        });
        taken.map_or(Chain { head: 0, count: 0 }, |free| Chain {
            head: free.head,
            count: free.chained,
        })
    }

    /// Makes a listed subsegment the active one of a slot. Returns false if it is about to be freed. Bucket's lock; the
    /// caller removes it from the list.
    pub(crate) fn activate(&self) -> bool {
        let was = self.change(|free| {
            (free.state == SubsegmentState::Listed).then_some(FreeBlocks {
                unchained: 0,
                state: SubsegmentState::Active,
                ..free
            })
        });
        was.is_some()
    }

    /// A slot gives up its active subsegment, with `unchained` free blocks outside the chain. Returns the new state:
    /// full, or to be listed by the caller, or to be freed by the caller. Bucket's lock.
    pub(crate) fn deactivate(&self, unchained: u16, capacity: u16) -> SubsegmentState {
        let state = |chained: u16| match chained + unchained {
            0 => SubsegmentState::Full,
            all if all >= capacity => SubsegmentState::Emptying,
            _ => SubsegmentState::Listed,
        };
        let was = self.change(|was| {
            Some(FreeBlocks {
                unchained,
                state: state(was.chained),
                ..was
            })
        });
        state(was.map_or(0, |was| was.chained))
    }

    /// Ends [`SubsegmentState::Listing`], which this thread set. Returns the new state: listed, or to be freed by the
    /// caller if all its blocks became free meanwhile. Bucket's lock.
    pub(crate) fn listed(&self, capacity: u16) -> SubsegmentState {
        let state = |free: FreeBlocks| match free.chained + free.unchained >= capacity {
            true => SubsegmentState::Emptying,
            false => SubsegmentState::Listed,
        };
        let was = self.change(|free| {
            Some(FreeBlocks {
                state: state(free),
                ..free
            })
        });
        was.map_or(SubsegmentState::Listed, state)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_word_reads_as_it_was_written() {
        for state in [
            SubsegmentState::Nothing,
            SubsegmentState::Active,
            SubsegmentState::Listed,
            SubsegmentState::Full,
            SubsegmentState::Listing,
            SubsegmentState::Emptying,
            SubsegmentState::Spare,
        ] {
            let free = FreeBlocks {
                head: 0xFFFF,
                chained: 3,
                unchained: 0x8001,
                state,
            };
            assert_eq!(FreeBlocks::of_word(free.word()), free);
        }
        assert_eq!(FreeBlocks::of_word(0).state, SubsegmentState::Nothing);
    }

    #[test]
    fn a_block_too_many_is_detected() {
        let word = RemoteFree(AtomicU64::new(0));
        assert_eq!(word.push(1, 1, 4, |_| ()), Duty::TooMany, "of no subsegment");
        word.start();
        assert_eq!(word.push(1, 4, 4, |_| ()), Duty::Nothing);
        assert_eq!(word.push(1, 1, 4, |_| ()), Duty::TooMany);
        assert_eq!(word.deactivate(0, 4), SubsegmentState::Emptying);
        assert_eq!(word.push(1, 1, 4, |_| ()), Duty::TooMany);
    }
}

#[cfg(all(test, loom))]
mod models;
