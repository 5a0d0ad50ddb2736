//! The start of a program inside a cgroup.
#![allow(
    unsafe_code,
    reason = "the cgroup and the session of a started program, set between fork and exec"
)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use plimsoll_proc::cgroup::{MemoryCgroup, PROCESSES};
use rustix::fs::{Mode, OFlags};

use super::ProgramError;

/// Starts a program in `cgroup`: it moves in before it executes the program, so that the cgroup pays for all of its memory.
/// It has a session of its own, without a terminal, and reads nothing; its output goes to pipes. When the calling *thread*
/// ends, the kernel kills the program.
pub(super) fn start(command: &[String], cgroup: &MemoryCgroup) -> Result<Child, ProgramError> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(ProgramError::Start {
            program: String::new(),
            source: io::ErrorKind::NotFound.into(),
        });
    };
    let path = cgroup.file(PROCESSES);
    let entrance = match OpenOptions::new().write(true).open(&path) {
        Ok(entrance) => entrance,
        Err(source) => return Err(ProgramError::Cgroup { path, source }),
    };
    let mut started = Command::new(program);
    started
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let prepare = move || prepare(&entrance);
    // SAFETY: the function makes system calls alone: it allocates nothing, takes no lock, and its errors are made of
    // numbers. The file that it captures stays open until the program is executed, which closes it.
    unsafe { started.pre_exec(prepare) };
    started.spawn().map_err(|source| ProgramError::Start {
        program: program.clone(),
        source,
    })
}

/// Prepares the new process. It writes kernel files itself, because between fork and exec nothing may allocate, and the
/// writers of `plimsoll-proc` do.
fn prepare(entrance: &File) -> io::Result<()> {
    let raw = |errno: plimsoll_os::Errno| io::Error::from_raw_os_error(errno.raw());
    // The session is that of no terminal: no program of it can wait for a person.
    rustix::process::setsid()?;
    plimsoll_os::set_parent_death_signal(libc::SIGKILL).map_err(raw)?;
    // When the whole machine runs out, the experiment goes first. Refused only where /proc is read-only.
    if let Ok(file) = rustix::fs::open(
        c"/proc/self/oom_score_adj",
        OFlags::WRONLY | OFlags::CLOEXEC,
        Mode::empty(),
    ) {
        let _ = rustix::io::write(&file, b"1000");
    }
    // 0 is the process that writes.
    rustix::io::write(entrance, b"0")?;
    plimsoll_os::restore_inherited_signals().map_err(raw)
}
