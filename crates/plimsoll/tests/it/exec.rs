//! `plimsoll exec`: programs in less RAM than they need, on both engines.

mod budget;
mod children;
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

/// A program in C that prints `ran`.
const PRINTS: &str = "#include <stdio.h>\nint main(void) { puts(\"ran\"); return 0; }\n";

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

/// The program [`PRINTS`], built with these flags by a compiler that is known to be there; `None` where the
/// machine cannot build it so.
fn built(flags: &[&str]) -> Option<PathBuf> {
    built_by("gcc", PRINTS, flags)
}

/// The same for another compiler, and another text of the program.
fn built_by(compiler: &str, text: &str, flags: &[&str]) -> Option<PathBuf> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let folder = scratch(&format!("built-{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
    let (source, program) = (folder.join("program.c"), folder.join("program"));
    fs::write(&source, text).expect("written");
    let compiled = plimsoll_testkit::command(compiler)
        .arg(source)
        .arg("-o")
        .arg(&program)
        .args(flags)
        .output()
        .expect("the compiler starts");
    compiled.status.success().then_some(program)
}

/// The program [`PRINTS`], built by musl's compiler, which is known to be there: dynamic without flags.
fn built_by_musl(flags: &[&str]) -> PathBuf {
    built_by("musl-gcc", PRINTS, flags).expect("musl-gcc builds it")
}

/// Gives a file a capability that takes effect when it is executed, as `setcap cap_net_bind_service+ep` does. Returns whether
/// the caller may do so.
fn give_capability(program: &Path) -> bool {
    const NET_BIND_SERVICE: u32 = 10;
    const REVISION_2: u32 = 0x0200_0000;
    const EFFECTIVE: u32 = 1;
    // `struct vfs_cap_data`: permitted and inheritable capabilities, the lower halves first.
    let words = [REVISION_2 | EFFECTIVE, 1 << NET_BIND_SERVICE, 0, 0, 0];
    let value = words.map(u32::to_le_bytes).concat();
    let given = rustix::fs::setxattr(
        program,
        "security.capability",
        &value,
        rustix::fs::XattrFlags::empty(),
    );
    plimsoll_testkit::capability(
        "file-capabilities",
        given.is_ok(),
        "needs root, and a file system with extended attributes",
    )
}

/// A program of Go that prints `ran`: it is statically linked. None without a compiler.
fn built_by_go() -> Option<PathBuf> {
    if !crate::heap::has("go") {
        return None;
    }
    let folder = scratch("built-by-go");
    let source = "package main\n\nimport \"os\"\n\nfunc main() { os.Stdout.WriteString(\"ran\\n\") }\n";
    fs::write(folder.join("program.go"), source).expect("written");
    let output = plimsoll_testkit::command("go")
        .args(["build", "-o", "program", "program.go"])
        .current_dir(&folder)
        // Its standard library is compiled once. It downloads nothing.
        .env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-cache"))
        .envs([("CGO_ENABLED", "0"), ("GOTOOLCHAIN", "local"), ("GOPROXY", "off")])
        .env("GOFLAGS", "")
        .env("HOME", &folder)
        .output()
        .expect("the compiler starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(folder.join("program"))
}
