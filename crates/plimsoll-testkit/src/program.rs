//! Programs that a test makes and starts.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

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

/// Writes a script to `to`, executable by everybody, through a child process as [`copy_program`] does.
///
/// # Panics
/// Where the script cannot be written.
pub fn write_script(to: impl AsRef<Path>, text: &str) {
    let mut child = command("install")
        .args(["-m", "755", "/dev/stdin"])
        .arg(to.as_ref())
        .stdin(Stdio::piped())
        .spawn()
        .expect("install(1) starts");
    let mut input = child.stdin.take().expect("its input");
    input.write_all(text.as_bytes()).expect("it reads");
    drop(input);
    let written = child.wait().expect("it ends");
    assert!(written.success(), "cannot write {}", to.as_ref().display());
}
