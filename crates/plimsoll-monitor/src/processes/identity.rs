//! Which process a number means.

use std::io;

use serde::Serialize;

use super::folder::Folder;
use super::parse::Stat;

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
        stat(pid).map(|(identity, _)| identity)
    }

    /// Whether that very process still runs. One that has ended and only waits for its parent to notice does not,
    /// and neither does another process that got the number since.
    pub fn is_alive(&self) -> bool {
        matches!(stat(self.pid), Ok((identity, state)) if identity == *self && !matches!(state, 'Z' | 'X'))
    }
}

fn stat(pid: u32) -> io::Result<(Identity, char)> {
    let mut buffer = Vec::new();
    let text = Folder::open(pid)?.read("stat", &mut buffer)?;
    let stat = Stat::parse(text).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("/proc/{pid}/stat is not as it should be"),
        )
    })?;
    let identity = Identity {
        pid,
        start_ticks: stat.start_ticks,
    };
    Ok((identity, stat.state))
}
