//! Why nothing could be trimmed.

use std::io;
use std::path::PathBuf;

use super::kept::{Kept, Reason};

/// Why nothing could be trimmed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrimError {
    /// No process has this number.
    #[error("cannot trim pid {pid}: there is no such process; `plimsoll ps` lists those that there are")]
    NoSuchProcess {
        /// The number.
        pid: u32,
    },
    /// Another process has the number by now.
    #[error(
        "cannot trim pid {pid}: the process that was meant has ended, and the number is another's by now"
    )]
    Reused {
        /// The number.
        pid: u32,
    },
    /// The number of a thread.
    #[error(
        "cannot trim pid {pid}: it is a thread; threads share their memory, so trim the process {process}"
    )]
    Thread {
        /// The number.
        pid: u32,
        /// The number of its process.
        process: u32,
    },
    /// A thread of the kernel.
    #[error("cannot trim pid {pid} ({name}): it is a kernel thread, which has no memory of its own to trim")]
    KernelThread {
        /// The number.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// The process ended while it was looked at.
    #[error("pid {pid} ended while it was being trimmed; its memory is free")]
    Ended {
        /// The number.
        pid: u32,
    },
    /// A privilege is missing.
    #[error("cannot trim {what}: {source}; {needed}")]
    Denied {
        /// What was to be trimmed.
        what: String,
        /// What it needs.
        needed: &'static str,
        /// What the system answered.
        source: io::Error,
    },
    /// No process could be trimmed at all.
    #[error("there is no process to trim")]
    Nobody,
    /// There is no such cgroup.
    #[error("there is no memory cgroup {}: {why}", path.display())]
    NoSuchCgroup {
        /// The path that was looked for.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// The kernel has no memory controller that can be used.
    #[error(
        "cannot trim a cgroup: {found}; boot with the memory controller enabled, or trim processes by pid"
    )]
    NoHierarchy {
        /// What was found instead.
        found: String,
    },
    /// The root cgroup.
    #[error(
        "cannot trim {}: it is the root cgroup, which the kernel does not reclaim as one; name a cgroup below it, or \
         use --all", path.display()
    )]
    RootCgroup {
        /// Its folder.
        path: PathBuf,
    },
    /// The kernel has no such call.
    #[error(
        "cannot trim {what}: this kernel has no process_madvise(MADV_PAGEOUT); Linux 5.10 and later have it"
    )]
    Unsupported {
        /// What was to be trimmed.
        what: String,
    },
    /// The system refused something else.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried, as words that follow "cannot".
        action: String,
        /// What the system answered.
        source: io::Error,
    },
}

/// What trimming another process needs.
pub(super) const PROCESS_NEEDS: &str = "it needs CAP_SYS_NICE and ptrace access to the process: run as root, or `setcap cap_sys_nice,cap_sys_ptrace+ep` the program";

impl TrimError {
    /// Sorts an error of the system that process `pid` was asked for.
    pub(super) fn of_process(pid: u32, action: &str, source: io::Error) -> TrimError {
        match source.raw_os_error() {
            Some(libc::ESRCH | libc::ENOENT) => TrimError::Ended { pid },
            Some(libc::EPERM | libc::EACCES) => TrimError::Denied {
                what: format!("pid {pid}"),
                needed: PROCESS_NEEDS,
                source,
            },
            Some(libc::ENOSYS) => TrimError::Unsupported {
                what: format!("pid {pid}"),
            },
            _ => TrimError::System {
                action: format!("{action} pid {pid}"),
                source,
            },
        }
    }

    /// The error as a process among others that could not be trimmed.
    pub(super) fn as_kept(&self) -> Kept {
        let reason = match self {
            TrimError::Denied { .. } => Reason::Denied,
            TrimError::NoSuchProcess { .. } | TrimError::Reused { .. } | TrimError::Ended { .. } => {
                Reason::Ended
            }
            _ => Reason::Refused,
        };
        Kept::processes(reason, 1)
    }
}
