//! Errors of the monitor's start.

use std::io;

use plimsoll_model::recording::RecordingError;
use plimsoll_proc::cgroup::HierarchyError;
use plimsoll_sample::SampleError;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    #[error(transparent)]
    Sample(#[from] SampleError),
    #[error(transparent)]
    Recording(#[from] RecordingError),
    #[error("cannot start `{name}`: {source}; check that it is installed and in PATH")]
    Program {
        /// First word of the command line.
        name: String,
        source: io::Error,
    },
    #[error("cannot watch process {pid}: no such process; `plimsoll ps` lists the processes")]
    NoSuchProcess { pid: u32 },
    /// The cgroup, or the hierarchy of the memory controller, is not found.
    #[error("cannot watch a cgroup: {source}; name its folder, or its path below the mount")]
    Cgroup { source: HierarchyError },
    #[error("cannot watch {what}: {reason}")]
    Target {
        what: String,
        /// Cause and remedy.
        reason: String,
    },
    #[error("cannot start a thread of the monitor: {0}; check the limit on processes (`ulimit -u`)")]
    Thread(#[source] io::Error),
}
