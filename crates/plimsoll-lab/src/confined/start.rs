//! The start of the program inside its cgroup.
#![allow(
    unsafe_code,
    reason = "the cgroup of a started program, set between fork and exec"
)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use plimsoll_proc::cgroup::{MemoryCgroup, PROCESSES};

use super::{ConfinedError, Request};

/// The start of the program in `cgroup`: it moves in before it is executed, so that the cgroup pays for all of its memory. Its
/// signals are those that the caller of this process set. When the thread that starts it ends, the kernel kills the program.
pub(super) fn command(request: &Request<'_>, cgroup: &MemoryCgroup) -> Result<Command, ConfinedError> {
    let path = cgroup.file(PROCESSES);
    let entrance = match OpenOptions::new().write(true).open(&path) {
        Ok(entrance) => entrance,
        Err(source) => return Err(ConfinedError::Cgroup { path, source }),
    };
    let mut command = Command::new(request.path);
    command.arg0(request.name).args(request.arguments);
    let prepare = move || prepare(&entrance);
    // SAFETY: the function makes system calls alone: it allocates nothing, takes no lock, and its errors are made of
    // numbers. The file that it captures stays open until the program is executed, which closes it.
    unsafe { command.pre_exec(prepare) };
    Ok(command)
}

/// Prepares the new process.
fn prepare(entrance: &File) -> io::Result<()> {
    let raw = |errno: plimsoll_os::Errno| io::Error::from_raw_os_error(errno.raw());
    plimsoll_os::set_parent_death_signal(libc::SIGKILL).map_err(raw)?;
    // 0 is the process that writes.
    rustix::io::write(entrance, b"0")?;
    plimsoll_os::restore_inherited_signals().map_err(raw)
}
