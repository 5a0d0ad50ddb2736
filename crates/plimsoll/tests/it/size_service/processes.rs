//! Processes of a service that move away or leave, and a signal before the first cap.

use rustix::process::{Pid, Signal, kill_process};

use super::*;

fn end(mut process: Kept) -> i32 {
    let status = process.0.wait().expect("a child");
    status.code().expect("no signal ends it")
}

/// A sizing went on without its process, with the cap of a cgroup of others. It looks for the process every 5 seconds.
#[test]
fn a_process_that_leaves_the_cgroup_ends_its_sizing_and_no_other() {
    let Some(group) = Group::new("moves") else { return };
    let Some(elsewhere) = Group::new("elsewhere") else {
        return;
    };
    let before = read(&group.cap_file());
    let moved = sleeper(&group.folder);
    let _stays = sleeper(&group.folder);
    let pid = moved.pid().to_string();
    let by_pid = Sizing::new();
    let first = by_pid.begun(&["--pid", &pid, "--duration", "10m", "--json"]);
    fs::write(elsewhere.folder.join("cgroup.procs"), &pid).expect("root moves it");
    assert_eq!(end(first), 2);
    by_pid.assert_no_journal();
    assert_eq!(read(&group.cap_file()), before);

    // The service forks and its first process ends, as that of a daemon does: the cgroup is sized on.
    let by_cgroup = Sizing::new();
    let folder = group.folder.to_str().expect("text");
    let mut leaves = sleeper(&group.folder);
    let second = by_cgroup.begun(&["--cgroup", folder, "--duration", "6s", "--json"]);
    leaves.kill();
    assert_eq!(end(second), 0);
    by_cgroup.assert_no_journal();
    assert_eq!(read(&group.cap_file()), before);
}

#[test]
fn a_signal_before_the_first_cap_ends_a_sizing_too() {
    let Some(group) = Group::new("early") else { return };
    let before = read(&group.cap_file());
    let _sleeper = sleeper(&group.folder);
    let sizing = Sizing::new();
    let folder = group.folder.to_str().expect("text");
    let process = sizing.begun(&["--cgroup", folder, "--duration", "10m", "--json"]);
    kill_process(Pid::from_child(&process.0), Signal::INT).expect("it lives");
    assert_eq!(end(process), 5);
    sizing.assert_no_journal();
    assert_eq!(sizing.results()["status"], "interrupted");
    assert_eq!(read(&group.cap_file()), before);
}
