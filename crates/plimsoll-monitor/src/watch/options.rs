//! What to watch, and how.

use std::ffi::OsString;
use std::path::PathBuf;

/// What is watched besides the whole machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TargetChoice {
    /// Nothing.
    #[default]
    None,
    /// A process and its descendants.
    Pid(u32),
    /// A memory cgroup: a path below the mount, or of the folder.
    Cgroup(PathBuf),
}

/// A program that is started to be watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its name or path, and its arguments. Not empty.
    pub command: Vec<OsString>,
    /// Whether it writes to our standard output and error. Otherwise, since a face draws there, its output goes into
    /// the recording's folder, or nowhere when nothing is recorded.
    pub passes_through: bool,
}

/// Where frames come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// This machine, with what is watched besides.
    Live(TargetChoice),
    /// This machine, with a program that is started now; the monitor ends with it.
    Program(Program),
    /// The recording in a folder, which may still be being written.
    Replay(PathBuf),
}

/// What to watch, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where frames come from.
    pub source: Source,
    /// Samples a second. A recording has its own.
    pub hz: u32,
    /// Folder to record into from the start, which must not exist yet.
    pub record: Option<PathBuf>,
    /// Whether a face draws: frames then come as they are taken, otherwise by the second, which costs less.
    pub drawn: bool,
}

impl Options {
    /// To look at `source` ten times a second, drawn, and record nothing.
    pub fn of(source: Source) -> Options {
        Options {
            source,
            hz: 10,
            record: None,
            drawn: true,
        }
    }
}

/// A process to choose as the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Process number.
    pub pid: u32,
    /// Its name, with control characters replaced.
    pub name: String,
    /// Working set in bytes.
    pub resident: u64,
    /// Bytes in swap.
    pub swap: u64,
}
