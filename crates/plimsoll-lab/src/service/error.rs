//! Errors of a sizing before it begins, each with a remedy.

use std::io;

use plimsoll_model::exit::{Exit, Failure};
use plimsoll_proc::cgroup::HierarchyError;

use crate::environment::{CapError, EnvironmentError};

/// Why a service cannot be sized.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceSizeError {
    #[error("cannot size a service: {0}; mount a cgroup hierarchy with the memory controller")]
    NoHierarchy(#[source] HierarchyError),
    #[error("cannot size the cgroup: {0}; `plimsoll ps --cgroups` lists the cgroups")]
    NoCgroup(#[source] HierarchyError),
    #[error("cannot size process {pid}: no such process; `plimsoll ps` lists the processes")]
    NoProcess { pid: u32 },
    #[error("cannot size process {pid}: cannot read its cgroup: {source}; run as root")]
    Process { pid: u32, source: io::Error },
    /// The root of the hierarchy, or of the part that this container sees.
    #[error(
        "cannot size {what}: it is in the root cgroup, which has no cap; start the service in a cgroup of its own, for \
         example with `systemd-run --scope`"
    )]
    Root { what: String },
    #[error(
        "cannot size the cgroup {cgroup}: this command runs in it; start the command in another cgroup, for example with \
         `systemd-run --scope`"
    )]
    OwnSession { cgroup: String },
    #[error("cannot size the cgroup {cgroup}: no process is in it; start the service first")]
    Empty { cgroup: String },
    #[error(transparent)]
    Cap(#[from] CapError),
}

impl ServiceSizeError {
    /// How the program ends for it.
    pub fn exit(&self) -> Exit {
        match self {
            ServiceSizeError::NoHierarchy(_) | ServiceSizeError::Process { .. } => Exit::Missing,
            ServiceSizeError::Cap(error) => exit_of(error),
            _ => Exit::Usage,
        }
    }
}

/// How the program ends for an error of the cap.
pub(super) fn exit_of(error: &CapError) -> Exit {
    match error {
        CapError::Changed { .. } | CapError::Gone { .. } => Exit::WorkloadFailed,
        CapError::Environment(EnvironmentError::Interrupted) => Exit::Killed,
        _ => Exit::Missing,
    }
}

impl From<ServiceSizeError> for Failure {
    fn from(error: ServiceSizeError) -> Failure {
        Failure::new(error.exit(), error)
    }
}
