//! The pagers of processes, read from outside.
//!
//! A watched process may be hostile. The cost of a tick is bounded for any contents of its memory: `MOST_ON_TICKS` looks of
//! [`LOOK_READS`] reads and [`LOOK_BYTES`] bytes each, 384 reads of 512 KiB in total, and no allocation. A read can still wait
//! as long as the kernel takes to resolve a fault of the other process: a page on a slow disk, or one that its userfaultfd or
//! FUSE file system withholds (a user-mode-only userfaultfd, all that an unprivileged program gets by default, withholds none
//! from the kernel). Such a process stops the samples until it answers or ends: the search, which reads in time ([`BoundedMemory`]),
//! does not choose a pager whose memory is withheld then, but it can be withheld later. Reads that end in time need a thread and
//! a buffer of their own, which a tick does not have.

use std::collections::BTreeMap;

use plimsoll_model::columns::{Row, col};
use plimsoll_os::{Memory, OtherProcess};
use plimsoll_pager::Stats;
use plimsoll_pager::page::PAGE_SIZE;
use plimsoll_pager::published::{LOOK_BYTES, LOOK_READS, MAGIC, OpenError, PublishedPager, RECORD_BYTES};
use plimsoll_proc::process_memory::{BoundedMemory, FindError, Mark, marked};

use super::residency::{Span, span_of};

/// The addresses of the records of a process's pagers.
///
/// # Errors
/// [`FindError`] if the process does not exist or its memory is unreadable.
pub fn records(pid: u32) -> Result<Vec<usize>, FindError> {
    let mark = Mark {
        bytes: MAGIC,
        length: Some(RECORD_BYTES as u64),
    };
    marked(pid, &mark)
}

/// The counters of the pager with a record, read from `memory`; none if it has none there any more, or it is unreadable.
fn stats_in(memory: &impl Memory, record: usize) -> Option<Stats> {
    let read = || -> Result<Stats, OpenError> { Ok(PublishedPager::open(memory, record)?.stats()?) };
    read().ok()
}

/// The counters of all pagers of a process. One that this user cannot read, or that leaves a read unanswered, has none.
pub fn all_stats(pid: u32) -> Vec<Stats> {
    let records = records(pid).unwrap_or_default();
    let memory = BoundedMemory::for_search(pid);
    let stats = records.into_iter().map(|record| stats_in(&memory, record));
    stats.flatten().collect()
}

/// The pagers of processes: pid and address of the record. Processes without a pager, or that this user cannot read, have
/// none; nor have those that leave a read of it unanswered.
pub fn of_processes(pids: &[u32]) -> Vec<(u32, usize)> {
    let of = |pid: u32| {
        let memory = BoundedMemory::for_search(pid);
        let mut records = records(pid).unwrap_or_default();
        records.retain(|record| stats_in(&memory, *record).is_some());
        records.into_iter().map(move |record| (pid, record))
    };
    pids.iter().flat_map(|pid| of(*pid)).collect()
}

/// Pagers that a tick reads at most. A look took 44 us without optimisation on a busy machine: all take less than 3 ms of the
/// shortest period of 10 ms. A program has one pager, and `plimsoll watch` reads 64 processes on ticks.
const MOST_ON_TICKS: usize = 64;

const _: () = assert!(MOST_ON_TICKS * LOOK_READS <= 384 && MOST_ON_TICKS * LOOK_BYTES <= 512 << 10);

/// The first [`MOST_ON_TICKS`] of these pagers: the first one of each process, then the second ones, so that a process with
/// many records displaces no pager of another.
fn on_ticks(found: Vec<(u32, usize)>) -> Box<[(u32, usize)]> {
    let mut counts = BTreeMap::new();
    let mut ranked: Vec<(usize, (u32, usize))> = found
        .into_iter()
        .map(|(pid, record)| {
            let count = counts.entry(pid).or_insert(0);
            *count += 1;
            (*count, (pid, record))
        })
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked
        .into_iter()
        .take(MOST_ON_TICKS)
        .map(|(_, pager)| pager)
        .collect()
}

/// The pagers of the target's workers.
pub(crate) struct Pagers(Box<[(u32, usize)]>);

impl Pagers {
    /// Finds them: not for a tick.
    pub(crate) fn open(pids: &[u32]) -> Pagers {
        Pagers(on_ticks(of_processes(pids)))
    }

    pub(crate) fn span(&self) -> Span {
        span_of(&*self.0)
    }

    /// Reads them into `row`. A pager that has ended has no value.
    pub(crate) fn read(&self, row: &mut Row) {
        // On a tick: no thread of its own reads, and nothing is allocated.
        self.read_by(OtherProcess::new, row);
    }

    fn read_by<M: Memory>(&self, memory: impl Fn(u32) -> M, row: &mut Row) {
        for &(pid, record) in &self.0 {
            if let Some(stats) = stats_in(&memory(pid), record) {
                add(&stats, row);
            }
        }
    }
}

/// Adds the counters of a pager, which may be anything.
fn add(stats: &Stats, row: &mut Row) {
    let mut bytes = |column, bytes: u64| row.add(column, i64::try_from(bytes).unwrap_or(i64::MAX));
    bytes(col::TARGET_PAGER_BUDGET, stats.ram);
    bytes(col::TARGET_PAGER_STORE, stats.store_bytes);
    bytes(col::TARGET_PAGER_METADATA, stats.metadata_bytes);
    bytes(col::TARGET_PAGER_SOFT_FAULTS, stats.soft_faults);
    bytes(col::TARGET_PAGER_HARD_FAULTS, stats.hard_faults);
    bytes(col::TARGET_PAGER_READ_AHEAD, stats.stream_pages);
    bytes(col::TARGET_PAGER_TRIMMED, stats.trimmed_pages);
    bytes(col::TARGET_PAGER_SAVED, stats.saved_pages);
    let mut pages = |column, pages: u64| bytes(column, pages.saturating_mul(PAGE_SIZE as u64));
    pages(
        col::TARGET_PAGER_ACTIVE,
        stats.active_pages.saturating_add(stats.native_pages),
    );
    pages(col::TARGET_PAGER_MODIFIED, stats.modified_pages);
    let sum = |priorities: &[u64]| priorities.iter().copied().fold(0, u64::saturating_add);
    pages(col::TARGET_PAGER_STANDBY, sum(&stats.standby_pages));
    pages(col::TARGET_PAGER_STANDBY_LOW, sum(&stats.standby_pages[..5]));
    pages(col::TARGET_PAGER_COMPRESSED, stats.compressed_pages);
    pages(col::TARGET_PAGER_PAGE_FILE, stats.page_file_pages);
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Mutex;

    use plimsoll_os::MemoryError;
    use plimsoll_pager::page::CHUNK_PAGES;

    use super::*;

    #[test]
    fn the_pagers_of_all_workers_are_summed() {
        let mut stats = Stats::default();
        (stats.ram, stats.store_bytes, stats.metadata_bytes) = (1 << 20, 300, 400);
        (stats.native_pages, stats.active_pages, stats.modified_pages) = (1, 2, 4);
        stats.standby_pages = [1, 0, 0, 0, 2, 5, 0, 7];
        (stats.compressed_pages, stats.page_file_pages) = (8, 9);
        (stats.soft_faults, stats.hard_faults, stats.stream_pages) = (10, 11, 12);
        (stats.trimmed_pages, stats.saved_pages) = (13, 14);
        let mut row = Row::empty(0);
        add(&stats, &mut row);
        add(&stats, &mut row);
        let values = [
            (col::TARGET_PAGER_BUDGET, 2 << 20),
            (col::TARGET_PAGER_ACTIVE, 6 * 4096),
            (col::TARGET_PAGER_MODIFIED, 8 * 4096),
            (col::TARGET_PAGER_STANDBY, 30 * 4096),
            (col::TARGET_PAGER_STANDBY_LOW, 6 * 4096),
            (col::TARGET_PAGER_COMPRESSED, 16 * 4096),
            (col::TARGET_PAGER_PAGE_FILE, 18 * 4096),
            (col::TARGET_PAGER_STORE, 600),
            (col::TARGET_PAGER_METADATA, 800),
            (col::TARGET_PAGER_SOFT_FAULTS, 20),
            (col::TARGET_PAGER_HARD_FAULTS, 22),
            (col::TARGET_PAGER_READ_AHEAD, 24),
            (col::TARGET_PAGER_TRIMMED, 26),
            (col::TARGET_PAGER_SAVED, 28),
        ];
        for (column, value) in values {
            assert_eq!(row.get(column), Some(value), "{column}");
        }
    }

    #[test]
    fn statistics_of_a_hostile_process_overflow_nothing() {
        let mut stats = Stats::default();
        (stats.ram, stats.active_pages, stats.standby_pages) = (u64::MAX, u64::MAX, [u64::MAX; 8]);
        let mut row = Row::empty(0);
        add(&stats, &mut row);
        add(&stats, &mut row);
        assert_eq!(row.get(col::TARGET_PAGER_STANDBY), Some(i64::MAX));
    }

    /// Bytes of a record that hold its number of pages.
    const PAGES: std::ops::Range<usize> = 56..64;

    const AT: usize = 0x1_0000;

    /// A test with a pager of this process holds it: one asserts on the sum of all of them.
    static PAGERS_OF_THIS_PROCESS: Mutex<()> = Mutex::new(());

    /// Memory of a hostile process: a record at [`AT`], and ones everywhere else.
    struct Hostile<'c> {
        record: &'c [u8],
        reads: &'c Cell<usize>,
        bytes: &'c Cell<usize>,
    }

    impl Memory for Hostile<'_> {
        fn read(&self, address: usize, into: &mut [u8]) -> Result<(), MemoryError> {
            self.reads.set(self.reads.get() + 1);
            self.bytes.set(self.bytes.get() + into.len());
            into.fill(0xFF);
            if address == AT {
                into.copy_from_slice(&self.record[..into.len()]);
            }
            Ok(())
        }
    }

    #[test]
    fn a_tick_of_hostile_processes_costs_a_stated_amount() {
        let _alone = PAGERS_OF_THIS_PROCESS.lock();
        let pager = plimsoll_pager::Pager::builder()
            .ram(8 << 20)
            .build()
            .expect("userfaultfd");
        let own = std::process::id();
        let at = records(own).expect("it is this process");
        let mut record = vec![0; RECORD_BYTES];
        let copied = OtherProcess::new(own).read(at[0], &mut record);
        copied.expect("the pager has a record");
        // More records than a search returns, in more processes than a tick reads.
        let found: Vec<(u32, usize)> = (1..=100)
            .flat_map(|pid| (0..64).map(move |_| pid))
            .map(|pid| (pid, AT))
            .collect();
        let pagers = Pagers(on_ticks(found));
        let most = u64::from(u32::MAX / CHUNK_PAGES * CHUNK_PAGES);
        for (pages, is_followed) in [(most, true), (1 << 60, false), (u64::MAX, false)] {
            record[PAGES].copy_from_slice(&u64::to_ne_bytes(pages));
            let (reads, bytes) = (Cell::new(0), Cell::new(0));
            let mut row = Row::empty(0);
            let memory = |_| Hostile {
                record: &record,
                reads: &reads,
                bytes: &bytes,
            };
            pagers.read_by(memory, &mut row);
            assert!(reads.get() <= MOST_ON_TICKS * LOOK_READS, "{}", reads.get());
            assert!(bytes.get() <= MOST_ON_TICKS * LOOK_BYTES, "{}", bytes.get());
            let reads_of_one = if is_followed { LOOK_READS } else { 2 };
            assert_eq!(reads.get(), MOST_ON_TICKS * reads_of_one, "{pages:#x}");
            assert_eq!(row.get(col::TARGET_PAGER_STANDBY).is_some(), is_followed);
        }
        drop(pager);
    }

    #[test]
    fn a_process_with_many_records_displaces_no_other() {
        let hostile = (0..64).map(|number| (7, number));
        let found: Vec<(u32, usize)> = hostile.chain((8..40).map(|pid| (pid, 1))).collect();
        let chosen = on_ticks(found);
        assert_eq!(chosen.len(), MOST_ON_TICKS);
        assert!((8..40).all(|pid| chosen.contains(&(pid, 1))));
        assert_eq!(chosen.iter().filter(|(pid, _)| *pid == 7).count(), 32);
    }

    #[test]
    fn a_pager_of_this_process_is_sampled() {
        let _alone = PAGERS_OF_THIS_PROCESS.lock();
        let pager = plimsoll_pager::Pager::builder()
            .ram(8 << 20)
            .build()
            .expect("userfaultfd");
        let mut region = pager.map(12 << 20).expect("addresses");
        region.bytes_mut().fill(3);
        let pagers = Pagers::open(&[std::process::id()]);
        let mut row = Row::empty(0);
        pagers.read(&mut row);
        assert_eq!(row.get(col::TARGET_PAGER_BUDGET), Some(8 << 20));
        assert!(row.get(col::TARGET_PAGER_ACTIVE) > Some(0));
        drop((region, pager));
        let mut row = Row::empty(0);
        pagers.read(&mut row);
        assert_eq!(row.get(col::TARGET_PAGER_BUDGET), None);
    }
}
