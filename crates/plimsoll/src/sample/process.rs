//! Resident memory of the target's workers and of the runner.

use super::columns::{Row, col};
use super::fields::{number, words};
use super::kept_file::KeptFile;
use super::residency::{Span, span_of};

/// Workers that have a column of their own; more are counted in the sums alone.
const WORKER_COLUMNS: [usize; 4] = [
    col::WORKER1_RESIDENT,
    col::WORKER2_RESIDENT,
    col::WORKER3_RESIDENT,
    col::WORKER4_RESIDENT,
];

/// Bytes of a process.
struct Resident {
    /// All that is mapped and in RAM.
    resident: i64,
    /// The part of it that no file or shared memory is behind.
    anon: i64,
}

/// A kept-open `statm`. It belongs to the process, not to its number: once that has ended, reading fails.
pub(crate) struct Statm(KeptFile);

impl Statm {
    fn open(pid: &str) -> Self {
        Statm(KeptFile::open(format!("/proc/{pid}/statm")))
    }

    /// That of this process.
    pub(crate) fn own() -> Self {
        Statm::open("self")
    }

    /// Reads the runner's column.
    pub(crate) fn read_runner(&self, buffer: &mut [u8], row: &mut Row) {
        if let Some(memory) = self.read(buffer) {
            row.set(col::RUNNER_RESIDENT, memory.resident);
        }
    }

    fn read(&self, buffer: &mut [u8]) -> Option<Resident> {
        let page = rustix::param::page_size() as i64;
        let mut words = words(self.0.read(buffer)?).skip(1);
        let resident = number(words.next()?)?.checked_mul(page)?;
        let shared = number(words.next()?)?.checked_mul(page)?;
        Some(Resident {
            resident,
            anon: (resident - shared).max(0),
        })
    }
}

/// The target's workers.
pub(crate) struct Workers(Box<[Statm]>);

impl Workers {
    /// Opens their files.
    pub(crate) fn open(pids: &[u32]) -> Self {
        Workers(pids.iter().map(|pid| Statm::open(&pid.to_string())).collect())
    }

    /// Where the list lies, for locking.
    pub(crate) fn span(&self) -> Span {
        span_of(&*self.0)
    }

    /// Reads them into `row`. A worker that has ended has no value, and neither have the sums once all have ended.
    pub(crate) fn read(&self, buffer: &mut [u8], row: &mut Row) {
        for (index, statm) in self.0.iter().enumerate() {
            let Some(memory) = statm.read(buffer) else {
                continue;
            };
            row.add(col::TARGET_RESIDENT, memory.resident);
            row.add(col::TARGET_ANON, memory.anon);
            if let Some(&column) = WORKER_COLUMNS.get(index) {
                row.set(column, memory.resident);
            }
        }
    }
}
