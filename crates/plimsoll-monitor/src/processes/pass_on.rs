//! The caller's signal dispositions and mask, for a program that the caller starts through this one.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has the program of `command` start with the ignored and blocked signals that this program was started with, as if
/// its caller had started it.
pub fn pass_signals_on(command: &mut Command) {
    let restore = || {
        plimsoll_os::restore_inherited_signals().map_err(|errno| io::Error::from_raw_os_error(errno.raw()))
    };
    // SAFETY: the function is async-signal-safe, and making an error of a number allocates nothing.
    unsafe { command.pre_exec(restore) };
}
