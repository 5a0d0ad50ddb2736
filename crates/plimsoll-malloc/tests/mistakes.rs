//! Mistakes with the heap, made by a C program under the library, hardened and not, and under the C library's own heap
//! for comparison: who notices which.
//!
//! `cargo test -p plimsoll-malloc --test mistakes -- --nocapture` prints the table.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SIGABRT: i32 = 6;
const SIGSEGV: i32 = 11;

/// Under what a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Under {
    CLibrary,
    Default,
    Hardened,
}

/// How a mistake ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    /// Stopped, with these words.
    Stopped(String),
    /// A memory fault.
    Fault,
    /// Nobody noticed.
    Unnoticed,
}

impl End {
    fn word(&self) -> &'static str {
        match self {
            End::Stopped(_) => "stopped",
            End::Fault => "fault",
            End::Unnoticed => "-",
        }
    }
}

fn library() -> PathBuf {
    // target/PROFILE/deps/mistakes-HASH
    let test = std::env::current_exe().expect("a test knows its own file");
    let folder = test.parent().expect("a file is in a folder");
    let found = folder.join("libplimsoll_malloc.so");
    if found.exists() {
        found
    } else {
        folder.join("../libplimsoll_malloc.so")
    }
}

fn compile(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mistakes/mistakes.c");
    let program = folder.join("mistakes");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(compiler)
        .args(["-O1", "-w", "-fno-builtin", "-o"])
        .arg(&program)
        .arg(source)
        .status()
        .expect("a C compiler is there");
    assert!(status.success());
    program
}

fn run(program: &Path, under: Under, mistake: &str, size: usize) -> Output {
    let mut command = Command::new(program);
    command.arg(mistake).arg(size.to_string());
    command.env_remove("PLIMSOLL_HEAP_PROFILE");
    if under != Under::CLibrary {
        command.env("LD_PRELOAD", library());
    }
    if under == Under::Hardened {
        command.env("PLIMSOLL_HEAP_PROFILE", "hardened");
    }
    command.output().expect("the program starts")
}

fn end(output: &Output) -> End {
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!words.contains("cannot be preloaded"), "{words}");
    match (output.status.code(), output.status.signal()) {
        (Some(0), _) | (Some(3), _) => End::Unnoticed,
        (_, Some(SIGABRT)) => End::Stopped(words),
        (_, Some(SIGSEGV)) => End::Fault,
        _ => panic!("{:?}: {words}", output.status),
    }
}

/// A mistake, block size, and a word that the message must have; none where the mistake may go unnoticed.
type Case = (&'static str, usize, [Option<&'static str>; 2]);
