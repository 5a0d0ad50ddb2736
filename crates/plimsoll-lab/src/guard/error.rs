//! Errors of a guard, each with a remedy.

use std::io;

use plimsoll_model::exit::{Exit, Failure};
use plimsoll_os::Errno;
use plimsoll_proc::ControlError;
use plimsoll_proc::cgroup::HierarchyError;

use crate::environment::{CapError, EnvironmentError};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError {
    #[error("cannot guard a cgroup: {0}; mount a cgroup hierarchy with the memory controller")]
    NoHierarchy(#[source] HierarchyError),
    #[error("cannot guard the cgroup: {0}; `plimsoll ps --cgroups` lists the cgroups")]
    NoCgroup(#[source] HierarchyError),
    #[error("cannot guard process {pid}: no such process; `plimsoll ps` lists the processes")]
    NoProcess { pid: u32 },
    #[error("cannot guard on: the cgroup {name} was removed")]
    CgroupRemoved { name: String },
    #[error("cannot guard on: process {pid} and its descendants have ended")]
    TreeEnded { pid: u32 },
    #[error("cannot list the processes: {0}; mount /proc")]
    Processes(#[source] io::Error),
    #[error("cannot guard on: {0}")]
    Unreadable(ControlError),
    #[error("cannot open process {pid}: {errno}")]
    Open { pid: u32, errno: Errno },
    #[error("cannot send a signal to process {pid}: {errno}; run as root, or protect the process")]
    Signal { pid: u32, errno: Errno },
    #[error("cannot page out process {pid}: {errno}; this takes Linux 5.10 and CAP_SYS_NICE")]
    Trim { pid: u32, errno: Errno },
    #[error(
        "cannot guard by the policy throttle: it takes the memory controller in cgroup v2; choose another policy"
    )]
    NoThrottle,
    #[error(
        "cannot guard a process tree by the policy throttle: it throttles whole cgroups; give --cgroup instead of --pid"
    )]
    ThrottleOfTree,
    #[error("processes outside of the guard's PID namespace are in the cgroup {cgroup}")]
    HiddenProcesses { cgroup: String },
    #[error(transparent)]
    Throttle(#[from] CapError),
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
}

impl GuardError {
    /// Whether the same order fails again: this user may not touch the process or cgroup, or another program throttles it too.
    pub(super) fn is_lasting(&self) -> bool {
        match self {
            GuardError::Open { errno, .. } | GuardError::Signal { errno, .. } => *errno == Errno::PERM,
            // A run ends.
            GuardError::Throttle(CapError::Environment(EnvironmentError::Busy { .. })) => false,
            GuardError::Throttle(_) | GuardError::HiddenProcesses { .. } => true,
            _ => false,
        }
    }

    /// How the program ends for it.
    pub fn exit(&self) -> Exit {
        match self {
            GuardError::NoCgroup(_) | GuardError::NoProcess { .. } | GuardError::ThrottleOfTree => {
                Exit::Usage
            }
            GuardError::CgroupRemoved { .. } | GuardError::TreeEnded { .. } => Exit::WorkloadFailed,
            _ => Exit::Missing,
        }
    }
}

impl From<GuardError> for Failure {
    fn from(error: GuardError) -> Failure {
        Failure::new(error.exit(), error)
    }
}
