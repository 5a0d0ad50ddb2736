//! Signal dispositions and mask of the caller, for a program that this process starts.
#![allow(
    unsafe_code,
    reason = "the signal state of a started program, set between fork and exec"
)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Starts the program of `command` with the ignored and blocked signals that this program inherited from its caller.
pub fn pass_signals_on(command: &mut Command) {
    let restore = || {
        plimsoll_os::restore_inherited_signals().map_err(|errno| io::Error::from_raw_os_error(errno.raw()))
    };
    // SAFETY: the function is async-signal-safe, and an error made of an errno allocates nothing.
    unsafe { command.pre_exec(restore) };
}
