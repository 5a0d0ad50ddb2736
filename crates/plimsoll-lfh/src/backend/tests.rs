//! Any sequence of calls of a back end, against a map of the runs in use, with memory that ends at times.
#![allow(unsafe_code)]

use core::sync::atomic::Ordering;
use std::collections::BTreeMap;
use std::vec::Vec;

use proptest::prelude::*;

use crate::arena::{self, SEGMENT_UNITS, injection};
use crate::backend::{MOST_PURGED, Run};
use crate::cases::cases;
use crate::record::{self, Record};
use crate::unit::{UNIT, UnitIndex, UnitKind};
use crate::{Heap, HeapOptions};

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
            assert_eq!(word, u64::from(at), "the contents are gone");
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
                    backend.free(first);
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
                (0..periods).for_each(|_| _ = self.record.end_period());
                if all {
                    self.record.purge_all();
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
    fn runs_tile_segments_after_any_calls(calls in calls()) {
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
            record.backend().free(first);
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
fn a_purge_returns_extents_free_for_two_periods_alone() {
    let heap = Heap::new(HeapOptions::default()).expect("there is memory");
    let record = record::of(heap.number()).expect("the heap lives");
    let backend = record.backend();
    let touched = || backend.extents().touched;
    let runs: Vec<Run> = (0..3)
        .map(|_| backend.take(10, 1, UnitKind::Large).expect("memory"))
        .collect();
    backend.free(runs[0].first);
    assert_eq!(touched(), 10);
    assert!(record.end_period());
    backend.free(runs[2].first);
    assert_eq!(touched(), 20);
    assert!(record.end_period());
    assert_eq!(touched(), 10, "the first is free for a whole period");
    assert!(!record.end_period());
    assert_eq!(touched(), 0);
    backend.free(runs[1].first);
}

/// A run that fills a heap so that it requests huge pages next, and the first unit of a segment with such pages, of
/// which one unit was used and freed. None if the kernel has none.
fn huge_segment(record: &Record) -> Option<(UnitIndex, UnitIndex)> {
    let backend = record.backend();
    let filled = backend
        .take(8 * SEGMENT_UNITS, 1, UnitKind::Large)
        .expect("there is memory");
    let run = backend.take(1, 1, UnitKind::Subsegment).expect("there is memory");
    let huge = has_huge_pages(run.first);
    backend.free(run.first);
    huge.then_some((filled.first, run.first))
}

/// Whether huge pages are under a unit for which the heap requested them; a test that needs them is skipped if the
/// kernel has none, unless the environment forbids it.
pub(crate) fn has_huge_pages(unit: UnitIndex) -> bool {
    let huge = arena::has_huge_pages(unit, 1);
    if !huge {
        std::eprintln!("skipped: needs huge-pages: the kernel has none");
        let required = std::env::var("PLIMSOLL_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|name| name == "huge-pages"), "required");
    }
    huge
}

/// The first byte that was written to a huge page made it resident as a whole.
#[test]
fn huge_pages_are_purged_whole() {
    let heap = Heap::new(HeapOptions::default()).expect("there is memory");
    let record = record::of(heap.number()).expect("the heap lives");
    let Some((_, first)) = huge_segment(record) else {
        return;
    };
    let purged = record.backend().extents().begin_purge(true, MOST_PURGED);
    assert_eq!(purged, Some((first, SEGMENT_UNITS)));
    record.backend().extents().end_purge(first);
    assert_eq!(record.backend().extents().check(), Ok(()));
    assert!(
        arena::has_huge_pages(first, 1),
        "the next small blocks have it again"
    );
}

/// A purge in parts returns as much as a purge of the whole.
#[test]
fn huge_pages_are_purged_in_parts() {
    let heap = Heap::new(HeapOptions::default()).expect("there is memory");
    let record = record::of(heap.number()).expect("the heap lives");
    let backend = record.backend();
    let Some((_, first)) = huge_segment(record) else {
        return;
    };
    let mut left = first + SEGMENT_UNITS;
    while let Some((start, units)) = { backend.extents().begin_purge(true, 48) } {
        assert_eq!(start + units, left);
        left = start;
        backend.extents().end_purge(start);
        assert_eq!(backend.extents().check(), Ok(()));
    }
    assert_eq!(left, first);
}

/// Pages that returned to the kernel came back as huge pages with the next write.
#[test]
fn large_blocks_use_base_pages_in_unused_segments() {
    let mut extended = 0;
    // They live to the end: the next heap gets other segments, not the ones of the heap before with their neighbours.
    let mut heaps = std::vec::Vec::new();
    for _ in 0..16 {
        let heap = Heap::new(HeapOptions::default()).expect("there is memory");
        let record = record::of(heap.number()).expect("the heap lives");
        let backend = record.backend();
        let Some((filled, first)) = huge_segment(record) else {
            return;
        };
        record.purge_all();
        assert!(arena::has_huge_pages(first, 1));
        // Other tests decide whether they are neighbours.
        let units = 8 * SEGMENT_UNITS;
        if extended == 0 && filled + units == first {
            extended += 1;
            assert_eq!(backend.extend(filled, units + 1), Some(units));
        } else {
            let run = backend.take(4, 1, UnitKind::Large).expect("there is memory");
            assert_eq!(run.first, first);
        }
        assert!(!arena::has_huge_pages(first, 1));
        heaps.push(heap);
    }
    assert_eq!(extended, 1);
}

#[test]
fn a_list_that_does_not_hold_together_is_found() {
    let heap = Heap::new(HeapOptions::default()).expect("there is memory");
    let record = record::of(heap.number()).expect("the heap lives");
    let backend = record.backend();
    let runs: Vec<Run> = (0..7)
        .map(|_| backend.take(3, 1, UnitKind::Large).expect("memory"))
        .collect();
    // Extents of the same length, with a run in use beside each.
    runs.iter()
        .skip(1)
        .step_by(2)
        .for_each(|run| backend.free(run.first));
    assert_eq!(backend.extents().check(), Ok(()));
    let middle = arena::unit(runs[3].first);
    let others_heap = Heap::new(HeapOptions::default()).expect("there is memory");
    let wrong = [
        (&middle.previous, 0),
        (&middle.purge_previous, runs[3].first),
        (&middle.heap, others_heap.number()),
        (&middle.next, runs[5].first + 2),
        (&middle.purge_next, runs[1].first + 2),
    ];
    for (number, (field, value)) in wrong.into_iter().enumerate() {
        let was = field.swap(value, Ordering::Relaxed);
        assert_ne!(was, value, "{number}");
        assert!(backend.extents().check().is_err(), "{number}");
        field.store(was, Ordering::Relaxed);
        assert_eq!(backend.extents().check(), Ok(()));
    }
}
