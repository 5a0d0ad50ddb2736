//! The end of a period of the purge, over all heaps, in steps.
//!
//! A step is a bounded piece of work under the lock of the list of heaps, which a fork takes first: so a fork waits for
//! a step, of about a millisecond, not for a period, which takes a second where gigabytes are free. A step leaves no lock
//! held and no memory in between: the next one may be another thread's, much later, or the first of the next period.
//!
//! Invariant: no lock of heaps is held over more than one step. Checked by
//! `a_fork_waits_for_one_step_of_the_purge_not_for_a_period` and `steps_end_the_period_of_each_heap_once`.

use core::sync::atomic::Ordering;

use super::{HEAPS, Record, living, living_records};
use crate::arena::{self, FIRST_UNIT};
use crate::backend::MOST_PURGED;
use crate::front_end::Idle;
use crate::lock::Forking;
use crate::purge::{self, Ahead, PurgeSteps, THRESHOLD};
use crate::unit::UnitIndex;

/// The way of the purge through the heaps, up to the next step.
#[derive(Debug)]
pub(super) struct Progress {
    /// Number of the heap; 0 if no period is being ended.
    heap: u32,
    part: Part,
    /// Whether free memory is left to be purged later, in the parts before.
    left: bool,
}

/// The parts of the end of a heap's period, in their order.
#[derive(Debug, Clone, Copy)]
enum Part {
    Slots,
    /// Pages of subsegments, from a unit on.
    Subsegments(UnitIndex),
    RunCache,
    Extents,
}

impl Progress {
    pub(super) const NONE: Progress = Progress {
        heap: 0,
        part: Part::Slots,
        left: false,
    };

    /// Takes a step, the first one if no period is being ended.
    fn step(&mut self, idle: Idle) -> Ahead {
        self.heap = self.heap.max(1);
        let next = living(self.heap).and_then(|record| record.step(self.part, &mut self.left, idle));
        if let Some(part) = next {
            self.part = part;
            return Ahead::Steps;
        }
        self.part = Part::Slots;
        self.heap += 1;
        if self.heap <= arena::directory().heaps.load(Ordering::Acquire) {
            return Ahead::Steps;
        }
        let Progress { left, .. } = core::mem::replace(self, Progress::NONE);
        Ahead::Nothing { left }
    }

    /// Takes a step, unless another thread took the last one of this period meanwhile.
    fn step_if_ending(&mut self) {
        if purge::is_period_ending() {
            purge::note(self.step(Idle::Unchanged));
        }
    }
}

impl Record {
    /// Does a part of the end of the heap's period, or some of it. Returns the part that comes next, if any.
    fn step(&self, part: Part, left: &mut bool, idle: Idle) -> Option<Part> {
        let all = idle == Idle::All;
        match part {
            Part::Slots => {
                *left |= self.low_fragmentation.flush_slots(&self.backend, idle);
                Some(Part::Subsegments(FIRST_UNIT))
            }
            Part::Subsegments(from) => {
                let looked = self
                    .low_fragmentation
                    .purge_some_subsegments(&self.backend, idle, from);
                *left |= looked.left;
                Some(looked.next.map_or(Part::RunCache, Part::Subsegments))
            }
            Part::RunCache => {
                *left |= self.run_cache.flush(&self.backend, all);
                self.backend.extents().bins.next_period();
                Some(Part::Extents)
            }
            Part::Extents if self.backend.purge_one(all, MOST_PURGED) > 0 => Some(Part::Extents),
            Part::Extents => {
                *left |= self.backend.extents().touched != 0;
                None
            }
        }
    }

    /// Ends the purge's period of the heap. Whether free memory is left to be purged later.
    #[cfg(test)]
    pub(crate) fn end_period(&self) -> bool {
        let (mut part, mut left) = (Part::Slots, false);
        while let Some(next) = self.step(part, &mut left, Idle::Unchanged) {
            part = next;
        }
        left
    }

    /// Returns all free memory of the heap to the kernel. This thread holds no lock.
    pub(crate) fn purge_all(&self) {
        self.flush_caches();
        // An extent at a time: a fork waits for one, not for all, and does not begin while one is purged.
        let purge_one = || {
            let _held = HEAPS.lock();
            self.backend.purge_one(true, MOST_PURGED)
        };
        while purge_one() > 0 {
            Forking::make_way();
        }
    }

    /// Returns a share of the heap's free extents to the kernel, one of 4 MiB at least. The caller holds the list of
    /// heaps.
    fn purge_share(&self) {
        let touched = self.backend.extents().touched;
        if touched <= THRESHOLD {
            return;
        }
        let mut left = (touched / FORK_SHARE).max(MOST_PURGED);
        while left > 0 {
            match self.backend.purge_one(true, left.min(MOST_PURGED)) {
                0 => return,
                purged => left = left.saturating_sub(purged),
            }
        }
    }
}

/// This part of free extents a fork purges in a program of one thread.
const FORK_SHARE: u32 = 8;

/// Tells the purge of the steps. The process's heap calls it before it has memory to purge.
pub(super) fn prepare() {
    purge::set_steps(&PurgeSteps {
        step,
        begin_again,
        step_if_unlocked,
        step_if_ending,
    });
}

/// Takes a step to the end of the period of all heaps, or if `all`, to the return of all free memory.
fn step(all: bool) -> Ahead {
    let idle = if all { Idle::All } else { Idle::Unchanged };
    let mut progress = HEAPS.lock();
    let ahead = progress.step(idle);
    purge::note(ahead);
    ahead
}

/// The next step is the first one.
fn begin_again() {
    *HEAPS.lock() = Progress::NONE;
}

/// As [`step`], unless another thread holds the list of heaps, or took the last step of this period meanwhile.
fn step_if_unlocked() {
    if let Some(mut progress) = HEAPS.try_lock() {
        progress.step_if_ending();
    }
}

/// As [`step_if_unlocked`], and waits for the list of heaps.
fn step_if_ending() {
    HEAPS.lock().step_if_ending();
}

/// Returns a share of free memory to the kernel before a fork in a program of one thread, whose helper does not go on
/// right after the fork: so a program that does nothing but fork gets its free memory returned, too. The share takes
/// about half as long as the kernel's copy of the mappings of all of it, which becomes shorter. The caller holds the
/// list of heaps.
pub(super) fn purge_share_of_all() {
    if purge::forks_purge() {
        living_records().for_each(Record::purge_share);
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use plimsoll_testkit::{again, role};

    use super::*;
    use crate::heap::Heap;
    use crate::options::FrontEnd;
    use crate::record;

    /// In a process of its own, as it ends the periods of all heaps.
    #[test]
    fn steps_end_the_period_of_each_heap_once() {
        if role().is_some() {
            return end_periods_in_steps();
        }
        let name = "record::period::tests::steps_end_the_period_of_each_heap_once";
        let output = again(name, "steps").output().expect("the test program starts");
        let text = std::string::String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
    }

    fn end_periods_in_steps() {
        let heaps: Vec<Heap> = (0..3).map(|_| Heap::of(FrontEnd::LowFragmentation)).collect();
        let records = || {
            heaps
                .iter()
                .map(|heap| record::of(heap.number()).expect("it lives"))
        };
        let periods = || -> Vec<u32> {
            records()
                .map(|record| record.backend.extents().bins.period())
                .collect()
        };
        for heap in &heaps {
            let block = heap.allocate(64 << 20);
            // SAFETY: the block is in use, and that long.
            unsafe {
                block.write_bytes(1, 64 << 20);
                heap.free(block);
            }
        }
        let before = periods();
        let mut progress = Progress::NONE;
        let mut steps = 0;
        // A heap has at least four parts; the last is a step for each 4 MiB.
        for round in 1..=3 {
            while progress.step(Idle::Unchanged) == Ahead::Steps {
                steps += 1;
            }
            assert_eq!(progress.heap, 0, "the next step is the first one");
            let passed = before.iter().map(|period| period + round);
            assert_eq!(periods(), passed.collect::<Vec<_>>());
        }
        assert!(steps >= heaps.len() * (3 * 4 + 64 / 4), "{steps} steps");
        for record in records() {
            assert_eq!(record.backend.extents().touched, 0);
        }
    }

    #[test]
    fn a_fork_returns_a_share_of_free_memory() {
        let heap = Heap::of(FrontEnd::LowFragmentation);
        let record = record::of(heap.number()).expect("it lives");
        // With its gap, the run has whole pages, also long ones: a purge rounds up to the end of a page.
        let block = heap.allocate((256 << 20) - 1);
        // SAFETY: the block is in use.
        unsafe { heap.free(block) };
        let before = record.backend.extents().touched;
        record.purge_share();
        let after = record.backend.extents().touched;
        assert_eq!(before - after, before / FORK_SHARE);
        (0..1000).for_each(|_| record.purge_share());
        assert!(record.backend.extents().touched <= THRESHOLD);
    }
}
