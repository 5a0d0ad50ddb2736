//! The limit of the cgroup, and the choice of the engine.

use std::os::unix::process::ExitStatusExt;

use plimsoll_testkit::capability;

use super::super::{exec, ran, text};
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
        .arg("--stats")
        .arg("--")
        .args(fill(96, "/dev/zero"))
        .arg("iflag=fullblock");
    let output = ran(&mut command);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("engine kernel") && said.contains("limit 32.0 MiB"),
        "{said}"
    );
    assert!(said.contains("most RAM in use"), "{said}");
    machine.assert_nothing_left();
}

#[test]
fn the_oom_killer_is_named_when_the_swap_is_full_too() {
    let Some(machine) = Swapped::with(32 * MIB) else {
        return;
    };
    let mut command = machine.exec("32M");
    command
        .arg("--")
        .args(fill(256, "/dev/urandom"))
        .arg("iflag=fullblock");
    let output = ran(&mut command);
    let said = text(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{said}");
    assert!(said.contains("OOM killer") && said.contains("--ram"), "{said}");
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
    assert_eq!(inside, "1\n", "{said}");
    assert!(
        said.contains("engine kernel, 64.0 MiB") && said.contains("swap"),
        "{said}"
    );
    assert_eq!(with(&["--quiet"]), ("1\n".to_owned(), String::new()));
    // An option of the pager decides for it.
    let (inside, said) = with(&["--codec", "lz4"]);
    assert_ne!(inside, "1\n", "{said}");
    assert!(said.contains("engine pager"), "{said}");
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
    let output = ran(exec().args(["--engine", "kernel", "--ram", "64M", "--", "true"]));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("no swap is on") && said.contains("--engine pager"),
        "{said}"
    );
    let said = text(&ran(exec().args(["--ram", "64M", "--", "true"])).stderr);
    assert!(said.contains("engine pager, 64.0 MiB: no swap is on"), "{said}");
}
