//! Copies of programs that a test starts.

use std::path::Path;

use crate::command;

/// Copies a program to `to`, executable by everybody.
///
/// A child process writes the copy. If the test program wrote it, a child that another test forks meanwhile could still
/// hold the file open for writing when this test starts it, and the kernel would refuse that ("Text file busy").
///
/// # Panics
/// Where the program cannot be copied.
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let copied = command("install")
        .args(["-m", "755"])
        .arg(from.as_ref())
        .arg(to.as_ref())
        .status()
        .expect("install(1) starts");
    assert!(
        copied.success(),
        "cannot copy {} to {}",
        from.as_ref().display(),
        to.as_ref().display()
    );
}
