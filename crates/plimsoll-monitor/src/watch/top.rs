//! The list of processes and cgroups.

use std::path::PathBuf;
use std::time::Duration;

use crate::processes::{CgroupEntry, Entry};

/// Shortest interval of two lists.
pub(super) const PERIOD: Duration = Duration::from_secs(2);

/// Processes and cgroups at one moment, in no particular order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Top {
    /// Time since the list before; None without one: then there are no rates.
    pub interval: Option<Duration>,
    pub processes: Vec<Entry>,
    pub cgroups: Vec<CgroupEntry>,
    /// The target cgroup: the lists hold its processes and the cgroups below it.
    pub scope: Option<PathBuf>,
}
