//! Any sequence of calls of a back end, against a map of the runs in use, with memory that ends at times.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::vec::Vec;

use proptest::prelude::*;

use crate::arena::{self, injection};
use crate::backend::Run;
use crate::cases::cases;
use crate::heap::{Heap, HeapOptions};
use crate::purge;
use crate::record::{self, Record};
use crate::unit::{UNIT, UnitIndex, UnitKind};

#[derive(Debug, Clone)]
enum Call {
    Take {
        units: u32,
        align: u32,
        kind: UnitKind,
    },
    Give {
        which: usize,
    },
    Extend {
        which: usize,
        by: u32,
    },
    Shorten {
        which: usize,
        to: u32,
    },
    /// Periods of the purge end.
    Purge {
        periods: u8,
        all: bool,
    },
    /// The window grows so many times more, or without end.
    Memory {
        growths: Option<u32>,
    },
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let units = prop_oneof![6 => 1..8u32, 4 => 1..100u32, 1 => 100..1000u32];
    let kind = prop_oneof![Just(UnitKind::Large), Just(UnitKind::Standard)];
    let call = prop_oneof![
        8 => (units, 0..4u32, kind)
            .prop_map(|(units, align, kind)| Call::Take { units, align: 1 << (align * align), kind }),
        6 => any::<usize>().prop_map(|which| Call::Give { which }),
        2 => (any::<usize>(), 1..20u32).prop_map(|(which, by)| Call::Extend { which, by }),
        2 => (any::<usize>(), 1..20u32).prop_map(|(which, to)| Call::Shorten { which, to }),
        1 => (0..4u8, any::<bool>()).prop_map(|(periods, all)| Call::Purge { periods, all }),
        1 => prop_oneof![Just(None), (0..3u32).prop_map(Some)].prop_map(|growths| Call::Memory { growths }),
    ];
    prop::collection::vec(call, 1..200)
}

struct Model<'r> {
    record: &'r Record,
    /// Lengths of runs in use, by their first unit.
    runs: BTreeMap<UnitIndex, (u32, UnitKind)>,
}

impl Model<'_> {
    fn some(&self, which: usize) -> Option<(UnitIndex, u32, UnitKind)> {
        let at = which.checked_rem(self.runs.len())?;
        self.runs
            .iter()
            .nth(at)
            .map(|(first, (length, kind))| (*first, *length, *kind))
    }

    /// The first word of a unit.
    fn word(unit: UnitIndex) -> *mut u64 {
        arena::address_of(unit) as *mut u64
    }

    /// Units of a run that are new, of which those from `touched` on must be zero; they are written to.
    fn note(&mut self, run: Run, from: u32, units: u32, kind: UnitKind) {
        for at in from..units {
            let word = Self::word(run.first + at);
            // SAFETY: the run is this test's.
            unsafe {
                assert!(
                    at < run.touched || word.read() == 0,
                    "unit {at} of {run:?} is not zero"
                );
                word.write(u64::from(run.first + at));
            }
        }
        let right = self.runs.range(run.first + 1..).next();
        assert!(right.is_none_or(|(right, _)| run.first + units <= *right));
        let left = self.runs.range(..run.first).next_back();
        assert!(left.is_none_or(|(left, (length, _))| left + length <= run.first));
        self.runs.insert(run.first, (units, kind));
    }

    fn forget(&mut self, first: UnitIndex) {
        let (length, _) = self.runs.remove(&first).expect("it is in use");
        for at in first..first + length {
            // SAFETY: the run is this test's.
            let word = unsafe { Self::word(at).read() };
            assert_eq!(word, u64::from(at), "what was written is gone");
        }
    }

    fn apply(&mut self, call: &Call) {
        let backend = self.record.backend();
        match *call {
            Call::Take { units, align, kind } => {
                if let Some(run) = backend.take(units, align, kind) {
                    assert!(arena::address_of(run.first).is_multiple_of(align as usize * UNIT));
                    self.note(run, 0, units, kind);
                }
            }
            Call::Give { which } => {
                if let Some((first, _, _)) = self.some(which) {
                    self.forget(first);
                    backend.give(first);
                }
            }
            Call::Extend { which, by } => {
                let Some((first, length, UnitKind::Large)) = self.some(which) else {
                    return;
                };
                if let Some(touched) = backend.extend(first, length + by) {
                    self.runs.remove(&first);
                    self.note(Run { first, touched }, length, length + by, UnitKind::Large);
                }
            }
            Call::Shorten { which, to } => {
                let Some((first, length, UnitKind::Large)) = self.some(which) else {
                    return;
                };
                if to < length {
                    backend.shorten(first, to);
                    self.runs.insert(first, (to, UnitKind::Large));
                }
            }
            Call::Purge { periods, all } => {
                (0..periods).for_each(|_| _ = purge::end_period(self.record));
                if all {
                    purge::purge_all(self.record);
                    assert_eq!(backend.extents().touched, 0);
                }
            }
            Call::Memory { growths } => injection::set(growths),
        }
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn runs_are_whole_whatever_is_called(calls in calls()) {
        let heap = Heap::new(HeapOptions::default()).expect("there is memory");
        let record = record::of(heap.number()).expect("the heap lives");
        let mut model = Model { record, runs: BTreeMap::new() };
        for call in &calls {
            model.apply(call);
            prop_assert_eq!(record.backend().extents().check(), Ok(()));
        }
        injection::set(None);
        let runs: Vec<UnitIndex> = model.runs.keys().copied().collect();
        for first in runs {
            model.forget(first);
            record.backend().give(first);
        }
        let extents = record.backend().extents();
        prop_assert_eq!(extents.check(), Ok(()));
        prop_assert_eq!(extents.free, extents.owned);
    }
}

#[test]
fn calls_without_memory_leave_a_heap_as_it_was() {
    let heap = Heap::new(HeapOptions::default()).expect("there is memory");
    let block = heap.allocate(100_000);
    // SAFETY: the block is in use until it is freed, also after calls that were refused.
    unsafe {
        block.write_bytes(9, 100_000);
        injection::set(Some(0));
        assert!(heap.allocate(64 << 20).is_null());
        assert!(heap.allocate_zeroed(64 << 20).is_null());
        assert!(heap.allocate_aligned(1 << 22, 64 << 20).is_null());
        assert!(heap.reallocate(block, 64 << 20).is_null());
        assert!((0..100_000).all(|at| block.add(at).read() == 9));
        injection::set(None);
        let moved = heap.reallocate(block, 64 << 20);
        assert!((0..100_000).all(|at| moved.add(at).read() == 9));
        heap.free(moved);
    }
    let record = record::of(heap.number()).expect("the heap lives");
    assert_eq!(record.backend().extents().check(), Ok(()));
}

#[test]
fn a_purge_gives_back_what_lies_free_for_two_periods_and_no_more() {
    let heap = Heap::new(HeapOptions::default()).expect("there is memory");
    let record = record::of(heap.number()).expect("the heap lives");
    let backend = record.backend();
    let touched = || backend.extents().touched;
    let runs: Vec<Run> = (0..3)
        .map(|_| backend.take(10, 1, UnitKind::Large).expect("memory"))
        .collect();
    backend.give(runs[0].first);
    assert_eq!(touched(), 10);
    assert!(purge::end_period(record));
    backend.give(runs[2].first);
    assert_eq!(touched(), 20);
    assert!(purge::end_period(record));
    assert_eq!(touched(), 10, "the first is free for a whole period");
    assert!(!purge::end_period(record));
    assert_eq!(touched(), 0);
    backend.give(runs[1].first);
}
