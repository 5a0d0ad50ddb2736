//! The limit of the cgroup, and the choice of the engine.

use std::os::unix::process::ExitStatusExt;

use plimsoll_testkit::capability;

use super::super::recorded::rows;
use super::super::{assert_engine, document, documents, exec, ran, text};
use super::{MIB, Swapped};

/// dd fills a buffer of this many MiB from a file.
fn fill(mib: u64, file: &str) -> [String; 5] {
    [
        "dd".to_owned(),
        format!("if={file}"),
        "of=/dev/null".to_owned(),
        format!("bs={mib}M"),
        "count=1".to_owned(),
    ]
}

#[test]
fn a_program_that_needs_more_than_its_ram_completes_in_the_limit() {
    let Some(machine) = Swapped::new() else { return };
    let mut command = machine.exec("32M");
    command
        .args(["--json", "--"])
        .args(fill(96, "/dev/zero"))
        .arg("iflag=fullblock");
    let output = ran(&mut command);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_engine(&document(&said, "engine"), "kernel", Some(32 * MIB), "requested");
    let end = document(&said, "end");
    assert_eq!(
        (&end["engine"], end["ram_bytes"].as_u64()),
        (&"kernel".into(), Some(32 * MIB)),
        "{end:#}"
    );
    // A kernel without `memory.peak` has none.
    let peak = end["cgroup"]["peak_bytes"].as_u64();
    assert!(
        peak.is_none_or(|peak| (16 * MIB..=32 * MIB).contains(&peak)),
        "{end:#}"
    );
    assert_eq!(end["program"]["exit_code"], 0, "{end:#}");
    assert_eq!(end["oom_killed"], false, "{end:#}");
    // As text, a row for each value of the cgroup and of the program.
    let output = ran(machine.exec("32M").args(["--stats", "--", "true"]));
    let said = text(&output.stderr);
    assert_eq!(rows(&said).len(), 7, "{said}");
    machine.assert_nothing_left();
}

#[test]
fn the_oom_killer_is_named_when_the_swap_is_full_too() {
    let Some(machine) = Swapped::with(32 * MIB) else {
        return;
    };
    let mut command = machine.exec("32M");
    command
        .args(["--json", "--"])
        .args(fill(256, "/dev/urandom"))
        .arg("iflag=fullblock");
    let output = ran(&mut command);
    let said = text(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{said}");
    let end = document(&said, "end");
    assert_eq!(end["oom_killed"], true, "{end:#}");
    assert_eq!(end["program"]["signal"], libc::SIGKILL, "{end:#}");
    // One line for people, which has the remedy.
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('{'))
        .collect();
    assert!(lines.len() == 1 && lines[0].contains("--ram"), "{said}");
    machine.assert_nothing_left();
}

#[test]
fn auto_takes_the_kernel_where_swap_is_on_and_says_so() {
    let Some(machine) = Swapped::new() else { return };
    let with = |options: &[&str]| {
        let mut command = exec();
        command
            .args(["--ram", "64M"])
            .args(options)
            .args(["--", "grep", "-c", "plimsoll-exec-", "/proc/self/cgroup"])
            .env("PLIMSOLL_STATE_DIR", machine.state.path());
        let output = ran(&mut command);
        (text(&output.stdout), text(&output.stderr))
    };
    let (inside, said) = with(&[]);
    assert_eq!((inside.as_str(), said.lines().count()), ("1\n", 1), "{said}");
    assert_eq!(with(&["--quiet"]), ("1\n".to_owned(), String::new()));
    let (inside, said) = with(&["--json"]);
    assert_eq!(inside, "1\n", "{said}");
    let chosen = document(&said, "engine");
    assert_engine(&chosen, "kernel", Some(64 * MIB), "swap-free");
    // An option of the pager decides for it.
    let (inside, said) = with(&["--json", "--codec", "lz4"]);
    assert_ne!(inside, "1\n", "{said}");
    let chosen = document(&said, "engine");
    assert_engine(&chosen, "pager", Some(64 * MIB), "pager-option");
    machine.assert_nothing_left();
}

#[test]
fn without_swap_the_kernel_cannot_do_it_and_auto_takes_the_pager() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let _alone = crate::machine::alone_as("kernel-engine");
    let none = plimsoll_proc::swaps::active().is_ok_and(|areas| areas.is_empty());
    if !capability("no-swap", none, "this machine has swap of its own") {
        return;
    }
    let output = ran(exec().args(["--engine", "kernel", "--ram", "64M", "--json", "--", "true"]));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    let refused = document(&said, "refused");
    assert_engine(&refused, "kernel", None, "no-swap");
    assert_eq!(documents(&said).len(), 1, "{said}");
    assert!(said.contains("--engine pager"), "{said}");
    let said = text(&ran(exec().args(["--ram", "64M", "--json", "--", "true"])).stderr);
    let chosen = document(&said, "engine");
    assert_engine(&chosen, "pager", Some(64 * MIB), "no-swap");
}
