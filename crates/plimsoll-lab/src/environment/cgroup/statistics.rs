//! The kernel's statistics of a cgroup, up to date while its pages may go to swap.
//!
//! Reclaim in a cgroup compares the sizes of the active and the inactive list of anonymous memory before it moves pages from
//! the one to the other. It takes the sizes from statistics that the kernel sums every 2 s. When all pages have become active
//! since, the statistics still show a long inactive list: reclaim scans that list, which is empty, leaves the active one alone,
//! frees nothing in 16 attempts, and the OOM killer ends a process although swap is free. On Linux 6.18 with a limit of 32 MiB,
//! this ended 22 workers in 210 points at 1.025 to 1.05 times the limit. A read of `memory.stat` sums the statistics; with one
//! every 10 ms, it ended none.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use plimsoll_proc::cgroup::MemoryCgroup;

use crate::environment::error::EnvironmentError;

/// A few MiB become active within 50 ms. The reads take 1.7% of a CPU.
const INTERVAL: Duration = Duration::from_millis(10);

/// Has the kernel sum the statistics of a cgroup by a thread, which ends when the last clone of this value is dropped.
#[derive(Debug, Clone)]
pub(super) struct FreshStatistics(#[expect(dead_code, reason = "its end is the message")] Sender<()>);

impl FreshStatistics {
    pub(super) fn keep(group: MemoryCgroup) -> Result<FreshStatistics, EnvironmentError> {
        let (kept, dropped) = channel();
        let refresh = move || {
            while dropped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                // Before its removal the cgroup always has the file; after it nothing needs the statistics.
                let _ = group.stat();
            }
        };
        thread::Builder::new()
            .name("cgroup-stat".to_owned())
            .spawn(refresh)
            .map_err(|source| EnvironmentError::system("start a thread", source))?;
        Ok(FreshStatistics(kept))
    }
}
