//! The list of processes.

use std::time::Duration;

use crate::processes::Entry;

/// Shortest interval of two lists.
pub(super) const PERIOD: Duration = Duration::from_secs(2);

/// Processes at one moment, in no particular order: those of the target cgroup, otherwise those of the machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Top {
    /// Time since the list before; None without one: then there are no rates.
    pub interval: Option<Duration>,
    pub processes: Vec<Entry>,
}
