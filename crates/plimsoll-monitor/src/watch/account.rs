//! Totals and peaks of the target and the machine: the data of the summary.

use std::collections::BTreeMap;

use plimsoll_proc::ProcessId;
use serde::Serialize;

use plimsoll_model::columns::{Row, col};
use plimsoll_sample::{DelayAccounting, Delays, DelaysError, Reader, SampleError};

/// The pages of pagers: in RAM, in the store alone, and in the page file alone.
const WANTED: [usize; 5] = [
    col::TARGET_PAGER_ACTIVE,
    col::TARGET_PAGER_MODIFIED,
    col::TARGET_PAGER_STANDBY,
    col::TARGET_PAGER_COMPRESSED,
    col::TARGET_PAGER_PAGE_FILE,
];

/// Totals between an opening and a closing.
#[derive(Default)]
pub(super) struct Account {
    reader: Option<Reader>,
    /// Counters of the machine at the opening and at the closing.
    pub(super) first: Option<Row>,
    pub(super) last: Option<Row>,
    /// Number of samples in between.
    pub(super) samples: u64,
    /// Largest sampled values of the target.
    pub(super) peak_resident: Option<i64>,
    pub(super) peak_swap: Option<i64>,
    pub(super) peak_cgroup: Option<i64>,
    /// Largest sum of the RSS and the swap of its processes.
    pub(super) peak_memory: Option<i64>,
    pub(super) peak_pagers: PagerPeaks,
    pub(super) minor_faults: i64,
    pub(super) major_faults: i64,
    before: Option<(Option<i64>, Option<i64>)>,
    delays: Option<Result<DelayTally, DelaysError>>,
}

/// Largest sampled sums over the pagers of the target. None if no sample met one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PagerPeaks {
    /// Pages in RAM, in the store and in page files: the RAM that the programs would use without a limit.
    pub wanted_bytes: Option<i64>,
    /// Pages in the store alone, before compression.
    pub compressed_bytes: Option<i64>,
    /// Pages in page files alone.
    pub page_file_bytes: Option<i64>,
}

/// Latest delays of a program's processes.
struct DelayTally {
    accounting: DelayAccounting,
    seen: BTreeMap<ProcessId, Delays>,
}

impl Account {
    pub(super) fn open(now_ns: u64) -> Result<Account, SampleError> {
        let mut reader = Reader::open()?;
        let mut row = Row::empty(now_ns);
        reader.read(&mut row);
        Ok(Account {
            reader: Some(reader),
            first: Some(row),
            ..Account::default()
        })
    }

    /// Adds a sample. Ignores it before the opening and after the closing.
    pub(super) fn add(&mut self, row: &Row) {
        let from_ns = self.first.map_or(0, |row| row.t_ns);
        let to_ns = self.last.map_or(u64::MAX, |row| row.t_ns);
        if !(from_ns..=to_ns).contains(&row.t_ns) {
            return;
        }
        self.samples += 1;
        for (peak, column) in [
            (&mut self.peak_resident, col::TARGET_RESIDENT),
            (&mut self.peak_swap, col::TARGET_SWAP),
            (&mut self.peak_cgroup, col::CGROUP_USAGE),
        ] {
            *peak = (*peak).max(row.get(column));
        }
        let pagers = &mut self.peak_pagers;
        for (peak, columns) in [
            (
                &mut self.peak_memory,
                &[col::TARGET_RESIDENT, col::TARGET_SWAP][..],
            ),
            (&mut pagers.wanted_bytes, &WANTED),
            (&mut pagers.compressed_bytes, &[col::TARGET_PAGER_COMPRESSED]),
            (&mut pagers.page_file_bytes, &[col::TARGET_PAGER_PAGE_FILE]),
        ] {
            let sum = columns.iter().filter_map(|column| row.get(*column));
            *peak = (*peak).max(sum.reduce(i64::saturating_add));
        }
        let faults = (
            row.get(col::TARGET_MINOR_FAULTS),
            row.get(col::TARGET_MAJOR_FAULTS),
        );
        if let Some(before) = self.before.replace(faults) {
            self.minor_faults += growth(before.0, faults.0);
            self.major_faults += growth(before.1, faults.1);
        }
    }

    /// Starts to account for delays, if the kernel supports it.
    pub(super) fn open_delays(&mut self) {
        let tally = DelayAccounting::open().map(|accounting| DelayTally {
            accounting,
            seen: BTreeMap::new(),
        });
        self.delays = Some(tally);
    }

    /// Reads the delays of the processes. Delays after the last call are lost.
    pub(super) fn read_delays(&mut self, processes: impl IntoIterator<Item = ProcessId>) {
        if let Some(Ok(tally)) = &mut self.delays {
            for process in processes {
                if let Ok(delays) = tally.accounting.of(process.pid) {
                    tally.seen.insert(process, delays);
                }
            }
        }
    }

    /// Sum of all processes' delays, or the reason for which it is unknown. None without [`Account::open_delays`].
    pub(super) fn delays(&self) -> Option<Result<Delays, &DelaysError>> {
        let tally = match self.delays.as_ref()? {
            Ok(tally) => tally,
            Err(reason) => return Some(Err(reason)),
        };
        let sum = tally.seen.values().fold(Delays::default(), |sum, delays| Delays {
            swap_in_ns: sum.swap_in_ns + delays.swap_in_ns,
            thrashing_ns: sum.thrashing_ns + delays.thrashing_ns,
            reclaim_ns: sum.reclaim_ns + delays.reclaim_ns,
            compaction_ns: sum.compaction_ns + delays.compaction_ns,
            copy_ns: sum.copy_ns + delays.copy_ns,
        });
        Some(Ok(sum))
    }

    /// Closes the account. Later calls have no effect.
    pub(super) fn close(&mut self, now_ns: u64) {
        if let Some(mut reader) = self.reader.take() {
            let mut row = Row::empty(now_ns);
            reader.read(&mut row);
            self.last = Some(row);
        }
    }

    /// Growth of a counter of the machine from the opening to the closing.
    pub(super) fn growth(&self, column: usize) -> Option<u64> {
        let (first, last) = (self.first.as_ref()?, self.last.as_ref()?);
        u64::try_from(last.get(column)?.checked_sub(first.get(column)?)?).ok()
    }

    pub(super) fn seconds(&self) -> f64 {
        match (&self.first, &self.last) {
            (Some(first), Some(last)) => last.t_ns.saturating_sub(first.t_ns) as f64 / 1e9,
            _ => 0.0,
        }
    }
}

/// Growth of a sum over living processes. The sum shrinks when a process ends; that counts as zero.
fn growth(before: Option<i64>, now: Option<i64>) -> i64 {
    match (before, now) {
        (Some(before), Some(now)) => (now - before).max(0),
        _ => 0,
    }
}
