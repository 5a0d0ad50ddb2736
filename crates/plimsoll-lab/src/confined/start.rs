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

/// The command that starts the program in `cgroup`. The program enters the cgroup before it is executed, so that all of its
/// memory is charged to it. Its signal dispositions and mask are those that this process inherited from its caller. The kernel
/// kills the program when the thread that spawned it ends.
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

fn prepare(entrance: &File) -> io::Result<()> {
    let raw = |errno: plimsoll_os::Errno| io::Error::from_raw_os_error(errno.raw());
    plimsoll_os::set_parent_death_signal(libc::SIGKILL).map_err(raw)?;
    // 0 is the process that writes.
    rustix::io::write(entrance, b"0")?;
    plimsoll_os::restore_inherited_signals().map_err(raw)
}
