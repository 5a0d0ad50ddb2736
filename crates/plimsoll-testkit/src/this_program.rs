//! New processes of the test program.

use std::ffi::OsString;
use std::process::Command;

/// Variable with the emulator of this program and its arguments, as the kernel may be unable to start it directly.
const EMULATOR: &str = "PLIMSOLL_TEST_EMULATOR";
/// Variable with names of variables, separated by commas, that copies of this program keep from it, though
/// [`command`](crate::command) removes them.
const KEPT: &str = "PLIMSOLL_TEST_KEPT";
/// Variable with the role of a process that a test started.
const ROLE: &str = "PLIMSOLL_TEST_ROLE";

/// A command that starts this test program. The copy keeps the variables that `PLIMSOLL_TEST_KEPT` names: the tests may
/// need them to run at all, as under ThreadSanitizer.
///
/// # Panics
/// If the path of this program is unknown.
pub fn this_program() -> Command {
    let program = std::env::current_exe().expect("this program has a path");
    let emulator = std::env::var(EMULATOR).unwrap_or_default();
    let mut words = emulator
        .split_whitespace()
        .map(OsString::from)
        .chain([program.into_os_string()]);
    let mut command = crate::command(words.next().expect("the program at least"));
    command.args(words);
    let kept = std::env::var(KEPT).unwrap_or_default();
    let kept = kept
        .split(',')
        .filter(|name| !name.is_empty())
        .filter_map(|name| Some((name, std::env::var_os(name)?)));
    command.envs(kept);
    command
}

/// Whether an emulator without `feature` runs this program; if so prints that the test skips.
pub fn is_emulated_without(feature: &str) -> bool {
    let emulated = std::env::var_os(EMULATOR).is_some();
    if emulated {
        eprintln!("skipped: the emulator has no {feature}");
    }
    emulated
}

/// A command that runs only `test` in a new process, where [`role`] returns `role`.
pub fn again(test: &str, role: &str) -> Command {
    let mut command = this_program();
    command
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, role);
    command
}

/// The role of this process, if a test started it.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}
