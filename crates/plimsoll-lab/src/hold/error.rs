//! Errors of a hold, each with a remedy.

use std::io;
use std::path::PathBuf;

use crate::environment::{EnvironmentError, Missing};
use crate::workload::WorkerError;
use crate::workload::protocol::Reply;
use plimsoll_model::exit::{Exit, Failure};
use plimsoll_model::quantity::bytes;
use plimsoll_proc::ControlError;

/// Why a level cannot be held.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HoldError {
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Cgroup(#[from] ControlError),
    #[error("cannot hold a share of a cgroup without a limit: {}; set its limit or give the level in bytes", path.display())]
    NoLimit { path: PathBuf },
    /// The level would leave others less than the reserve.
    #[error(
        "cannot hold this level: it leaves {} available, and {} stay reserved for the rest of the machine; leave at least \
         that much",
        bytes(*left as f64), bytes(*reserve as f64)
    )]
    Reserve { left: u64, reserve: u64 },
    /// Other programs use more than the level.
    #[error(
        "cannot hold this level: only {} of the {} that it leaves are available, as other programs use the rest; give a \
         higher level, or an amount to hold in addition (`--bytes`)",
        bytes(*available as f64), bytes(*goal as f64)
    )]
    AlreadyUsed { available: u64, goal: u64 },
    /// A cgroup that this process is in has less room than the level needs.
    #[error(
        "cannot hold this level: it takes {} now, and the limit of the cgroup {} leaves {}; raise that limit, or give a lower \
         level", bytes(*needed as f64), path.display(), bytes(*room as f64)
    )]
    Confined { needed: u64, room: u64, path: PathBuf },
    /// The level is outside of the scope.
    #[error("cannot hold {} of {}: it is more than there is; give a lower level", bytes(*asked as f64), bytes(*total as f64))]
    TooMuch { asked: u64, total: u64 },
    /// Other programs stall more than the level.
    #[error(
        "cannot hold a pressure of {goal:.1}%: without a load of `hold` it is {now:.1}%; give a higher level, or end the \
         programs that wait for memory"
    )]
    AlreadyStalled { now: f64, goal: f64 },
    /// The scope has no pressure file.
    #[error("cannot read the memory pressure in {}: {source}; {remedy}", path.display())]
    NoPressure {
        path: PathBuf,
        source: io::Error,
        remedy: &'static str,
    },
    /// A cgroup of v1 has no pressure of its own.
    #[error(
        "cannot hold the pressure of the cgroup {}: cgroup v1 does not count it; hold that of the machine (without \
         `--cgroup`), or boot with cgroup v2", path.display()
    )]
    PressureOnV1 { path: PathBuf },
    /// A cgroup of v2 whose children cannot have a limit.
    #[error(
        "cannot make a cgroup with a limit in {}: its children do not have the memory controller; give a cgroup without \
         processes of its own, with `+memory` in cgroup.subtree_control", path.display()
    )]
    NoChildren { path: PathBuf },
    /// No cgroup can be made here.
    #[error("cannot make a cgroup for the pressure: {0}")]
    Missing(Missing),
    /// The folder for the file of a pressure is not on a disk.
    #[error("cannot hold a pressure with a file in {}: {defect}; name a folder on a disk with `--folder`", folder.display())]
    Folder { folder: PathBuf, defect: String },
    /// The cgroup for the stalls cannot be made, or not be removed.
    #[error("cannot make or remove the cgroup for the pressure: {0}")]
    Environment(#[source] EnvironmentError),
    #[error("cannot enter a cgroup by {}: {source}; run as root, or in a cgroup that is delegated to this user", path.display())]
    Enter { path: PathBuf, source: io::Error },
    /// The OOM killer, or a person, ended the worker.
    #[error("cannot hold {} any longer: {source}", bytes(*held as f64))]
    Killed { held: u64, source: WorkerError },
    #[error(transparent)]
    Worker(WorkerError),
    #[error("cannot use the worker's reply: it is {0:?}; report this defect")]
    Reply(Reply),
    #[error("cannot find the path of this program: {0}; mount /proc")]
    Executable(#[source] io::Error),
    #[error(
        "cannot start the thread that holds the level: {0}; raise the limit of processes (ulimit -u, pids.max)"
    )]
    Thread(#[source] io::Error),
    #[error("cannot hold the level: its thread panicked; report this defect")]
    Panicked,
    #[error("cannot record the hold: {source:#}")]
    Recording { exit: Exit, source: anyhow::Error },
}

impl From<Failure> for HoldError {
    fn from(failure: Failure) -> HoldError {
        HoldError::Recording {
            exit: failure.exit,
            source: failure.error,
        }
    }
}
