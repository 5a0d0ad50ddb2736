//! Resident memory of the target's workers and of the runner.

use plimsoll_proc::{CLOCK_TICK_US, KeptFile, PidStat, swapped};

use super::residency::{Span, span_of};
use plimsoll_model::columns::{Row, col};

/// Workers that have a column of their own; more are counted in the sums alone.
const WORKER_COLUMNS: [usize; 4] = [
    col::WORKER1_RESIDENT,
    col::WORKER2_RESIDENT,
    col::WORKER3_RESIDENT,
    col::WORKER4_RESIDENT,
];

/// Longer than any `/proc/PID/stat`.
const STAT: usize = 1024;

/// A kept-open `statm`. It belongs to the process, not to its number: once that has ended, reading fails.
pub(crate) struct Statm(KeptFile);

impl Statm {
    fn open(pid: &str) -> Self {
        Statm(KeptFile::open(format!("/proc/{pid}/statm")))
    }

    pub(crate) fn own() -> Self {
        Statm::open("self")
    }

    pub(crate) fn read_runner(&self, buffer: &mut [u8], row: &mut Row) {
        if let Some(memory) = self.read(buffer) {
            row.set(col::RUNNER_RESIDENT, memory.resident as i64);
        }
    }

    fn read(&self, buffer: &mut [u8]) -> Option<plimsoll_proc::Statm> {
        plimsoll_proc::Statm::parse(self.0.read(buffer)?)
    }
}

/// The CPU time of this process.
pub(crate) fn set_process_cpu(row: &mut Row) {
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    row.set(col::RUNNER_CPU_US, cpu.tv_sec * 1_000_000 + cpu.tv_nsec / 1000);
}

/// Age in clock ticks below which a process is taken for new: all that it ever counted belongs to the target.
const NEW_TICKS: i64 = 200;

/// The open files of one worker. They belong to the process, not to its number.
struct Worker {
    statm: Statm,
    stat: KeptFile,
    status: KeptFile,
    /// Its counters before the first sample, which the columns leave out.
    before: Counters,
}

/// Counters of a process since its start.
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

    fn read(&self, buffer: &mut [u8], row: &mut Row) -> Option<i64> {
        let memory = self.statm.read(buffer)?;
        row.add(col::TARGET_PROCESSES, 1);
        row.add(col::TARGET_RESIDENT, memory.resident as i64);
        row.add(col::TARGET_ANON, memory.anonymous() as i64);
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
        if let Some(bytes) = self.status.read(buffer).and_then(swapped) {
            row.add(col::TARGET_SWAP, bytes);
        }
        Some(memory.resident as i64)
    }
}

/// The counters of `/proc/PID/stat`.
fn counters(text: &[u8]) -> Option<Counters> {
    let stat = PidStat::parse(text)?;
    Some(Counters {
        minor_faults: stat.minor_faults as i64,
        major_faults: stat.major_faults as i64,
        cpu_us: stat.user_us.checked_add(stat.system_us)? as i64,
        start_ticks: stat.start_ticks as i64,
    })
}

/// Clock ticks since the machine's start, as `/proc/PID/stat` counts them: time asleep included.
fn uptime_ticks() -> i64 {
    let uptime = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    (uptime.tv_sec * 1_000_000 + uptime.tv_nsec / 1000) / CLOCK_TICK_US
}

pub(crate) struct Workers(Box<[Worker]>);

impl Workers {
    pub(crate) fn open(pids: &[u32]) -> Self {
        Workers(pids.iter().map(|&pid| Worker::open(pid)).collect())
    }

    pub(crate) fn span(&self) -> Span {
        span_of(&*self.0)
    }

    /// Reads them into `row`. A worker that has ended has no value, and neither have the sums once all have ended.
    pub(crate) fn read(&self, buffer: &mut [u8], row: &mut Row) {
        for (index, worker) in self.0.iter().enumerate() {
            if let Some(resident) = worker.read(buffer, row)
                && let Some(&column) = WORKER_COLUMNS.get(index)
            {
                row.set(column, resident);
            }
        }
    }
}
