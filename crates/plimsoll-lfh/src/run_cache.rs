//! The run cache: recently freed runs of a few units, by length, for the next request of the same length.
//!
//! A large block comes and goes without being coalesced and split again. The slots of the low-fragmentation front end
//! hold the shortest runs, up to 64 KiB: a restartable sequence takes and puts them. Other runs go to a shelf, under a
//! lock: one for each slot, or for a few if there are more slots than shelves. A run that was unused for a whole period
//! of the purge goes to the back end, as does the older half of a full row of a shelf.
//!
//! Locks: a shelf's, then the back end's.

use core::sync::atomic::Ordering;

use crate::affinity::{RUN_POINTERS, SHORTEST_RUN, units_of};
use crate::arena;
use crate::backend::Backend;
use crate::front_end::LowFragmentation;
use crate::integrity::{self, Damage};
use crate::lock::Lock;
use crate::purge::{self, THRESHOLD};
use crate::unit::{UnitIndex, UnitKind};

/// Shelves of a heap.
pub(crate) const SHELVES: usize = 16;
/// Units of the longest cached run, 128 KiB. Beyond that, the program's work on a block takes longer than the back
/// end's.
const LONGEST: u32 = 8;
const ROWS: usize = (LONGEST - SHORTEST_RUN + 1) as usize;
/// Runs of a row at most, and units: 256 KiB.
const MOST_RUNS: usize = RUN_POINTERS;
const MOST_UNITS: u32 = 16;
/// A shelf of more units than this is looked after, see [`purge::request_helper`]: all together hold no more than other
/// free memory may without that. Nor do the rows of slots.
const REQUEST_ABOVE: u32 = THRESHOLD / SHELVES as u32;

/// The shelves of a heap. Zeroed memory is empty ones.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RunCache {
    pub(crate) shelves: [Shelf; SHELVES],
}

/// Cache lines of its own, as other processors use its neighbours.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Shelf {
    pub(crate) rows: Lock<Rows>,
}

/// Invariants, whose executable form is `check`: the runs of row `n` are [`UnitKind::Cached`], of the heap, `n +
/// SHORTEST_RUN` units long, and in one row only, of a shelf or of a slot; `units` is their total. Checked by
/// `runs_are_in_one_place`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Rows {
    rows: [Row; ROWS],
    /// Units of all runs.
    units: u32,
    /// Runs that were put here since the start.
    puts: u32,
}

#[derive(Debug)]
#[repr(C)]
struct Row {
    count: u32,
    /// The fewest runs since the last flush: so many of the oldest were unused since then.
    unused: u32,
    runs: [UnitIndex; MOST_RUNS],
}

/// The row of runs of so many units; none if such runs are not cached.
#[inline]
fn row_of(units: u32) -> Option<usize> {
    (SHORTEST_RUN..=LONGEST)
        .contains(&units)
        .then(|| (units - SHORTEST_RUN) as usize)
}

/// How many runs a row of a shelf has room for.
fn room(row: usize) -> u32 {
    (MOST_UNITS / units_of(row)).min(MOST_RUNS as u32)
}

impl RunCache {
    /// Takes a run of so many units, all of which may hold anything, for a large block.
    #[inline]
    pub(crate) fn take(&self, front: &LowFragmentation, units: u32) -> Option<UnitIndex> {
        let row = row_of(units)?;
        let first = front
            .take_run(row)
            .or_else(|| self.take_from_shelf(front.slot_of_thread(), row))?;
        let unit = arena::unit(first);
        if unit.kind() != UnitKind::Cached {
            integrity::report(Damage::DoubleFree, arena::address_of(first), None);
        }
        unit.kind.store(UnitKind::Large as u8, Ordering::Relaxed);
        Some(first)
    }

    fn take_from_shelf(&self, slot: usize, row: usize) -> Option<UnitIndex> {
        let units = units_of(row);
        let mut rows = self.shelves[slot % SHELVES].rows.lock();
        let row = &mut rows.rows[row];
        let left = row.count.checked_sub(1)?;
        let first = row.runs[left as usize];
        row.count = left;
        row.unused = row.unused.min(left);
        rows.units -= units;
        Some(first)
    }

    /// Caches the run of a large block, which no thread uses any more. Returns false if runs of its length are not
    /// cached.
    #[inline]
    pub(crate) fn put(&self, backend: &Backend, front: &LowFragmentation, first: UnitIndex) -> bool {
        let unit = arena::unit(first);
        let units = unit.length.load(Ordering::Relaxed);
        let Some(row) = row_of(units) else {
            return false;
        };
        // Of threads that free it at the same time, one alone changes its kind: two rows would not find out.
        let (large, cached) = (UnitKind::Large as u8, UnitKind::Cached as u8);
        let freed = unit
            .kind
            .compare_exchange(large, cached, Ordering::Relaxed, Ordering::Relaxed);
        if freed.is_err() {
            integrity::report(Damage::DoubleFree, arena::address_of(first), None);
        }
        if !front.put_run(row, first) {
            self.put_on_shelf(backend, front.slot_of_thread(), row, first);
        }
        true
    }

    fn put_on_shelf(&self, backend: &Backend, slot: usize, row: usize, first: UnitIndex) {
        let mut rows = self.shelves[slot % SHELVES].rows.lock();
        if rows.rows[row].count == room(row) {
            rows.free(backend, row, room(row) / 2, 0);
        }
        rows.rows[row].push(first);
        rows.units += units_of(row);
        rows.puts = rows.puts.wrapping_add(1);
        let (puts, much) = (rows.puts, rows.units > REQUEST_ABOVE);
        drop(rows);
        if much {
            purge::request_helper();
        }
        purge::on_slow_call(puts);
    }

    /// Frees the runs of shelves that were unused since the last call to the back end, or all of them. Returns whether
    /// any are left. Those of slots go with the flush of slots.
    pub(crate) fn flush(&self, backend: &Backend, all: bool) -> bool {
        let mut left = false;
        for shelf in &self.shelves {
            let mut rows = shelf.rows.lock();
            for row in 0..ROWS {
                let Row { count, unused, .. } = rows.rows[row];
                if count != 0 {
                    rows.free(backend, row, if all { count } else { unused }, 1);
                }
                rows.rows[row].unused = rows.rows[row].count;
            }
            left |= rows.units != 0;
        }
        left
    }

    /// Holds every lock for the time of a fork.
    pub(crate) fn hold(&self) {
        self.shelves.iter().for_each(|shelf| shelf.rows.hold());
    }

    /// Ends [`RunCache::hold`] in the parent.
    ///
    /// # Safety
    /// This thread called `hold`.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn release(&self) {
        for shelf in &self.shelves {
            // SAFETY: the caller's premise.
            unsafe { shelf.rows.release() };
        }
    }

    /// Ends [`RunCache::hold`] in the child.
    ///
    /// # Safety
    /// This thread is the only one, and its parent called `hold`.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn free_after_fork(&self) {
        for shelf in &self.shelves {
            // SAFETY: the caller's premise.
            unsafe { shelf.rows.free_after_fork() };
        }
    }
}

impl Rows {
    /// Frees the oldest `count` runs of a row, which were here for so many periods, to the back end.
    fn free(&mut self, backend: &Backend, row: usize, count: u32, periods: u32) {
        self.units -= count * units_of(row);
        let row = &mut self.rows[row];
        let given = count as usize;
        backend.free_cached(&row.runs[..given], periods);
        row.runs.copy_within(given..row.count as usize, 0);
        row.count -= count;
        row.unused = row.unused.saturating_sub(count);
    }
}

impl Row {
    fn push(&mut self, first: UnitIndex) {
        self.runs[self.count as usize] = first;
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::process::ExitStatusExt;
    use std::vec::Vec;

    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::record::{self, Record};
    use plimsoll_testkit::{again, role};

    use crate::{FrontEnd, Heap, HeapOptions};

    impl RunCache {
        /// The executable form of the invariants, while no thread uses the heap. Returns the runs of shelves and slots.
        fn check(&self, heap: u32, front: &LowFragmentation) -> BTreeSet<UnitIndex> {
            let mut runs = BTreeSet::new();
            let mut check = |row: usize, first: UnitIndex| {
                let unit = arena::unit(first);
                assert_eq!(unit.kind(), UnitKind::Cached);
                assert_eq!(unit.heap.load(Ordering::Relaxed), heap);
                assert_eq!(unit.first.load(Ordering::Relaxed), first);
                assert_eq!(unit.length.load(Ordering::Relaxed), units_of(row));
                assert!(runs.insert(first), "run {first} is in two rows");
            };
            for shelf in &self.shelves {
                let rows = shelf.rows.lock();
                let mut units = 0;
                for (number, row) in rows.rows.iter().enumerate() {
                    assert!(row.count <= room(number) && row.unused <= row.count);
                    units += row.count * units_of(number);
                    let runs = &row.runs[..row.count as usize];
                    runs.iter().for_each(|first| check(number, *first));
                }
                assert_eq!(rows.units, units);
            }
            let of_slots = front.runs_of_slots();
            of_slots.into_iter().for_each(|(row, first)| check(row, first));
            runs
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Take { units: u32, count: usize },
        Put { which: usize, count: usize },
        Flush { all: bool },
        EndPeriod,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (SHORTEST_RUN - 1..=LONGEST + 1, 1..24usize).prop_map(|(units, count)| Step::Take { units, count }),
            4 => (any::<usize>(), 1..24usize).prop_map(|(which, count)| Step::Put { which, count }),
            1 => any::<bool>().prop_map(|all| Step::Flush { all }),
            1 => Just(Step::EndPeriod),
        ];
        prop::collection::vec(step, 1..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// Runs are in use, cached or with the back end, and never in two of these places.
        #[test]
        fn runs_are_in_one_place(
            steps in steps(), front_end in select(&[FrontEnd::Standard, FrontEnd::LowFragmentation][..])
        ) {
            let heap = Heap::of(front_end);
            let record = record_of(&heap);
            let (backend, cache, front) = (record.backend(), record.run_cache(), record.low_fragmentation());
            let mut in_use: Vec<UnitIndex> = Vec::new();
            for step in steps {
                match step {
                    Step::Take { units, count } => in_use.extend((0..count).map(|_| {
                        cache.take(front, units).unwrap_or_else(|| take_large(backend, units))
                    })),
                    Step::Put { which, count } => for at in 0..count.min(in_use.len()) {
                        let first = in_use.swap_remove(which.wrapping_mul(at + 1) % in_use.len());
                        if !cache.put(backend, front, first) {
                            backend.free(first);
                        }
                    },
                    Step::Flush { all } => _ = cache.flush(backend, all),
                    Step::EndPeriod => _ = record.end_period(),
                }
                let kept = cache.check(heap.number(), front);
                for first in &in_use {
                    prop_assert_eq!(arena::unit(*first).kind(), UnitKind::Large);
                    prop_assert!(!kept.contains(first));
                }
                let extents = backend.extents();
                prop_assert_eq!(extents.check(), Ok(()));
                // Units outside of runs in use are cached or free.
                let units = |first: &UnitIndex| arena::unit(*first).length.load(Ordering::Relaxed);
                let used: u32 = in_use.iter().chain(&kept).map(units).sum();
                prop_assert_eq!(extents.owned - extents.free, used);
            }
            in_use.into_iter().for_each(|first| backend.free(first));
            record.purge_all();
            let extents = backend.extents();
            prop_assert_eq!((extents.free, extents.touched), (extents.owned, 0));
        }
    }

    fn record_of(heap: &Heap) -> &'static Record {
        record::of(heap.number()).expect("the heap lives")
    }

    fn take_large(backend: &Backend, units: u32) -> UnitIndex {
        let run = backend.take(units, 1, UnitKind::Large);
        run.expect("there is memory").first
    }

    #[test]
    fn a_shelf_returns_runs_of_the_length_and_flushes_unused_ones() {
        let heap = Heap::new(HeapOptions::default()).expect("there is memory");
        let record = record_of(&heap);
        let (backend, cache, front) = (record.backend(), record.run_cache(), record.low_fragmentation());
        let put = |first| cache.put(backend, front, first);
        let take = |units| cache.take(front, units);
        assert!(!put(take_large(backend, SHORTEST_RUN - 1)));
        assert!(!put(take_large(backend, LONGEST + 1)));
        let runs: Vec<UnitIndex> = (0..4).map(|_| take_large(backend, 3)).collect();
        runs.iter().for_each(|first| assert!(put(*first)));
        assert_eq!(backend.extents().check(), Ok(()));
        assert_eq!(take(2), None, "no run of another length");
        assert_eq!(take(3), Some(runs[3]), "the last one first");
        assert!(cache.flush(backend, false), "runs put since the last flush stay");
        assert_eq!(take(3), Some(runs[2]));
        assert!(put(runs[2]));
        assert!(cache.flush(backend, false), "only unused runs go");
        assert_eq!(take(3), Some(runs[2]));
        assert_eq!(take(3), None, "the others went");
        assert_eq!(backend.extents().check(), Ok(()));
    }

    /// Its kind says that it is in use after each put, as if another thread had written it.
    fn take_a_run_put_twice() {
        let heap = Heap::new(HeapOptions::default()).expect("there is memory");
        let record = record_of(&heap);
        let (backend, cache, front) = (record.backend(), record.run_cache(), record.low_fragmentation());
        let first = take_large(backend, 3);
        for _ in 0..2 {
            let kind = &arena::unit(first).kind;
            kind.store(UnitKind::Large as u8, Ordering::Relaxed);
            assert!(cache.put(backend, front, first));
        }
        assert_eq!(cache.take(front, 3), Some(first));
        cache.take(front, 3);
    }

    #[test]
    fn a_run_is_not_handed_out_twice() {
        if role().is_some() {
            return take_a_run_put_twice();
        }
        let output = again("run_cache::tests::a_run_is_not_handed_out_twice", "put twice")
            .output()
            .expect("the test program starts");
        let said = std::string::String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(6), "{said}");
        // An emulator may add lines of its own.
        let code = std::format!("[{}]", Damage::DoubleFree.code());
        assert!(said.lines().any(|line| line.ends_with(&code)), "{said}");
    }

    #[test]
    fn a_full_row_frees_its_older_half() {
        let heap = Heap::new(HeapOptions::default()).expect("there is memory");
        let record = record_of(&heap);
        let (backend, cache, front) = (record.backend(), record.run_cache(), record.low_fragmentation());
        for row in 0..ROWS {
            let (units, room) = (units_of(row), room(row) as usize);
            let runs: Vec<UnitIndex> = (0..room + 1).map(|_| take_large(backend, units)).collect();
            runs.iter()
                .for_each(|first| assert!(cache.put(backend, front, *first)));
            let kept: Vec<UnitIndex> = core::iter::from_fn(|| cache.take(front, units)).collect();
            let younger: Vec<UnitIndex> = runs[room / 2..].iter().rev().copied().collect();
            assert_eq!(kept, younger);
            kept.iter().for_each(|first| backend.free(*first));
        }
        let extents = backend.extents();
        assert_eq!(extents.check(), Ok(()));
        assert_eq!(extents.free, extents.owned);
    }

    #[test]
    fn runs_of_slots_are_reused_and_freed_once_idle() {
        let heap = Heap::of(FrontEnd::LowFragmentation);
        let record = record_of(&heap);
        let (backend, cache, front) = (record.backend(), record.run_cache(), record.low_fragmentation());
        let mut runs: Vec<UnitIndex> = Vec::new();
        for row in 0..ROWS {
            runs.extend((0..3 * MOST_RUNS).map(|_| take_large(backend, units_of(row))));
        }
        runs.iter()
            .for_each(|first| assert!(cache.put(backend, front, *first)));
        assert_eq!(backend.extents().check(), Ok(()));
        for row in 0..ROWS {
            let units = units_of(row);
            let first = cache.take(front, units).expect("some were cached");
            assert!(runs.contains(&first));
            let unit = arena::unit(first);
            assert_eq!(
                (unit.kind(), unit.length.load(Ordering::Relaxed)),
                (UnitKind::Large, units)
            );
            assert!(cache.put(backend, front, first));
        }
        while record.end_period() {}
        let extents = backend.extents();
        assert_eq!(extents.check(), Ok(()));
        assert_eq!((extents.free, extents.touched), (extents.owned, 0));
    }

    /// Prepared rows filled up without a request to the helper: no thread purged their runs while the process slept.
    #[test]
    fn rows_of_slots_that_lay_idle_are_prepared_anew() {
        let heap = Heap::of(FrontEnd::LowFragmentation);
        let record = record_of(&heap);
        let (backend, cache, front) = (record.backend(), record.run_cache(), record.low_fragmentation());
        if !front.slots.uses_sections() {
            return assert_eq!(front.units_of_rows(), 0, "there are no rows");
        }
        for emptied in [false, true] {
            let first = take_large(backend, SHORTEST_RUN);
            assert!(cache.put(backend, front, first));
            // The thread may run on another processor by now: then it stays there.
            if emptied && let Some(run) = cache.take(front, SHORTEST_RUN) {
                backend.free(run);
            }
            assert!(front.units_of_rows() >= SHORTEST_RUN * RUN_POINTERS as u32);
            while record.end_period() {}
            assert_eq!(front.units_of_rows(), 0);
            assert_eq!(backend.extents().check(), Ok(()));
        }
    }
}
