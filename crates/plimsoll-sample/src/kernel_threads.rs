//! CPU time of the kernel threads that manage memory.
//!
//! `schedstat` counts nanoseconds; `stat` counts hundredths of a second. Writers of zswap and zram run in nameless
//! workers on most kernels, which nothing tells from the workers of others: those cannot be counted.

use plimsoll_proc::schedstat::Schedstat;
use plimsoll_proc::{KeptFile, PidStat, pids};

use super::residency::{Span, span_of};
use plimsoll_model::columns::{Row, col};

/// Beginning of a thread's name, and the column of its kind, if it has one besides the sum.
const KINDS: [(&str, Option<usize>); 7] = [
    ("kswapd", Some(col::KSWAPD_CPU_US)),
    ("kcompactd", Some(col::KCOMPACTD_CPU_US)),
    ("kdamond", Some(col::KDAMOND_CPU_US)),
    ("khugepaged", None),
    ("ksmd", None),
    ("zswap", None),
    ("zram", None),
];

/// The kept-open files of the threads that were there when they were looked for. The sums fall when one ends.
pub(crate) struct KernelThreads(Box<[Thread]>);

struct Thread {
    schedstat: KeptFile,
    column: Option<usize>,
}

impl KernelThreads {
    pub(crate) fn open() -> Self {
        let mut buffer = Vec::with_capacity(1024);
        let threads = pids::all()
            .unwrap_or_default()
            .into_iter()
            .filter_map(|pid| {
                let column = kind(&PidStat::read(pid, &mut buffer).ok()?)?;
                let schedstat = KeptFile::open(format!("/proc/{pid}/schedstat"));
                schedstat.is_open().then_some(Thread { schedstat, column })
            })
            .collect();
        KernelThreads(threads)
    }

    pub(crate) fn span(&self) -> Span {
        span_of(&*self.0)
    }

    pub(crate) fn read(&self, buffer: &mut [u8], row: &mut Row) {
        for thread in &self.0 {
            let Some(text) = thread.schedstat.read(buffer) else {
                continue;
            };
            if let Some(spent) = Schedstat::parse(text) {
                row.add(col::KERNEL_THREADS_CPU_US, spent.on_cpu_ns / 1000);
                if let Some(column) = thread.column {
                    row.add(column, spent.on_cpu_ns / 1000);
                }
            }
        }
    }
}

/// Whether the thread whose `stat` this is manages memory.
pub(crate) fn reclaims(stat: &PidStat<'_>) -> bool {
    kind(stat).is_some()
}

/// The column of the thread whose `stat` this is; None when it is no kernel thread (a child of process 2, kthreadd)
/// or none that manages memory.
fn kind(stat: &PidStat<'_>) -> Option<Option<usize>> {
    if stat.parent != 2 {
        return None;
    }
    KINDS
        .iter()
        .find(|(prefix, _)| stat.name.starts_with(prefix.as_bytes()))
        .map(|&(_, column)| column)
}
