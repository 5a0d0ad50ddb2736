//! The identity of a process.

use std::io;

use serde::Serialize;

use super::PidStat;

/// A process. The start distinguishes it from a later process with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ProcessId {
    /// Number in the pid namespace of the caller.
    pub pid: u32,
    /// Start in clock ticks since boot: field 22 of `/proc/PID/stat`.
    pub start_ticks: u64,
}

impl ProcessId {
    /// The living process that has this number now.
    ///
    /// # Errors
    /// `NotFound` when there is none, and also for a zombie; an error of the system when its file cannot be read.
    pub fn of(pid: u32) -> io::Result<ProcessId> {
        let mut buffer = Vec::new();
        let stat = PidStat::read(pid, &mut buffer)?;
        match stat.is_alive() {
            true => Ok(ProcessId {
                pid,
                start_ticks: stat.start_ticks,
            }),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// The process that has this number now, also a zombie.
    ///
    /// # Errors
    /// `NotFound` when there is none; an error of the system when its file cannot be read.
    pub fn of_any(pid: u32) -> io::Result<ProcessId> {
        let mut buffer = Vec::new();
        let start_ticks = PidStat::read(pid, &mut buffer)?.start_ticks;
        Ok(ProcessId { pid, start_ticks })
    }

    /// Whether this process still runs. False for a zombie and for another process with the same number.
    pub fn is_alive(self) -> bool {
        ProcessId::of(self.pid).is_ok_and(|now| now == self)
    }
}
