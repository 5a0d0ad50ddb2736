//! The test program, started again.

use std::ffi::OsString;
use std::process::Command;

/// Names the emulator that runs this program, with its arguments: the kernel may not start such a program by itself.
const EMULATOR: &str = "PLIMSOLL_TEST_EMULATOR";
/// The task of a process that a test started of itself.
const ROLE: &str = "PLIMSOLL_TEST_ROLE";

/// A command that starts this test program.
///
/// # Panics
/// Where the program has no path.
pub fn this_program() -> Command {
    let program = std::env::current_exe().expect("this program has a path");
    let emulator = std::env::var(EMULATOR).unwrap_or_default();
    let mut words = emulator
        .split_whitespace()
        .map(OsString::from)
        .chain([program.into_os_string()]);
    let mut command = crate::command(words.next().expect("the program at least"));
    command.args(words);
    command
}

/// Whether an emulator that lacks a feature runs this program; the test prints that and is skipped then.
pub fn is_emulated_without(feature: &str) -> bool {
    let emulated = std::env::var_os(EMULATOR).is_some();
    if emulated {
        eprintln!("skipped: the emulator has no {feature}");
    }
    emulated
}

/// The test of that name alone, in a process of its own, which finds `role` by [`role`].
pub fn again(test: &str, role: &str) -> Command {
    let mut command = this_program();
    command
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, role);
    command
}

/// The task of this process; none if no test started it.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}
