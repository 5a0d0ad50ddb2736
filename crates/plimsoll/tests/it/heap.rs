//! The heap of this project under programs: its library, the preload, and programs on it.

mod helper_thread;
mod launch;
mod process;
mod programs;
mod redis;
mod symbols;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The heaps that programs are tried on, each by the option of `plimsoll heap run` that chooses it.
const HEAPS: [&str; 3] = ["--front-end=lfh", "--front-end=standard", "--hardened"];

/// A user without files.
pub(crate) const NOBODY: u32 = 65_534;

/// The folder that the library is unpacked into for tests.
pub(crate) fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("heap-cache")
}

/// A folder of a test's own, empty.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("heap").join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).expect("the folder of the last test can be removed");
    }
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

/// `plimsoll heap run`, without the command that follows.
pub(crate) fn heap_run() -> Command {
    let mut command = plimsoll_testkit::command(env!("CARGO_BIN_EXE_plimsoll"));
    command
        .args(["heap", "run"])
        .env("XDG_CACHE_HOME", cache())
        .env_remove("LD_PRELOAD");
    command
}

/// The unpacked library.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let output = heap_run()
            .args(["--", "sh", "-c", "printf %s \"$LD_PRELOAD\""])
            .output();
        let output = output.expect("plimsoll starts");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        PathBuf::from(String::from_utf8(output.stdout).expect("the path is text"))
    })
}

/// A source file of these tests.
fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/heap")
        .join(name)
}

/// Whether `program` is in PATH.
pub(crate) fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let available = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    plimsoll_testkit::capability(program, available, "there is no such program in PATH")
}

/// Compiles a source file of these tests with a compiler that is known to be there.
pub(crate) fn compiled(compiler: &str, name: &str, language: &str, flags: &[&str]) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let program = scratch(&format!("built-{number}")).join("program");
    let output = plimsoll_testkit::command(compiler)
        .args(["-O2", "-pthread", "-Wall", "-Wextra", "-Werror", "-x", language])
        .arg(source(name))
        .args(["-x", "none"])
        .arg("-o")
        .arg(&program)
        .args(flags)
        .output()
        .expect("the compiler starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    program
}
