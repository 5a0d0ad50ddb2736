//! CPU time by program, of real processes.

use std::process::Stdio;

use plimsoll_sample::Programs;

/// CPU time of the program `plimsoll-spin` in microseconds, without the process `own` and its descendants.
fn spinning(before: &Programs, own: u32) -> u64 {
    let others = Programs::now().others_since(before, own);
    let found = others.into_iter().find(|(name, _)| name == "plimsoll-spin");
    found.map_or(0, |(_, us)| us)
}

#[test]
fn a_busy_program_is_named_unless_it_is_the_runs_own() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("plimsoll-spin");
    std::os::unix::fs::symlink("/bin/sh", &program).unwrap();
    let before = Programs::now();
    let mut spinner = plimsoll_testkit::command(&program)
        .args(["-c", "while :; do :; done"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    // Bounded by CPU time, which the spinner is bound to spend.
    while spinning(&before, u32::MAX) < 50_000 {
        std::thread::yield_now();
    }
    let own = spinning(&before, std::process::id());
    spinner.kill().unwrap();
    spinner.wait().unwrap();
    assert_eq!(own, 0, "a descendant of the run");
}
