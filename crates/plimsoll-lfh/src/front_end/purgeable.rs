//! Purge of pages without a block in use, in subsegments with others in use.
//!
//! It happens to subsegments that were unchanged for most of a second; and to all sparse ones if a heap begins others
//! while it has many of them: with each that is begun it looks at some, so that it has looked at the whole heap once a
//! small part of it is new.
#![allow(unsafe_code)]

use core::ops::ControlFlow;
use core::sync::atomic::Ordering;

use super::{Idle, LowFragmentation};
use crate::arena::{self, FIRST_UNIT};
use crate::backend::Backend;
use crate::bucket::Bucket;
use crate::pages;
use crate::purge;
use crate::remote_free::SubsegmentState;
use crate::settings::{self, PurgeMode};
use crate::subsegment::{PAGE, Subsegment};
use crate::unit::{UNIT, UnitIndex, UnitKind};

/// Looks of a flush for which a subsegment has to be unchanged.
const RESTED: u8 = 2;
/// The value of [`rest`](crate::Unit::rest) of a subsegment that was purged since its blocks changed.
const DONE: u8 = u8::MAX;

/// Runs that a step looks at, and subsegments that it purges: less than a millisecond of work, as a fork waits for it.
const RUNS_OF_STEP: u32 = 512;
const PURGES_OF_STEP: u32 = 16;

/// Runs that are looked at for each subsegment that is begun.
const RUNS: u32 = 128;
/// Sparse subsegments that must come about before a growing heap looks for them: 1 MiB at least.
const SPARSE: u32 = 64;
/// Sparse subsegments for which the helper starts: 4 MiB at least.
const MANY_SPARSE: u32 = 256;

/// Which subsegments are looked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Unchanged ones whose free blocks would fill a page; chance and the program place the blocks.
    Rested,
    /// Those with so few blocks in use that chance leaves pages without any.
    Sparse,
    /// All that have as many free blocks as fill a page.
    All,
}

/// The result of a look at a subsegment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It has no purgeable pages for now.
    Nothing,
    /// A later look may find some.
    Later,
    /// It had some, or was not listed any more.
    Purged,
}

/// The result of a step over the subsegments of a heap.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Looked {
    /// The unit at which the next step begins; none if this was the last.
    pub(crate) next: Option<UnitIndex>,
    /// Whether a later look at these may find purgeable pages.
    pub(crate) left: bool,
}

impl LowFragmentation {
    /// Purges some subsegments that were unchanged, or whichever has purgeable pages, from a unit on: a step of the second
    /// part of [`LowFragmentation::flush_idle`]. Skips all of them while another thread flushes.
    pub(crate) fn purge_some_subsegments(&self, backend: &Backend, idle: Idle, from: UnitIndex) -> Looked {
        // A fork holds the lock: so no purge is in progress in its child.
        let Some(_flushing) = self.upkeep.flushing.try_lock() else {
            return Looked {
                next: None,
                left: true,
            };
        };
        let look = match idle {
            Idle::Unchanged => Look::Rested,
            Idle::All => Look::All,
        };
        let (mut left, mut runs, mut purges) = (false, RUNS_OF_STEP, PURGES_OF_STEP);
        if !self.slots.has_started() {
            return Looked { next: None, left };
        }
        let looked = arena::for_each_run_from(from, self.heap.load(Ordering::Relaxed), |first, kind| {
            if kind == UnitKind::Subsegment {
                let outcome = self.look_at(backend, first, look);
                left |= outcome == Outcome::Later;
                purges -= u32::from(outcome == Outcome::Purged);
            }
            runs -= 1;
            match runs == 0 || purges == 0 {
                true => ControlFlow::Break(first + 1),
                false => ControlFlow::Continue(()),
            }
        });
        Looked {
            next: looked.break_value(),
            left,
        }
    }

    /// Notes that `count` blocks of a subsegment became free.
    #[inline]
    pub(super) fn note_freed(&self, subsegment: Subsegment, count: u16) {
        let word = subsegment.unit().remote.load();
        let free = word.chained + word.unchained;
        let before = free.saturating_sub(count);
        if subsegment.is_sparse(free) && !subsegment.is_sparse(before) {
            let sparse = self.upkeep.sparse.fetch_add(1, Ordering::Relaxed) + 1;
            if sparse.is_multiple_of(MANY_SPARSE) {
                purge::request_helper();
            }
        }
    }

    /// Returns memory to the kernel that a growing heap does not need: of free extents, if it has many, about as much
    /// as it grew, and purgeable pages of some more runs, if it began subsegments. This thread holds no lock.
    pub(super) fn compensate_growth(&self, backend: &Backend) {
        if self.upkeep.begun.load(Ordering::Relaxed) == 0 || settings::purge_mode() == PurgeMode::Never {
            return;
        }
        // A fork holds the lock: so no purge is in progress in its child.
        let Some(_flushing) = self.upkeep.flushing.try_lock() else {
            return;
        };
        let mut left = self.upkeep.grown.swap(0, Ordering::Relaxed);
        while left > 0 && backend.is_crowded() {
            match backend.purge_one(true, left) {
                0 => break,
                // Of a page that is longer than a unit more than requested.
                purged => left = left.saturating_sub(purged),
            }
        }
        let begun = self.upkeep.begun.swap(0, Ordering::Relaxed);
        if self.upkeep.sparse.load(Ordering::Relaxed) >= SPARSE {
            self.look_at_some(backend, begun);
        }
    }

    fn look_at_some(&self, backend: &Backend, begun: u32) {
        let heap = self.heap.load(Ordering::Relaxed);
        let mut runs = RUNS.saturating_mul(begun.max(1));
        let from = self.upkeep.looked_to.load(Ordering::Relaxed).max(FIRST_UNIT);
        let mut looked_to = from;
        let looked = arena::for_each_run_from(from, heap, |first, kind| {
            if kind == UnitKind::Subsegment {
                self.look_at(backend, first, Look::Sparse);
            }
            looked_to = first + 1;
            runs -= 1;
            match runs {
                0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        });
        if looked.is_continue() {
            looked_to = FIRST_UNIT;
            self.upkeep.sparse.store(0, Ordering::Relaxed);
        }
        self.upkeep.looked_to.store(looked_to, Ordering::Relaxed);
    }

    /// Purges a subsegment that may have purgeable pages.
    fn look_at(&self, backend: &Backend, first: UnitIndex, look: Look) -> Outcome {
        let unit = arena::unit(first);
        let Some(bucket) = Bucket::new(unit.bucket.load(Ordering::Relaxed)) else {
            return Outcome::Nothing;
        };
        let subsegment = Subsegment::new(first, bucket);
        let word = unit.remote.load();
        let free = word.chained + word.unchained;
        let noted = unit.rest.load(Ordering::Relaxed);
        // Only changes are written: threads that free blocks remotely use the line.
        let note = |rest| {
            if rest != noted {
                unit.rest.store(rest, Ordering::Relaxed);
            }
        };
        let mut rest = noted;
        if unit.seen.load(Ordering::Relaxed) != free {
            unit.seen.store(free, Ordering::Relaxed);
            rest = 0;
        }
        let worth_while = match look {
            Look::Sparse => subsegment.is_sparse(free),
            Look::Rested | Look::All => subsegment.has_a_page_of(free),
        };
        if word.state != SubsegmentState::Listed || rest == DONE || !worth_while {
            note(rest);
            return Outcome::Nothing;
        }
        if look == Look::Rested && rest < RESTED {
            note(rest + 1);
            return Outcome::Later;
        }
        note(DONE);
        self.purge_pages_of(backend, subsegment);
        Outcome::Purged
    }

    /// Purges pages of a listed subsegment, which is active meanwhile, like that of a slot, for threads that free
    /// blocks remotely.
    fn purge_pages_of(&self, backend: &Backend, subsegment: Subsegment) {
        // A run need not start where a longer page does.
        if pages::page() > UNIT {
            return;
        }
        let lock = &self.buckets[subsegment.bucket.index()].lock;
        if !lock.lock().take_listed(subsegment) {
            return;
        }
        let dead = subsegment.take_purgeable(pages::page());
        if dead.pages != 0 {
            backend.leave_huge_pages(subsegment.first, 1);
            for_each_range(dead.pages, |first, pages| {
                let start = arena::address_of(subsegment.first) + first as usize * PAGE;
                // SAFETY: whole pages with free blocks alone, which are in no list.
                unsafe { purge::return_pages(start, pages as usize * PAGE) };
            });
        }
        lock.lock().deactivate(backend, subsegment);
    }
}

/// Visits each range of bits that are set: the first, and how many.
fn for_each_range(mut bits: u32, mut visit: impl FnMut(u32, u32)) {
    while bits != 0 {
        let first = bits.trailing_zeros();
        let count = (bits >> first).trailing_ones();
        visit(first, count);
        bits &= !(((1_u64 << count) - 1) << first) as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_bits_are_visited_whole() {
        for (bits, ranges) in [
            (0, &[][..]),
            (u32::MAX, &[(0, 32)]),
            (0b1011_0001, &[(0, 1), (4, 2), (7, 1)]),
            (0x8000_0000, &[(31, 1)]),
        ] {
            let mut found = std::vec::Vec::new();
            for_each_range(bits, |first, count| found.push((first, count)));
            assert_eq!(found, ranges);
        }
    }
}
