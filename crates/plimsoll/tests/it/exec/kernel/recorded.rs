//! `--report` on the engine kernel: the values of the cgroup, and that nothing is left.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;

use super::super::recorded::{RANDOM, amount, assert_opens, largest, not_forwarded, rows};
use super::super::{ran, text};
use super::{Running, Swapped};
use crate::heap::has;

const MIB: f64 = super::MIB as f64;

/// `--report` into this folder.
fn report(folder: &Path) -> OsString {
    let mut option = OsString::from("--report=");
    option.push(folder);
    option
}

#[test]
fn the_summary_and_the_recording_have_the_memory_of_the_cgroup() {
    let Some(machine) = Swapped::new() else { return };
    if !has("python3") {
        return;
    }
    let folder = machine.state.path().join("recording");
    let output = ran(machine
        .exec("24M")
        .arg(report(&folder))
        .args(["--", "/usr/bin/python3", "-c", RANDOM]));
    let said = text(&output.stderr);
    assert_eq!(
        (output.status.code(), text(&output.stdout).as_str()),
        (Some(7), "True\n"),
        "{said}"
    );
    let rows = rows(&said);
    let mib = |name: &str| amount(&rows[name]) / MIB;
    assert!((64.0..96.0).contains(&mib("peak wanted")), "{said}");
    assert!((20.0..=24.0).contains(&mib("most RAM in use")), "{said}");
    assert!(amount(&rows["pages from swap"]) >= 40.0 * MIB / 4096.0, "{said}");
    assert!(mib("peak RSS of all processes") >= 16.0, "{said}");
    assert!(amount(&rows["run time"]) >= 2.5, "{said}");
    // Measured or not, nothing is made up.
    let (stall, slowdown) = (&rows["time in faults"], &rows["estimated slowdown"]);
    assert_eq!(stall.starts_with("unknown: "), slowdown == "unknown", "{said}");
    assert_opens(&folder);
    let usage = largest(&folder, "cgroup_usage").expect("the cgroup is sampled");
    assert!((16.0 * MIB..=24.0 * MIB).contains(&usage), "{usage}");
    machine.assert_nothing_left();
}

#[test]
fn the_end_of_the_program_passes_through_and_nothing_is_left() {
    let Some(machine) = Swapped::new() else { return };
    for (name, program, code, signal) in [
        ("code", &["sh", "-c", "exit 6"][..], Some(6), None),
        ("signal", &["sh", "-c", "kill -KILL $$"], None, Some(9)),
        // The process that it leaves behind ends with it.
        ("child", &["sh", "-c", "sleep 600 & exit 5"], Some(5), None),
    ] {
        let folder = machine.state.path().join(name);
        let output = ran(machine
            .exec("64M")
            .arg(report(&folder))
            .arg("--")
            .args(program)
            .stdin(Stdio::null()));
        let found = (output.status.code(), output.status.signal());
        assert_eq!(found, (code, signal), "{name}: {}", text(&output.stderr));
        assert_opens(&folder);
        machine.assert_nothing_left();
    }
    let folder = machine.state.path().join("none");
    let output = ran(machine
        .exec("64M")
        .arg(report(&folder))
        .args(["--", "/etc/passwd"]));
    assert_eq!(output.status.code(), Some(126), "{}", text(&output.stderr));
    assert!(!folder.exists());
    machine.assert_nothing_left();
}

/// Signals that the monitor does not forward ended the command, and the cgroup and the swap stayed.
#[test]
fn other_signals_do_not_end_the_command() {
    let Some(machine) = Swapped::new() else { return };
    let folder = machine.state.path().join("recording");
    let mut command = machine.exec("64M");
    command
        .arg(report(&folder))
        .args(["--", "sh", "-c", "echo ready; read line; exit 5"])
        .stdin(Stdio::piped());
    let mut running = Running::start(&mut command);
    assert_eq!(running.line(), "ready");
    for signal in not_forwarded() {
        running.signal(signal);
    }
    drop(running.child.stdin.take());
    let ended = running.child.wait().expect("its end");
    assert_eq!(ended.code(), Some(5), "{ended}");
    assert_opens(&folder);
    machine.assert_nothing_left();
}

/// The monitor blocks signals, and the program does not.
#[test]
fn the_program_has_the_signal_mask_of_the_caller() {
    let Some(machine) = Swapped::new() else { return };
    let shown = |report: Option<OsString>| {
        let exec = machine.exec("64M");
        let mut command = plimsoll_testkit::command("env");
        command
            .args(["--ignore-signal=TERM", "--block-signal=USR1,INT"])
            .arg(exec.get_program())
            .args(exec.get_args())
            .args(report)
            .args(["--", "grep", "-E", "^Sig(Ign|Blk):", "/proc/self/status"])
            .env("PLIMSOLL_STATE_DIR", machine.state.path());
        text(&ran(&mut command).stdout)
    };
    let expected = shown(None);
    assert!(expected.contains("SigBlk:\t0000000000000202\n"), "{expected}");
    assert_eq!(
        shown(Some(report(&machine.state.path().join("recording")))),
        expected
    );
    machine.assert_nothing_left();
}
