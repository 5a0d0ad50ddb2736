//! The end of the memory with the command, for each reason; and holds without root.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use plimsoll_proc::{Tree, meminfo};
use plimsoll_testkit::capability;
use rustix::process::Signal;

use super::{Group, MIB, end_by, hold, hold_as_nobody, json, root_with_cgroup, start};

#[test]
fn a_signal_releases_the_memory_also_while_it_is_taken() {
    if !root_with_cgroup() {
        return;
    }
    let group = Group::new("signals", 256 * MIB);
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        let holder = start(&[
            "--bytes",
            "100M",
            "--leak",
            "50M/s",
            "--cgroup",
            group.path(),
            "--json",
        ]);
        group.wait_for(|usage| usage > 100 * MIB);
        let output = end_by(holder, signal);
        assert_eq!(output.status.code(), Some(5), "{signal:?}: {output:?}");
        assert_eq!(json(&output)["ended"], "signal");
        group.wait(0, 4 * MIB);
    }
}

#[test]
fn the_memory_ends_with_the_duration() {
    if !root_with_cgroup() {
        return;
    }
    let group = Group::new("duration", 256 * MIB);
    let output = hold(&["--bytes", "64M", "--duration", "0.5", "--cgroup", group.path()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    group.wait(0, 4 * MIB);
}

#[test]
fn the_memory_ends_with_a_killed_command() {
    if !root_with_cgroup() {
        return;
    }
    let group = Group::new("killed", 256 * MIB);
    let holder = start(&["--bytes", "64M", "--cgroup", group.path()]);
    group.wait(64 * MIB, 80 * MIB);
    assert_eq!(end_by(holder, Signal::KILL).status.code(), None);
    // Its worker had the memory.
    group.wait(0, 4 * MIB);
}

#[test]
fn the_worker_is_the_first_victim_and_its_end_ends_the_command() {
    if !root_with_cgroup() {
        return;
    }
    let group = Group::new("victim", 256 * MIB);
    let holder = start(&["--bytes", "64M", "--cgroup", group.path()]);
    group.wait(64 * MIB, 80 * MIB);
    let worker = group.worker();
    let adjustment = fs::read_to_string(format!("/proc/{worker}/oom_score_adj")).expect("it lives");
    assert_eq!(adjustment.trim(), "1000");
    let pid = rustix::process::Pid::from_raw(worker as i32).expect("a process");
    rustix::process::kill_process(pid, Signal::KILL).expect("it lives");
    let output = holder.wait_with_output().expect("it ends");
    // At the next step; an amount that is held needs none.
    assert_eq!(output.status.code(), Some(5), "{output:?}");
}

/// The OOM killer ends the worker before it holds anything.
#[test]
fn a_cgroup_below_the_needs_of_the_worker_ends_the_hold() {
    if !root_with_cgroup() {
        return;
    }
    let page = 4 << 10;
    let group = Group::new("tiny", page);
    group.0.forbid_swap(page).expect("a limit");
    let output = hold(&["--bytes", "4K", "--cgroup", group.path()]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(group.0.oom_kills().expect("a count") >= 1);
    assert!(group.0.processes().expect("a list").is_empty());
}

/// A leak stopped at the reserve and stayed there.
#[test]
fn a_leak_releases_all_at_the_reserve() {
    let available = || {
        let text = Tree::live().bytes(meminfo::PATH).expect("/proc/meminfo");
        meminfo::bytes(&text, "MemAvailable").expect("MemAvailable")
    };
    // Other programs may take the rest before the first look.
    let released = (0..20).find_map(|_| {
        let reserve = (available() - 200 * MIB).to_string();
        let output = hold(&[
            "--bytes",
            "1M",
            "--leak",
            "200M/s",
            "--reserve",
            &reserve,
            "--json",
        ]);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        (!output.stdout.is_empty()).then(|| json(&output))
    });
    let document = released.expect("one of 20 began");
    assert_eq!(document["ended"], "reserve", "{document:#}");
}

#[test]
fn a_cgroup_that_goes_away_ends_the_hold() {
    if !root_with_cgroup() {
        return;
    }
    let group = Group::new("gone", 256 * MIB);
    let holder = start(&["--available", "150M", "--cgroup", group.path()]);
    group.wait(100 * MIB, 120 * MIB);
    let parent = group.0.path().parent().expect("a parent");
    let worker = group.worker();
    fs::write(parent.join("cgroup.procs"), worker.to_string()).expect("root moves it");
    let removed = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        fs::remove_dir(group.0.path()).is_ok()
    });
    assert!(removed);
    let output = holder.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(!output.stderr.is_empty());
    assert!(
        !fs::exists(format!("/proc/{worker}")).expect("/proc"),
        "the worker lives"
    );
}

#[test]
fn levels_of_the_machine_need_no_privileges() {
    let root = rustix::process::geteuid().is_root();
    if !capability("setpriv", root, "needs root to become another user") {
        return;
    }
    let output = hold_as_nobody(&["--bytes", "16M", "--duration", "0.5", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(json(&output)["held_bytes"]["most"], 16 * MIB);
    let output = hold_as_nobody(&["--psi", "some=90%"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    if !root_with_cgroup() {
        return;
    }
    let group = Group::new("nobody", 256 * MIB);
    // A user who may not look into a cgroup was told that it is none.
    for mode in [0o755, 0o700] {
        fs::set_permissions(group.path(), fs::Permissions::from_mode(mode)).expect("it is root's");
        let output = hold_as_nobody(&["--bytes", "16M", "--cgroup", group.path()]);
        assert_eq!(output.status.code(), Some(3), "{mode:o}: {output:?}");
        assert!(group.0.processes().expect("a list").is_empty());
    }
}
