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

/// Microseconds of one tick of the clock that `/proc/PID/stat` counts in, which is 100 Hz on every Linux (USER_HZ).
const CLOCK_TICK_US: i64 = 10_000;

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

/// What is read of one worker. Like `statm`, the files belong to the process, not to its number.
struct Worker {
    statm: Statm,
    stat: KeptFile,
    status: KeptFile,
}

impl Worker {
    fn open(pid: u32) -> Self {
        Worker {
            statm: Statm::open(&pid.to_string()),
            stat: KeptFile::open(format!("/proc/{pid}/stat")),
            status: KeptFile::open(format!("/proc/{pid}/status")),
        }
    }

    fn read(&self, buffer: &mut [u8], row: &mut Row) -> Option<Resident> {
        let memory = self.statm.read(buffer)?;
        row.add(col::TARGET_PROCESSES, 1);
        row.add(col::TARGET_RESIDENT, memory.resident);
        row.add(col::TARGET_ANON, memory.anon);
        if let Some(text) = self.stat.read(buffer) {
            parse_stat(text, row);
        }
        if let Some(text) = self.status.read(buffer) {
            parse_status(text, row);
        }
        Some(memory)
    }
}

/// Adds the faults and the CPU time of `/proc/PID/stat` to `row`. The name, which may hold anything, ends at the last
/// parenthesis.
pub fn parse_stat(text: &[u8], row: &mut Row) {
    let Some(end) = text.iter().rposition(|&byte| byte == b')') else {
        return;
    };
    // After the name: state(3) ppid pgrp session tty tpgid flags minflt(10) cminflt majflt(12) cmajflt utime(14) stime(15).
    let mut fields = [None; 13];
    for (slot, word) in fields.iter_mut().zip(words(&text[end + 1..])) {
        *slot = number(word);
    }
    for (field, column, scale) in [
        (7, col::TARGET_MINOR_FAULTS, 1),
        (9, col::TARGET_MAJOR_FAULTS, 1),
        (11, col::TARGET_CPU_US, CLOCK_TICK_US),
        (12, col::TARGET_CPU_US, CLOCK_TICK_US),
    ] {
        if let Some(value) = fields[field].and_then(|value: i64| value.checked_mul(scale)) {
            row.add(column, value);
        }
    }
}

/// Adds `VmSwap` of `/proc/PID/status` to `row`.
pub fn parse_status(text: &[u8], row: &mut Row) {
    let key = b"\nVmSwap:";
    let Some(at) = text.windows(key.len()).position(|window| window == key) else {
        return;
    };
    let kib = words(&text[at + key.len()..]).next().and_then(number);
    if let Some(bytes) = kib.and_then(|kib| kib.checked_mul(1024)) {
        row.add(col::TARGET_SWAP, bytes);
    }
}

/// The target's workers.
pub(crate) struct Workers(Box<[Worker]>);

impl Workers {
    /// Opens their files.
    pub(crate) fn open(pids: &[u32]) -> Self {
        Workers(pids.iter().map(|&pid| Worker::open(pid)).collect())
    }

    /// Where the list lies, for locking.
    pub(crate) fn span(&self) -> Span {
        span_of(&*self.0)
    }

    /// Reads them into `row`. A worker that has ended has no value, and neither have the sums once all have ended.
    pub(crate) fn read(&self, buffer: &mut [u8], row: &mut Row) {
        for (index, worker) in self.0.iter().enumerate() {
            if let Some(memory) = worker.read(buffer, row)
                && let Some(&column) = WORKER_COLUMNS.get(index)
            {
                row.set(column, memory.resident);
            }
        }
    }
}
