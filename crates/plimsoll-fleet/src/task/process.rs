//! The process that works on a task.

use plimsoll_proc::{ProcessId, sysctl};

use super::Attempt;
use crate::FleetError;

/// A process and its host, as an attempt names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskProcess {
    /// `uname -n`.
    pub host: String,
    pub boot_id: String,
    pub id: ProcessId,
}

impl TaskProcess {
    /// This process.
    ///
    /// # Errors
    /// The system's, if `/proc` cannot be read.
    pub fn this() -> Result<TaskProcess, FleetError> {
        let id = ProcessId::of(std::process::id())
            .map_err(|source| FleetError::io("read", "/proc/self/stat".as_ref(), source))?;
        let boot_id = sysctl::boot_id().map_err(|error| {
            FleetError::io("read", sysctl::BOOT_ID.as_ref(), std::io::Error::other(error))
        })?;
        Ok(TaskProcess {
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            boot_id,
            id,
        })
    }

    /// Whether an attempt's process is gone for certain: it was on this host, before its last boot or with an id that no process
    /// has. A process of another host is not known to be gone.
    pub fn knows_dead(&self, attempt: &Attempt) -> bool {
        let id = ProcessId {
            pid: attempt.pid,
            start_ticks: attempt.start_ticks,
        };
        attempt.host == self.host && (attempt.boot_id != self.boot_id || !id.is_alive())
    }

    /// The part of a file name that names this process.
    pub(super) fn label(&self) -> String {
        format!("{}.{}.{}", self.host_label(), self.id.pid, self.id.start_ticks)
    }

    /// Whether a label is that of a process of this host that is gone.
    pub(super) fn knows_dead_label(&self, label: &str) -> bool {
        self.process_of(label).is_some_and(|id| !id.is_alive())
    }

    /// Whether a label is that of a process of this host.
    pub(super) fn is_of_host(&self, label: &str) -> bool {
        self.process_of(label).is_some()
    }

    /// The process of this host that a label names.
    fn process_of(&self, label: &str) -> Option<ProcessId> {
        let numbers = label.strip_prefix(&self.host_label())?.strip_prefix('.')?;
        let (pid, ticks) = numbers.split_once('.')?;
        Some(ProcessId {
            pid: pid.parse().ok()?,
            start_ticks: ticks.parse().ok()?,
        })
    }

    /// Its host in a file name.
    fn host_label(&self) -> String {
        let plain = |character: char| match character {
            '-' | '.' => character,
            other if other.is_ascii_alphanumeric() => other,
            _ => '_',
        };
        self.host.chars().take(64).map(plain).collect()
    }
}
