//! Identity of a process.

use std::io;

use plimsoll_proc::PidStat;
use serde::Serialize;

/// A process. The start time distinguishes it from a later process with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Identity {
    /// Process id in this process's namespace.
    pub pid: u32,
    /// Start time in clock ticks since boot: field 22 of `/proc/PID/stat`.
    pub start_ticks: u64,
}

impl Identity {
    /// The process that has this pid now.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none, otherwise the error of reading its `/proc` folder.
    pub fn of(pid: u32) -> io::Result<Identity> {
        let mut buffer = Vec::new();
        let stat = PidStat::read(pid, &mut buffer)?;
        Ok(Identity {
            pid,
            start_ticks: stat.start_ticks,
        })
    }

    /// Whether this process still runs. False for a zombie and for another process with the same pid.
    pub fn is_alive(&self) -> bool {
        PidStat::read(self.pid, &mut Vec::new())
            .is_ok_and(|stat| stat.start_ticks == self.start_ticks && stat.is_alive())
    }
}
