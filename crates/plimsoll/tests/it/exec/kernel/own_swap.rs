//! Swap that is turned on for a program.

use std::path::PathBuf;
use std::process::Command;

use plimsoll_testkit::capability;

use super::super::{assert_engine, document, exec, ran, text};
use super::{MIB, Running, cgroups};
use crate::exec::PLIMSOLL;

/// The swap areas of the machine.
fn areas() -> Vec<PathBuf> {
    let areas = plimsoll_proc::swaps::active().expect("/proc/swaps");
    areas.into_iter().map(|area| area.path).collect()
}

/// Each with the swap of its own on, in a state folder of its own. The test holds the machine in the usual one.
fn each(test: impl Fn(&dyn Fn() -> Command, &std::path::Path)) {
    let root = rustix::process::geteuid().is_root();
    let there = std::path::Path::new("/sys/class/zram-control/hot_add").exists();
    if !capability("zram", root && there, "needs root and the zram module") {
        return;
    }
    let _alone = crate::machine::alone_as("kernel-engine");
    let state = tempfile::tempdir().expect("a folder");
    let file = format!("swapfile:{},64M", env!("CARGO_TARGET_TMPDIR"));
    for swap in ["zram,64M", &file] {
        let before = areas();
        let start = || {
            let mut command = exec();
            command
                .args(["--quiet", "--ram", "32M", "--swap", swap])
                .env("PLIMSOLL_STATE_DIR", state.path());
            command
        };
        test(&start, state.path());
        assert_eq!(areas(), before, "{swap}");
        assert!(cgroups().is_empty());
    }
}

#[test]
fn swap_of_its_own_is_on_while_the_program_runs() {
    each(|exec, _| {
        let before = areas();
        let script = "cat /proc/swaps; dd if=/dev/zero of=/dev/null bs=60M count=1 iflag=fullblock";
        let output = ran(exec().args(["--", "sh", "-c", script]));
        let shown = text(&output.stdout);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(shown.lines().count(), before.len() + 2, "{shown}");
    });
}

#[test]
fn the_option_swap_is_the_reason_for_the_engine_kernel() {
    each(|exec, _| {
        let output = ran(exec().args(["--json", "--", "true"]));
        let said = text(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert_engine(
            &document(&said, "engine"),
            "kernel",
            Some(32 * MIB),
            "swap-option",
        );
    });
}

#[test]
fn swap_of_a_killed_command_is_cleaned_up() {
    each(|exec, state| {
        let before = areas();
        let mut running = Running::start(exec().args(["--", "sh", "-c", "echo ready; exec sleep 600"]));
        assert_eq!(running.line(), "ready");
        assert_eq!(areas().len(), before.len() + 1);
        running.child.kill().expect("it is killed");
        running.child.wait().expect("its end");
        assert_eq!(areas().len(), before.len() + 1);
        let cleanup = plimsoll_testkit::command(PLIMSOLL)
            .arg("cleanup")
            .env("PLIMSOLL_STATE_DIR", state)
            .output()
            .expect("plimsoll starts");
        assert!(cleanup.status.success(), "{}", text(&cleanup.stdout));
    });
}
