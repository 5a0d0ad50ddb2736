//! The document `end` of `exec --json`: the signal that ended the program, and whether the OOM killer sent it.

use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;

use plimsoll_proc::cgroup::{CgroupVersion, Hierarchy};
use plimsoll_testkit::capability;

use super::super::{document, may_mount, ran, text};
use super::Swapped;

#[test]
fn a_program_that_kills_itself_is_not_killed_by_the_oom_killer() {
    let Some(machine) = Swapped::new() else { return };
    let output = ran(machine
        .exec("64M")
        .args(["--json", "--", "sh", "-c", "kill -KILL $$"]));
    let said = text(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{said}");
    let end = document(&said, "end");
    assert_eq!(end["program"]["signal"], libc::SIGKILL, "{end:#}");
    assert!(end["program"]["exit_code"].is_null(), "{end:#}");
    assert_eq!(end["oom_killed"], false, "{end:#}");
    machine.assert_nothing_left();
}

/// The program mounts a socket over the file that counts the OOM kills of its cgroup. No process can open a socket as a
/// file.
#[test]
fn without_a_count_of_oom_kills_oom_killed_is_null() {
    let Some(machine) = Swapped::new() else { return };
    if !may_mount() {
        return;
    }
    let hierarchy = Hierarchy::of_this_process().expect("a hierarchy");
    let counts = match hierarchy.version {
        CgroupVersion::V1 => "memory.oom_control",
        CgroupVersion::V2 => "memory.events",
    };
    let socket = machine.state.path().join("socket");
    let _listener = UnixListener::bind(&socket).expect("a socket");
    let script = format!(
        "name=$(sed -n 's,.*/\\(plimsoll-exec-[^/]*\\)$,\\1,p' /proc/self/cgroup | head -n 1) \
         && group=$(find '{}' -ignore_readdir_race -type d -name \"$name\" -print -quit 2>/dev/null); \
         [ -n \"$group\" ] && mount --bind '{}' \"$group/{counts}\" || exit 99; kill -KILL $$",
        hierarchy.mount.display(),
        socket.display()
    );
    let exec = machine.exec("64M");
    let mut command = plimsoll_testkit::command("unshare");
    command
        .arg("--mount")
        .arg(exec.get_program())
        .args(exec.get_args())
        .args(["--json", "--", "sh", "-c", &script])
        .env("PLIMSOLL_STATE_DIR", machine.state.path());
    let output = ran(&mut command);
    let said = text(&output.stderr);
    let is_set_up = output.status.code() != Some(99);
    if !capability("mount", is_set_up, "cannot mount over a file of a cgroup") {
        return;
    }
    assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{said}");
    let end = document(&said, "end");
    assert_eq!(end["program"]["signal"], libc::SIGKILL, "{end:#}");
    assert!(end["oom_killed"].is_null(), "{end:#}");
    assert!(end["cgroup"]["oom_kills"].is_null(), "{end:#}");
    machine.assert_nothing_left();
}
