//! Resident memory of the target's workers and of the runner.

use super::fields::{number, words};
use super::kept_file::KeptFile;
use super::residency::{Span, span_of};
use plimsoll_model::columns::{Row, col};

/// Workers that have a column of their own; more are counted in the sums alone.
const WORKER_COLUMNS: [usize; 4] = [
    col::WORKER1_RESIDENT,
    col::WORKER2_RESIDENT,
    col::WORKER3_RESIDENT,
    col::WORKER4_RESIDENT,
];

/// Microseconds of one tick of the clock that `/proc/PID/stat` counts in, which is 100 Hz on every Linux (USER_HZ).
const CLOCK_TICK_US: i64 = 10_000;

/// Longer than any `/proc/PID/stat`.
const STAT: usize = 1024;

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

    /// Reads the runner's columns.
    pub(crate) fn read_runner(&self, buffer: &mut [u8], row: &mut Row) {
        if let Some(memory) = self.read(buffer) {
            row.set(col::RUNNER_RESIDENT, memory.resident);
        }
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        row.set(col::RUNNER_CPU_US, cpu.tv_sec * 1_000_000 + cpu.tv_nsec / 1000);
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

/// Age in clock ticks below which a process is taken for new: all that it ever counted belongs to the target.
const NEW_TICKS: i64 = 200;

/// What is read of one worker. Like `statm`, the files belong to the process, not to its number.
struct Worker {
    statm: Statm,
    stat: KeptFile,
    status: KeptFile,
    /// What it had counted before it was watched: not the target's doing under our eyes.
    before: Counters,
}

/// What a process has counted since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counters {
    minor_faults: i64,
    major_faults: i64,
    cpu_us: i64,
    start_ticks: i64,
}

impl Worker {
    fn open(pid: u32) -> Self {
        let stat = KeptFile::open(format!("/proc/{pid}/stat"));
        let counted = stat.read(&mut [0; STAT]).and_then(counters);
        let is_new = |counted: &Counters| uptime_ticks() - counted.start_ticks < NEW_TICKS;
        Worker {
            statm: Statm::open(&pid.to_string()),
            stat,
            status: KeptFile::open(format!("/proc/{pid}/status")),
            before: counted.filter(|counted| !is_new(counted)).unwrap_or_default(),
        }
    }

    fn read(&self, buffer: &mut [u8], row: &mut Row) -> Option<Resident> {
        let memory = self.statm.read(buffer)?;
        row.add(col::TARGET_PROCESSES, 1);
        row.add(col::TARGET_RESIDENT, memory.resident);
        row.add(col::TARGET_ANON, memory.anon);
        if let Some(now) = self.stat.read(buffer).and_then(counters) {
            row.add(
                col::TARGET_MINOR_FAULTS,
                now.minor_faults - self.before.minor_faults,
            );
            row.add(
                col::TARGET_MAJOR_FAULTS,
                now.major_faults - self.before.major_faults,
            );
            row.add(col::TARGET_CPU_US, now.cpu_us - self.before.cpu_us);
        }
        if let Some(text) = self.status.read(buffer) {
            parse_status(text, row);
        }
        Some(memory)
    }
}

/// Adds the faults and the CPU time of `/proc/PID/stat` to `row`.
pub fn parse_stat(text: &[u8], row: &mut Row) {
    if let Some(counters) = counters(text) {
        row.add(col::TARGET_MINOR_FAULTS, counters.minor_faults);
        row.add(col::TARGET_MAJOR_FAULTS, counters.major_faults);
        row.add(col::TARGET_CPU_US, counters.cpu_us);
    }
}

/// The counters of `/proc/PID/stat`. The name, which may hold anything, ends at the last parenthesis.
fn counters(text: &[u8]) -> Option<Counters> {
    let end = text.iter().rposition(|&byte| byte == b')')?;
    // After the name: state(3) ppid pgrp session tty tpgid flags minflt(10) cminflt majflt(12) cmajflt utime(14)
    // stime(15) cutime cstime priority nice threads itrealvalue starttime(22).
    let mut fields = [None; 20];
    for (slot, word) in fields.iter_mut().zip(words(&text[end + 1..])) {
        *slot = number(word);
    }
    let cpu_ticks: i64 = fields[11]?.checked_add(fields[12]?)?;
    Some(Counters {
        minor_faults: fields[7]?,
        major_faults: fields[9]?,
        cpu_us: cpu_ticks.checked_mul(CLOCK_TICK_US)?,
        start_ticks: fields[19]?,
    })
}

/// Clock ticks since the machine's start, as `/proc/PID/stat` counts them: time asleep included.
fn uptime_ticks() -> i64 {
    let uptime = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    uptime.tv_sec * 100 + uptime.tv_nsec / 10_000_000
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
