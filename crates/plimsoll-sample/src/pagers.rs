//! The pagers of processes, read from outside.

use plimsoll_model::columns::{Row, col};
use plimsoll_os::{Memory, OtherProcess};
use plimsoll_pager::Stats;
use plimsoll_pager::page::PAGE_SIZE;
use plimsoll_pager::published::{MAGIC, OpenError, PublishedPager, RECORD_BYTES};
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
    let memory = BoundedMemory::new(pid);
    let stats = records.into_iter().map(|record| stats_in(&memory, record));
    stats.flatten().collect()
}

/// The pagers of processes: pid and address of the record. Processes without a pager, or that this user cannot read, have
/// none; nor have those that leave a read of it unanswered.
pub fn of_processes(pids: &[u32]) -> Vec<(u32, usize)> {
    let of = |pid: u32| {
        let memory = BoundedMemory::new(pid);
        let mut records = records(pid).unwrap_or_default();
        records.retain(|record| stats_in(&memory, *record).is_some());
        records.into_iter().map(move |record| (pid, record))
    };
    pids.iter().flat_map(|pid| of(*pid)).collect()
}

/// The pagers of the target's workers.
pub(crate) struct Pagers(Box<[(u32, usize)]>);

impl Pagers {
    /// Finds them: not for a tick.
    pub(crate) fn open(pids: &[u32]) -> Pagers {
        Pagers(of_processes(pids).into())
    }

    pub(crate) fn span(&self) -> Span {
        span_of(&*self.0)
    }

    /// Reads them into `row`. A pager that has ended has no value.
    pub(crate) fn read(&self, row: &mut Row) {
        for &(pid, record) in &self.0 {
            // On a tick: no thread of its own reads, and nothing is allocated.
            if let Some(stats) = stats_in(&OtherProcess::new(pid), record) {
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
    fn figures_of_a_hostile_process_overflow_nothing() {
        let mut stats = Stats::default();
        (stats.ram, stats.active_pages, stats.standby_pages) = (u64::MAX, u64::MAX, [u64::MAX; 8]);
        let mut row = Row::empty(0);
        add(&stats, &mut row);
        add(&stats, &mut row);
        assert_eq!(row.get(col::TARGET_PAGER_STANDBY), Some(i64::MAX));
    }

    #[test]
    fn a_pager_of_this_process_is_sampled() {
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
