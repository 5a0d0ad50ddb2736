//! The changes that a run makes to the system.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A change of the system, with the values to undo it and to recognise it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Change {
    Module {
        name: String,
    },
    /// A zram device is about to be added; `before` are those that were there. Superseded by `Zram` at once.
    ZramAdd {
        before: Vec<u32>,
    },
    /// A zram device was configured: `added` by us, or a free one taken over.
    Zram {
        id: u32,
        added: bool,
        disksize: u64,
        uuid: String,
    },
    /// A free zram device with this algorithm is about to be taken over.
    ZramAlgorithm {
        id: u32,
        before: String,
    },
    /// A swap area with this UUID in its header was turned on.
    SwapOn {
        path: PathBuf,
        uuid: String,
    },
    /// A swap file was made, whose header gets this UUID.
    File {
        path: PathBuf,
        uuid: String,
    },
    /// A control file's value was changed.
    Value {
        path: PathBuf,
        before: String,
        wrote: String,
    },
    /// The cap of a cgroup of other programs was lowered; `wrote` are its content in this change, before and after.
    Cap {
        path: PathBuf,
        before: String,
        wrote: [String; 2],
        /// Inode number of the cgroup's folder; `None` in journals of earlier versions.
        #[serde(default)]
        inode: Option<u64>,
    },
    /// The OOM killer of a cgroup v1 of other programs was turned off; it was on.
    OomKiller {
        path: PathBuf,
        /// Inode number, as in `Cap`.
        #[serde(default)]
        inode: Option<u64>,
    },
    Cgroup {
        path: PathBuf,
        /// Whether all processes in it are the run's.
        #[serde(default)]
        kill: bool,
    },
    /// The memory controller was enabled for the children of a cgroup.
    MemoryController {
        cgroup: PathBuf,
    },
    /// A process was started; the start time tells it from another one with the same number.
    Process {
        pid: u32,
        start_time: u64,
    },
    /// A guard may have stopped this process of another program. `parent` is the number and start time of its parent, if
    /// that ran.
    Stopped {
        pid: u32,
        start_time: u64,
        #[serde(default)]
        parent: Option<(u32, u64)>,
    },
}

impl Change {
    /// Whether the change is still there after a reboot.
    pub(super) fn survives_reboot(&self) -> bool {
        matches!(self, Change::File { .. })
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Change::Module { name } => write!(f, "kernel module {name}"),
            Change::ZramAdd { .. } => write!(f, "zram device that was being added"),
            Change::Zram { id, .. } => write!(f, "zram device /dev/zram{id}"),
            Change::ZramAlgorithm { id, .. } => write!(f, "algorithm of /dev/zram{id}"),
            Change::SwapOn { path, .. } => write!(f, "swap on {}", path.display()),
            Change::File { path, .. } => write!(f, "file {}", path.display()),
            Change::Value { path, before, wrote } => {
                write!(f, "value of {} ({before} -> {wrote})", path.display())
            }
            Change::Cap { path, before, .. } => write!(f, "cap {} (before: {before})", path.display()),
            Change::OomKiller { path, .. } => write!(f, "OOM killer {}", path.display()),
            Change::Cgroup { path, .. } => write!(f, "cgroup {}", path.display()),
            Change::MemoryController { cgroup } => {
                write!(f, "memory controller for the children of {}", cgroup.display())
            }
            Change::Process { pid, .. } => write!(f, "process {pid}"),
            Change::Stopped { pid, .. } => write!(f, "stop of process {pid}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_earlier_versions_have_no_inode_number() {
        let read = |text: &str| serde_json::from_str::<Change>(text).unwrap();
        let cap =
            read(r#"{"kind": "cap", "path": "/a/memory.high", "before": "max", "wrote": ["max", "4096"]}"#);
        assert!(matches!(cap, Change::Cap { inode: None, .. }), "{cap:?}");
        let killer = read(r#"{"kind": "oom-killer", "path": "/a/memory.oom_control"}"#);
        assert!(
            matches!(killer, Change::OomKiller { inode: None, .. }),
            "{killer:?}"
        );
    }
}
