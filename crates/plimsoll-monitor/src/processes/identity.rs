//! Which process a number means.

use std::io;

use plimsoll_proc::PidStat;
use serde::Serialize;

/// A process, told from a later one of the same number by when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Identity {
    /// Process id, as this process sees it.
    pub pid: u32,
    /// Start in clock ticks since boot: field 22 of `/proc/PID/stat`.
    pub start_ticks: u64,
}

impl Identity {
    /// The process that has the number `pid` now.
    ///
    /// # Errors
    /// `NotFound` when there is none, and an error of the system when its folder in `/proc` cannot be read.
    pub fn of(pid: u32) -> io::Result<Identity> {
        let mut buffer = Vec::new();
        let stat = PidStat::read(pid, &mut buffer)?;
        Ok(Identity {
            pid,
            start_ticks: stat.start_ticks,
        })
    }

    /// Whether that very process still runs. One that has ended and only waits for its parent to notice does not,
    /// and neither does another process that got the number since.
    pub fn is_alive(&self) -> bool {
        PidStat::read(self.pid, &mut Vec::new())
            .is_ok_and(|stat| stat.start_ticks == self.start_ticks && stat.is_alive())
    }
}
