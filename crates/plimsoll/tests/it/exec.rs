//! `plimsoll exec`: programs in less RAM than they need, on both engines.

mod budget;
mod command_line;
mod kernel;
mod pager;
pub(crate) mod programs;
mod reasons;
mod recorded;
mod refusals;
mod terminal;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");

/// `plimsoll exec`, without the options and the command that follow.
fn exec() -> Command {
    let mut command = plimsoll_testkit::command(PLIMSOLL);
    command
        .arg("exec")
        .env("XDG_CACHE_HOME", crate::heap::cache())
        .env_remove("LD_PRELOAD");
    command
}

fn ran(command: &mut Command) -> Output {
    command.output().expect("plimsoll starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The documents of `--json` on standard error, in their order.
fn documents(said: &str) -> Vec<Value> {
    let lines = said.lines().filter(|line| line.starts_with("{\"schema\":1,"));
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// The only document of `event`.
fn document(said: &str, event: &str) -> Value {
    let mut found = documents(said);
    found.retain(|document| document["event"] == event);
    assert_eq!(found.len(), 1, "{event}: {said}");
    found.remove(0)
}

/// Checks the engine of a document, its budget or limit, and the reason for it.
fn assert_engine(document: &Value, engine: &str, ram_bytes: Option<u64>, reason: &str) {
    let found = (&document["engine"], document["ram_bytes"].as_u64());
    assert_eq!(found, (&engine.into(), ram_bytes), "{document:#}");
    assert_eq!(document["reason"], reason, "{document:#}");
}

/// Whether this test can start programs in a mount namespace of their own.
fn may_mount() -> bool {
    let status = plimsoll_testkit::command("unshare")
        .args(["--mount", "true"])
        .stderr(Stdio::null())
        .status();
    plimsoll_testkit::capability(
        "mount",
        status.is_ok_and(|status| status.success()),
        "cannot create a mount namespace",
    )
}

/// A folder of a test's own, empty.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("exec").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("the folder of the last test can be removed");
    }
    fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

/// A program in C that prints `ran`, built with these flags by a compiler that is known to be there; `None` where the
/// machine cannot build it so.
fn built(flags: &[&str]) -> Option<PathBuf> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let folder = scratch(&format!("built-{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
    let (source, program) = (folder.join("program.c"), folder.join("program"));
    fs::write(
        &source,
        "#include <stdio.h>\nint main(void) { puts(\"ran\"); return 0; }\n",
    )
    .expect("written");
    let compiled = plimsoll_testkit::command("gcc")
        .arg(source)
        .arg("-o")
        .arg(&program)
        .args(flags)
        .output()
        .expect("the compiler starts");
    compiled.status.success().then_some(program)
}
