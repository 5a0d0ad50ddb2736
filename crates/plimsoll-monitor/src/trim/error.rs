//! Errors of a trim.

use std::io;
use std::path::PathBuf;

use super::kept::{Kept, Reason};
use super::refusal::Refusal;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrimError {
    #[error("cannot trim pid {pid}: no such process; `plimsoll ps` lists the processes")]
    NoSuchProcess { pid: u32 },
    #[error(
        "cannot trim pid {pid}: the process has ended, and another process has its pid now; `plimsoll ps` lists the processes"
    )]
    Reused { pid: u32 },
    #[error(
        "cannot trim pid {pid}: it is a thread; threads share their memory, so trim the process {process}"
    )]
    Thread { pid: u32, process: u32 },
    #[error("cannot trim pid {pid} ({name}): it is a kernel thread, which has no memory of its own to trim")]
    KernelThread { pid: u32, name: String },
    #[error("cannot trim pid {pid}: the process ended meanwhile; its memory is free")]
    Ended { pid: u32 },
    #[error("cannot trim {what}: {source}; {refusal}")]
    Denied {
        what: String,
        refusal: Refusal,
        source: io::Error,
    },
    #[error("cannot trim any process: this user may trim none; run as root")]
    Nobody,
    #[error("cannot find memory cgroup {}: {why}; `plimsoll ps --cgroups` lists the cgroups", path.display())]
    NoSuchCgroup { path: PathBuf, why: String },
    /// The kernel has no usable memory controller.
    #[error(
        "cannot trim a cgroup: {found}; boot with the memory controller enabled, or trim processes by pid"
    )]
    NoHierarchy { found: String },
    #[error(
        "cannot trim {}: it is the root cgroup, which the kernel does not reclaim as one; name a cgroup below it, or \
         use --all", path.display()
    )]
    RootCgroup { path: PathBuf },
    #[error(
        "cannot trim {what}: this kernel has no process_madvise(MADV_PAGEOUT); Linux 5.10 and later have it"
    )]
    Unsupported { what: String },
    #[error("cannot {action}: {source}")]
    System {
        /// Verb and object: `list the processes of cgroup /web`.
        action: String,
        source: io::Error,
    },
}

impl TrimError {
    /// Error of a system call on process `pid`.
    pub(super) fn of_process(pid: u32, action: &str, source: io::Error) -> TrimError {
        match source.raw_os_error() {
            Some(libc::ESRCH | libc::ENOENT) => TrimError::Ended { pid },
            Some(libc::EPERM | libc::EACCES) => TrimError::Denied {
                what: format!("pid {pid}"),
                refusal: Refusal::of_process(),
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

    /// The error as an entry of a report on several processes.
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
