//! Starts the watched program and waits for its end.

use std::process::{Command, Stdio};
use std::sync::Arc;

use plimsoll_proc::{PidStatus, ProcessId, Tree};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::error::WatchError;
use super::options::{Prepared, Program};
use super::outcome::Outcome;
use super::shared::{Shared, lock};
use super::state::MarkKind;
use crate::processes;
use plimsoll_model::recording::model::file;
use plimsoll_model::recording::{RecordingError, RecordingFolder};
use plimsoll_model::sanitize::sanitize;

pub(super) struct Running {
    pub(super) identity: ProcessId,
    /// Pid and command line.
    pub(super) title: String,
    /// Peak resident size of this process at the start. The kernel's value for the program begins with it.
    floor: u64,
}

impl Program {
    /// The command line in one line, sanitized.
    pub(super) fn words(&self) -> String {
        let words: Vec<_> = self.command.iter().map(|word| word.to_string_lossy()).collect();
        sanitize(&words.join(" ")).into_owned()
    }

    /// The command that starts the program by its name.
    pub(super) fn prepare(&self) -> Result<Prepared, WatchError> {
        let Some((name, arguments)) = self.command.split_first() else {
            return Err(WatchError::Target {
                what: "a program".to_owned(),
                reason: "no program is named".to_owned(),
            });
        };
        let mut command = Command::new(name);
        command.args(arguments);
        processes::pass_signals_on(&mut command);
        Ok(Prepared {
            program: self.clone(),
            command,
            cgroup: None,
        })
    }
}

impl Prepared {
    /// Starts the program. `folder` is that of the recording, if there is one.
    pub(super) fn start(self, folder: Option<&RecordingFolder>) -> Result<Running, WatchError> {
        let Prepared {
            program, mut command, ..
        } = self;
        if !program.passes_through {
            command.stdin(Stdio::null());
            command.stdout(output(folder, file::OUTPUT)?);
            command.stderr(output(folder, file::ERRORS)?);
        }
        let floor = own_peak();
        let failed = |source| {
            let name = program.command.first();
            let name = name.map_or_else(Default::default, |name| name.to_string_lossy());
            WatchError::Program {
                name: sanitize(&name).into_owned(),
                source,
            }
        };
        // `wait_for` waits for the child instead of this handle, to learn its resource usage.
        let child = command.spawn().map_err(failed)?;
        // A child keeps its pid until its parent has waited for it.
        let identity = ProcessId::of_any(child.id())
            .inspect_err(|_| abandon(child.id()))
            .map_err(failed)?;
        Ok(Running {
            identity,
            title: format!("{} {}", identity.pid, program.words()),
            floor,
        })
    }
}

/// Peak resident size of this process in bytes. The kernel's value for a child begins with it, because the child starts
/// as a copy of this process.
fn own_peak() -> u64 {
    let status = Tree::live().bytes("proc/self/status").unwrap_or_default();
    PidStatus::parse(&status).peak_resident.unwrap_or(0)
}

/// Destination of the program's output.
fn output(folder: Option<&RecordingFolder>, name: &str) -> Result<Stdio, WatchError> {
    let Some(folder) = folder else {
        return Ok(Stdio::null());
    };
    let file = folder.create_file(name).map_err(|source| RecordingError::Io {
        doing: "create",
        path: folder.path().join(name),
        source,
    })?;
    Ok(file.into())
}

/// Waits for the program's end, closes the account and publishes the outcome.
pub(super) fn wait_for(running: Running, shared: &Arc<Shared>) {
    let pid = running.identity.pid;
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // The program stays a zombie until `wait`, so its delays are still readable.
        while let Err(rustix::io::Errno::INTR) =
            waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        {}
    }
    {
        let mut account = lock(&shared.account);
        account.close(shared.now_ns());
        account.read_delays([running.identity]);
    }
    let ended = plimsoll_os::wait(pid).unwrap_or(plimsoll_os::Ended {
        code: None,
        signal: None,
        usage: plimsoll_os::ResourceUsage::default(),
        max_resident: 0,
    });
    let outcome = Outcome {
        max_resident: (ended.max_resident > running.floor).then_some(ended.max_resident),
        title: running.title,
        ended,
    };
    let words = outcome.words();
    if let Some(target) = shared.state().target.as_mut() {
        target.ended = Some(words.clone());
    }
    shared.mark(MarkKind::Target, format!("{} {words}", outcome.title));
    shared.end_program(outcome);
}

/// Kills a program that was just started and cannot be watched. Its pid is still valid, because no thread has waited
/// for it.
pub(super) fn abandon(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // The program may have ended by itself.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
    }
}
