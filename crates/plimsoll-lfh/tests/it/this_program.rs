//! This test program, started once more. The unit tests use it too.

use std::ffi::OsString;
use std::process::Command;
use std::string::String;

/// Names the emulator that runs this program, with its arguments: the kernel may not start such a program by itself.
const EMULATOR: &str = "PLIMSOLL_TEST_EMULATOR";
/// The task of a process that a test started of itself.
const ROLE: &str = "PLIMSOLL_LFH_ROLE";

pub(crate) fn this_program() -> Command {
    let program = std::env::current_exe().expect("this program has a path");
    let emulator = std::env::var(EMULATOR).unwrap_or_default();
    let mut words = emulator
        .split_whitespace()
        .map(OsString::from)
        .chain([program.into_os_string()]);
    let mut command = Command::new(words.next().expect("the program at least"));
    command.args(words);
    command
}

/// Whether an emulator that lacks a feature runs this program; the test prints that and is skipped then.
#[allow(dead_code, reason = "of the two that have this file only the unit tests ask")]
pub(crate) fn is_emulated_without(feature: &str) -> bool {
    let emulated = std::env::var_os(EMULATOR).is_some();
    if emulated {
        std::eprintln!("skipped: the emulator has no {feature}");
    }
    emulated
}

/// The test of that name alone, in a process of its own, which finds `role` by [`role`].
pub(crate) fn again(test: &str, role: &str) -> Command {
    let mut command = this_program();
    command
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, role);
    command
}

/// The task of this process; none if no test started it.
pub(crate) fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}
