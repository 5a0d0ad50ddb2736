//! This test program, started once more. The unit tests use it too.

use std::ffi::OsString;
use std::process::Command;

/// Names the emulator that runs this program, with its arguments: the kernel may not start such a program by itself.
const EMULATOR: &str = "PLIMSOLL_TEST_EMULATOR";

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
