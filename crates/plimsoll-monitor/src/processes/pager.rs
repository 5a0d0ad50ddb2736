//! The pagers of a process: bytes by state.

use plimsoll_pager::Stats;
use plimsoll_pager::page::PAGE_SIZE;
use plimsoll_sample::pagers;
use serde::Serialize;

/// Bytes of the pagers of a process by state, all pagers together.
///
/// Frames of native, active, modified and standby pages, the store and the metadata are RAM of the process's working set;
/// compressed and page-file pages are not resident.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Paged {
    pub pagers: u32,
    /// RAM that the pagers may occupy.
    pub budget: u64,
    /// Pages whose faults the kernel resolves, present or not.
    pub native: u64,
    /// Pages in working sets.
    pub active: u64,
    /// Trimmed pages whose frame is the only copy.
    pub modified: u64,
    /// Trimmed and saved pages whose frame is still there.
    pub standby: u64,
    /// The same by priority.
    pub standby_by_priority: [u64; 8],
    /// Pages in compressed stores alone, before compression.
    pub compressed: u64,
    /// Pages in page files alone.
    pub page_file: u64,
    /// RAM of compressed stores.
    pub store: u64,
    /// RAM of page tables and scratch pages.
    pub metadata: u64,
}

impl Paged {
    /// The pagers of a process now; none if it has none, or this user cannot read its memory.
    pub(super) fn read(pid: u32) -> Option<Paged> {
        let mut paged = Paged::default();
        for stats in pagers::all_stats(pid) {
            paged.add(&stats);
        }
        (paged.pagers > 0).then_some(paged)
    }

    /// Counts a pager. The counters of another process may be anything.
    fn add(&mut self, stats: &Stats) {
        let add = |sum: &mut u64, bytes: u64| *sum = sum.saturating_add(bytes);
        let add_pages = |sum: &mut u64, pages: u64| add(sum, pages.saturating_mul(PAGE_SIZE as u64));
        self.pagers += 1;
        add(&mut self.budget, stats.ram);
        add_pages(&mut self.native, stats.native_pages);
        add_pages(&mut self.active, stats.active_pages);
        add_pages(&mut self.modified, stats.modified_pages);
        for (sum, pages) in self.standby_by_priority.iter_mut().zip(stats.standby_pages) {
            add_pages(sum, pages);
            add_pages(&mut self.standby, pages);
        }
        add_pages(&mut self.compressed, stats.compressed_pages);
        add_pages(&mut self.page_file, stats.page_file_pages);
        add(&mut self.store, stats.store_bytes);
        add(&mut self.metadata, stats.metadata_bytes);
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_pager::Stats;

    use super::Paged;

    #[test]
    fn the_pagers_of_a_process_count_together() {
        let mut stats = Stats::default();
        (
            stats.ram,
            stats.native_pages,
            stats.active_pages,
            stats.modified_pages,
        ) = (1 << 20, 1, 2, 3);
        stats.standby_pages = [0, 0, 0, 0, 0, 4, 0, 5];
        (stats.compressed_pages, stats.page_file_pages) = (6, 7);
        (stats.store_bytes, stats.metadata_bytes) = (800, 900);
        let mut paged = Paged::default();
        paged.add(&stats);
        paged.add(&stats);
        let page = 2 * 4096;
        let expected = Paged {
            pagers: 2,
            budget: 2 << 20,
            native: page,
            active: 2 * page,
            modified: 3 * page,
            standby: 9 * page,
            standby_by_priority: [0, 0, 0, 0, 0, 4 * page, 0, 5 * page],
            compressed: 6 * page,
            page_file: 7 * page,
            store: 1600,
            metadata: 1800,
        };
        assert_eq!(paged, expected);
    }

    #[test]
    fn statistics_of_a_hostile_process_overflow_nothing() {
        let mut stats = Stats::default();
        (stats.ram, stats.active_pages, stats.standby_pages) = (u64::MAX, u64::MAX, [u64::MAX; 8]);
        let mut paged = Paged::default();
        paged.add(&stats);
        paged.add(&stats);
        assert_eq!(
            (paged.budget, paged.active, paged.standby),
            (u64::MAX, u64::MAX, u64::MAX)
        );
    }
}
