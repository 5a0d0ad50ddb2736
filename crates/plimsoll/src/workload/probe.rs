//! Probes of how a machine feels: a heartbeat, the start of a program, a small working set.

use serde::{Deserialize, Serialize};

/// What is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// What is probed.
    pub kind: ProbeKind,
    /// Seconds between two probes.
    pub period: f64,
}

/// What a probe does each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeKind {
    /// Wakes up, and notes how late.
    Heartbeat,
    /// Starts a program as a shell does (fork, exec, wait), and notes how long that takes.
    Launch,
    /// Reads every page of a working set of a few megabytes, and notes how long that takes.
    SmallSet,
}
