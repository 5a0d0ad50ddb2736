//! `plimsoll` between a caller and a program: the program starts as if its caller had started it.

use std::process::Command;

use crate::heap::cache;

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");

/// Prints the ignored and the blocked signals and the umask of the program itself.
const TELL: [&str; 3] = ["grep", "-E", "^(SigBlk|SigIgn|Umask):"];

/// Callers, as commands that execute the rest of their line.
const CALLERS: [&[&str]; 3] = [
    &["env"],
    // `nohup`, and a background job of a shell without job control.
    &["sh", "-c", "trap '' HUP INT QUIT; umask 077; exec \"$@\"", "sh"],
    // A launcher that blocks signals in its threads and passes its mask on.
    &["env", "--ignore-signal=PIPE,CHLD,TERM", "--block-signal=USR1,INT"],
];

/// The lines that [`TELL`] prints where `caller` starts it by `through`.
fn told(caller: &[&str], through: &[&str]) -> Vec<String> {
    let mut command: Command = plimsoll_testkit::command(caller[0]);
    command
        .args(&caller[1..])
        .args(through)
        .args(TELL)
        .arg("/proc/self/status");
    let output = command
        .env("XDG_CACHE_HOME", cache())
        .output()
        .expect("it starts");
    let text = String::from_utf8(output.stdout).expect("text");
    let lines = text
        .lines()
        .filter(|line| line.starts_with("Sig") || line.starts_with("Umask"));
    let lines: Vec<String> = lines.map(str::to_owned).collect();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(lines.len(), 3, "{caller:?} {through:?}: {text}{errors}");
    lines
}

#[test]
fn programs_keep_the_signals_and_the_umask_of_the_caller() {
    let mut seen = Vec::new();
    for caller in CALLERS {
        let expected = told(caller, &[]);
        let runs = tempfile::tempdir().expect("a temporary folder");
        let report = format!("--report={}", runs.path().join("run").display());
        let exec = [PLIMSOLL, "exec", "--engine", "pager", "--ram", "64M"];
        for through in [
            &[PLIMSOLL, "heap", "run", "--"][..],
            &[PLIMSOLL, "watch", "--headless", "--"],
            &[&exec[..], &["--"]].concat()[..],
            &[&exec[..], &[report.as_str(), "--"]].concat()[..],
        ] {
            assert_eq!(told(caller, through), expected, "{caller:?} {through:?}");
        }
        seen.push(expected);
    }
    seen.dedup();
    assert_eq!(seen.len(), CALLERS.len(), "the callers differ: {seen:?}");
}

/// A library that its own user cannot read, or that others can write to, would not be loaded.
#[test]
fn the_library_is_unpacked_under_any_umask() {
    for umask in ["077", "000", "777"] {
        let place = tempfile::tempdir().expect("a temporary folder");
        let folder = place.path().canonicalize().expect("it is there");
        let script = format!("umask {umask}; exec \"$@\"");
        let output = plimsoll_testkit::command("sh")
            .args(["-c", &script, "sh", PLIMSOLL, "heap", "run", "--"])
            .args(["sh", "-c", "printf %s \"$LD_PRELOAD\""])
            .env("XDG_CACHE_HOME", &folder)
            .output()
            .expect("it starts");
        let path = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{umask}: {errors}");
        assert!(
            std::path::Path::new(&path).starts_with(&folder),
            "{umask}: {path} {errors}"
        );
    }
}
