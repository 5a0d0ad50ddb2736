//! Options of the monitor.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// Target besides the whole machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TargetChoice {
    #[default]
    None,
    Pid(u32),
    /// A memory cgroup: its folder, or a path below the mount.
    Cgroup(PathBuf),
}

/// A program for the monitor to start and watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Program and arguments. Not empty.
    pub command: Vec<OsString>,
    /// Whether the program inherits standard output and error. If not, because a user interface draws there, its output
    /// goes into the recording's folder, or is discarded without a recording.
    pub passes_through: bool,
}

/// A program, with the command that the caller has prepared to start it.
#[derive(Debug)]
pub struct Prepared {
    pub program: Program,
    /// The command that starts it. The monitor sets its standard streams unless `passes_through`, and nothing else.
    pub command: Command,
    /// The memory cgroup that it enters: a folder. The monitor samples it beside the processes.
    pub cgroup: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// This machine, with a target.
    Live(TargetChoice),
    /// This machine, with a program that the monitor starts. The monitor ends with the program.
    Program(Program),
    /// The recording in a folder, finished or still growing.
    Replay(PathBuf),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    pub source: Source,
    /// Samples per second. Ignored for a recording.
    pub hz: u32,
    /// Folder for a recording from the start. It must not exist.
    pub record: Option<PathBuf>,
    /// Whether a user interface draws. If not, frames arrive once a second, which costs less.
    pub drawn: bool,
}

impl Options {
    /// Ten samples per second, drawn, without a recording.
    pub fn of(source: Source) -> Options {
        Options {
            source,
            hz: 10,
            record: None,
            drawn: true,
        }
    }
}

/// A process that the user can choose as the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub pid: u32,
    /// Sanitized name.
    pub name: String,
    pub resident: u64,
    pub swap: u64,
}
