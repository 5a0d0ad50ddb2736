//! A program of the user in a memory cgroup of its own, whose pages go to swap.
//!
//! This process supervises the program: it waits for it, passes signals on to it, and removes the cgroup. The program has
//! the caller's input, output, working directory, terminal and process group, so that keys of the terminal reach it as
//! without this process. When this process is killed, the kernel kills the program; `cleanup` ends the rest of the cgroup.

mod error;
mod requirements;
mod signals;
mod start;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

use plimsoll_os::{Ended, Pidfd};
use plimsoll_proc::cgroup::{Field, PeakUsage};
use serde::Serialize;

use crate::environment::{Enclosure, EnvironmentError, OwnSwap};

pub use error::ConfinedError;
pub use requirements::{Supply, Unavailable, supply};
pub use signals::{block_except, end_by};

/// The program to run.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub path: &'a Path,
    /// Its first argument.
    pub name: &'a OsStr,
    pub arguments: &'a [OsString],
    /// Limit of its cgroup in bytes.
    pub limit: u64,
    /// Swap to turn on for it.
    pub swap: Option<&'a OwnSwap>,
}

#[derive(Debug)]
pub struct Finished {
    pub ended: Ended,
    pub usage: Usage,
    /// The cgroup, or its journal, could not be removed.
    pub left: Option<EnvironmentError>,
}

/// The memory of the cgroup over its life. A value is absent where the kernel does not count it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Most bytes in RAM.
    #[serde(rename = "peak_bytes")]
    pub peak: Option<u64>,
    /// Anonymous pages that came back from swap.
    pub refaults_anon: Option<u64>,
    /// Pages of files that were reclaimed and read again.
    pub refaults_file: Option<u64>,
    /// Processes that the OOM killer killed.
    pub oom_kills: Option<u64>,
    /// Microseconds in which some task waited for memory (v2).
    pub stalled_us: Option<u64>,
}

/// A cgroup for a program, which its caller starts. Dropping it kills the processes in it and removes it.
#[derive(Debug)]
pub struct Confined {
    enclosure: Enclosure,
    peak: Option<PeakUsage>,
}

impl Confined {
    /// Makes the cgroup. No signal should end this process from here on: see [`block_except`].
    ///
    /// # Errors
    /// [`ConfinedError`]; nothing is left behind.
    pub fn make(request: &Request<'_>) -> Result<Confined, ConfinedError> {
        let words = std::iter::once(request.name).chain(request.arguments.iter().map(OsString::as_os_str));
        let command: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        let enclosure = Enclosure::make(&command, request.limit, request.swap)?;
        let peak = enclosure.cgroup().peak();
        Ok(Confined { enclosure, peak })
    }

    /// The command that starts the program in the cgroup. The kernel kills the program when the thread that spawned it ends.
    ///
    /// # Errors
    /// [`ConfinedError::Cgroup`].
    pub fn command(&self, request: &Request<'_>) -> Result<Command, ConfinedError> {
        start::command(request, self.enclosure.cgroup().group())
    }

    pub fn folder(&self) -> &Path {
        self.enclosure.cgroup().path()
    }

    /// Kills the processes that are left, and removes the cgroup. Returns the memory of the cgroup, and the error if it
    /// could not be removed.
    pub fn end(mut self) -> (Usage, Option<EnvironmentError>) {
        let cgroup = self.enclosure.cgroup();
        let stat = cgroup.stat().unwrap_or_default();
        let usage = Usage {
            peak: self.peak.as_mut().and_then(|peak| peak.bytes().ok()?),
            refaults_anon: stat.get(Field::RefaultsAnon),
            refaults_file: stat.get(Field::RefaultsFile),
            oom_kills: cgroup.oom_kills().ok(),
            stalled_us: cgroup.group().stalled_us(),
        };
        (usage, self.enclosure.remove().err())
    }
}

/// Runs the program and waits for its end. Processes that it leaves behind are killed with the cgroup. To be called on the
/// main thread, before any other thread is started: the signals of this process are blocked from here on.
///
/// # Errors
/// [`ConfinedError`] if the program did not start; nothing is left behind.
pub fn run(request: &Request<'_>) -> Result<Finished, ConfinedError> {
    // Before the cgroup: from there on, no signal ends this process.
    signals::block().map_err(ConfinedError::io("block signals"))?;
    let confined = Confined::make(request)?;
    let child = confined.command(request)?.spawn().map_err(ConfinedError::Start)?;
    let pid = child.id();
    let process = Pidfd::open(pid).map_err(ConfinedError::errno("watch the program"))?;
    signals::supervise(pid, &process).map_err(ConfinedError::io("wait for the program"))?;
    let ended = plimsoll_os::wait(pid).map_err(ConfinedError::errno("wait for the program's end"))?;
    let (usage, left) = confined.end();
    Ok(Finished { ended, usage, left })
}
