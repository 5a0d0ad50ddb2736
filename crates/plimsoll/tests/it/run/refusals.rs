//! Refusals with a reason and a remedy, before any change.

use std::os::unix::process::CommandExt;

use super::devices::{of_kernel, without_root};
use super::{Ended, PLIMSOLL, Run, failure_codes, has_laboratory, phase_names};

fn refused(arguments: &[&str]) -> Ended {
    let folder = tempfile::tempdir().expect("a folder");
    let output = plimsoll_testkit::command(PLIMSOLL)
        .args(["run", "compression"])
        .args(arguments)
        .arg("--output")
        .arg(folder.path())
        .output()
        .expect("plimsoll starts");
    assert!(
        output.stdout.is_empty(),
        "a refusal prints nothing on standard output"
    );
    let left = std::fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(left, 0, "a refusal leaves no recording");
    Ended::of(output)
}

#[test]
fn sizes_that_make_no_sense_are_usage_errors() {
    for size in ["size=0", "size=-1G", "size=banana"] {
        let ended = refused(&["--set", size]);
        ended.assert_refused(1, &[size.split('=').next_back().expect("a value")]);
    }
}

#[test]
fn a_size_that_is_not_safe_names_the_largest_that_is() {
    for size in ["size=99T", "size=200%"] {
        let ended = refused(&["--set", size]);
        ended.assert_refused(3, &["--set size="]);
        let largest = ended
            .stderr
            .split("--set size=")
            .nth(1)
            .and_then(|rest| rest.split("MiB").next());
        let largest: u64 = largest
            .and_then(|text| text.parse().ok())
            .expect("a number of MiB");
        assert!(largest > 0, "{}", ended.stderr);
        // Half, as other tests use memory meanwhile.
        let set = format!("size={}MiB", largest / 2);
        let passed = plimsoll_testkit::command(PLIMSOLL)
            .args(["run", "compression", "--check", "--set", &set])
            .output()
            .expect("plimsoll starts");
        assert_eq!(Ended::of(passed).code, 0, "{set}");
    }
}

#[test]
fn a_swap_device_smaller_than_the_fill_is_refused_and_a_dry_run_says_so_too() {
    for dry in [&[][..], &["--dry-run"]] {
        let arguments = [
            &[
                "run",
                "compression",
                "--set",
                "size=64M",
                "--set",
                "swap-size=16M",
            ],
            dry,
        ]
        .concat();
        let output = plimsoll_testkit::command(PLIMSOLL)
            .args(arguments)
            .output()
            .expect("plimsoll");
        let ended = Ended::of(output);
        ended.assert_refused(1, &["`swap-size`"]);
    }
}

#[test]
fn nonsense_in_a_scenario_is_shown_where_it_stands() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cycle.toml");
    let text = "[scenario]\nname = \"cycle\"\n[a]\nworkload = \"compression\"\nsize = \"50% limit\"\nlimit = \"200% size\"\n";
    std::fs::write(&file, text).expect("write");
    let output = plimsoll_testkit::command(PLIMSOLL)
        .arg("run")
        .arg(&file)
        .arg("--check")
        .output()
        .expect("plimsoll");
    let ended = Ended::of(output);
    ended.assert_refused(1, &["scenario::cycle", "cycle.toml:6:9"]);
}

#[test]
fn an_unknown_scenario_suggests_the_nearest() {
    let output = plimsoll_testkit::command(PLIMSOLL)
        .args(["run", "compresion"])
        .output()
        .expect("plimsoll");
    let ended = Ended::of(output);
    ended.assert_refused(1, &["compresion", "compression"]);
}

#[test]
fn a_second_run_is_refused_with_the_name_of_the_first() {
    if !has_laboratory() {
        return;
    }
    let first = Run::new(&["--set", "class=random", "--set", "hold=10"]);
    let mut started = first.start();
    started.await_event("phase-end", "fill");
    // A run waited for the machine before it refused settings that no machine can run.
    let smaller = ["--set", "size=64M", "--set", "swap-size=16M"];
    refused(&[&["--wait"], &smaller[..]].concat()).assert_refused(1, &["`swap-size`"]);
    let second = refused(&["--set", "size=32M"]);
    let name = first.name().expect("a recording");
    second.assert_refused(3, &[&name, "--wait"]);
    started.signal(rustix::process::Signal::INT);
    started.finish();
}

/// Runs `plimsoll run` with `arguments` as a user without privileges; none where this one cannot become another.
pub(super) fn unprivileged(arguments: &[&str]) -> Option<Ended> {
    as_nobody(|command, runs| {
        command
            .arg("run")
            .args(arguments)
            .arg("--json")
            .arg("--output")
            .arg(runs);
    })
}

/// Runs the program as a user without privileges, with the arguments that `give` adds for a folder that this user owns;
/// none where this user cannot become another.
pub(super) fn as_nobody(give: impl FnOnce(&mut std::process::Command, &std::path::Path)) -> Option<Ended> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    // The build folder may be closed to others; a copy in a folder of its own is not.
    let folder = tempfile::tempdir().expect("a folder");
    // Whatever the umask.
    std::fs::set_permissions(folder.path(), world_readable()).expect("opened");
    let program = folder.path().join("plimsoll");
    plimsoll_testkit::copy_program(PLIMSOLL, &program);
    let runs = folder.path().join("runs");
    std::fs::create_dir(&runs).expect("a folder");
    std::os::unix::fs::chown(&runs, Some(65534), Some(65534)).expect("chown");
    let mut command = plimsoll_testkit::command(&program);
    give(&mut command, &runs);
    command
        .uid(65534)
        .gid(65534)
        .env("HOME", &runs)
        .current_dir(&runs);
    Some(Ended::of(command.output().expect("plimsoll starts")))
}

#[test]
fn an_unprivileged_user_is_told_what_is_missing_and_gets_the_rest() {
    let Some(ended) = without_root() else { return };
    assert_eq!(ended.code, 3, "{}\n{:#}", ended.stderr, ended.results);
    assert!(
        ended.warning_codes().contains(&"capability-missing"),
        "{:#}",
        ended.results
    );
    assert_eq!(ended.results["status"], "incomplete", "{:#}", ended.results);
    assert!(of_kernel(ended).count() > 0, "{:#}", ended.results);
    for trial in of_kernel(ended) {
        assert_eq!(trial["status"], "failed", "{trial:#}");
        assert!(failure_codes(trial).contains(&"not-run"), "{trial:#}");
        assert_eq!(phase_names(trial), ["fill", "restore", "release"], "{trial:#}");
        assert_eq!(trial["verified"], true);
    }
}

fn world_readable() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o755)
}
