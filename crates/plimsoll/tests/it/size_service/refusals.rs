//! Bad input: refused with the exit code, before anything changes.

use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;

use super::*;

#[test]
fn options_out_of_range_are_usage_errors() {
    let sizing = Sizing::new();
    for arguments in [
        &[][..],
        &["--cgroup", "/a", "--pid", "1"],
        &["--cgroup", "/a", "--psi", "0"],
        &["--cgroup", "/a", "--psi", "100%"],
        &["--cgroup", "/a", "--psi", "-1%"],
        &["--cgroup", "/a", "--psi", "nan"],
        &["--cgroup", "/a", "--psi", "some"],
        &["--cgroup", "/a", "--duration", "0"],
        &["--cgroup", "/a", "--duration", "-5m"],
        &["--cgroup", "/a", "--duration", "inf"],
        &["--cgroup", "/a", "--duration", "5y"],
        &["--cgroup", "/a", "--floor", "50%"],
        &["--cgroup", "/a", "--floor", "much"],
        &["--psi", "1%"],
        &["--pid", "x"],
    ] {
        let output = sizing.run(arguments);
        assert_eq!(code(&output), 1, "{arguments:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty() && sizing.recording().is_none());
    }
}

#[test]
fn cgroups_that_cannot_be_sized_are_refused_unchanged() {
    let Some(group) = Group::new("refused") else {
        return;
    };
    let sizing = Sizing::new();
    let elsewhere = tempfile::tempdir().expect("a folder");
    let link = elsewhere.path().join("link");
    symlink(&group.folder, &link).expect("a link");
    let before = read(&group.cap_file());
    let (link, folder) = (link.to_str().expect("text"), group.folder.to_str().expect("text"));
    let climbing = format!("{folder}/../../../../../tmp");
    let mount = group.hierarchy.mount.to_str().expect("text");
    for path in [
        "/no/such/cgroup",
        "no-such-cgroup",
        elsewhere.path().to_str().expect("text"),
        link,
        &climbing,
        "/",
        mount,
        "",
        // Nobody is in it.
        folder,
    ] {
        let output = sizing.run(&["--cgroup", path]);
        assert_eq!(code(&output), 1, "{path}: {}", stderr(&output));
        assert!(sizing.recording().is_none(), "{path}");
        sizing.assert_no_journal();
    }
    assert_eq!(read(&group.cap_file()), before);
}

/// Under its own cap, the command could not raise it.
#[test]
fn a_sizing_refuses_the_cgroup_that_it_runs_in() {
    let Some(group) = Group::new("own") else { return };
    let sizing = Sizing::new();
    let before = read(&group.cap_file());
    let folder = group.folder.to_str().expect("text");
    let output = sizing
        .wrap(inside(&group.folder, &[PLIMSOLL]), &["--cgroup", folder])
        .output()
        .expect("a shell");
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    let below = group.folder.join("below");
    fs::create_dir(&below).expect("a cgroup");
    let output = sizing
        .wrap(inside(&below, &[PLIMSOLL]), &["--cgroup", folder])
        .output()
        .expect("a shell");
    fs::remove_dir(&below).expect("empty");
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert_eq!(read(&group.cap_file()), before);
    sizing.assert_no_journal();
}

#[test]
fn processes_without_a_cgroup_of_their_own_are_refused() {
    let Some(group) = Group::new("pids") else { return };
    let sizing = Sizing::new();
    let in_root = sleeper(&group.hierarchy.mount);
    let ended = {
        let mut child = plimsoll_testkit::command("true").spawn().expect("true(1)");
        child.wait().expect("it ends");
        child.id()
    };
    for pid in [in_root.pid(), ended, 0, u32::MAX, std::process::id()] {
        // This test's own cgroup is that of the command, or the root.
        let output = sizing.run(&["--pid", &pid.to_string()]);
        assert_eq!(code(&output), 1, "{pid}: {}", stderr(&output));
        assert!(sizing.recording().is_none());
    }
    sizing.assert_no_journal();
}

#[test]
fn another_user_is_told_to_be_root() {
    let Some(group) = Group::new("nobody") else { return };
    let _sleeper = sleeper(&group.folder);
    let place = tempfile::tempdir().expect("a folder");
    let program = place.path().join("plimsoll");
    plimsoll_testkit::copy_program(PLIMSOLL, &program);
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(place.path(), open).expect("permissions");
    let output = plimsoll_testkit::command(&program)
        .args(["size", "--cgroup"])
        .arg(&group.folder)
        .env("PLIMSOLL_STATE_DIR", place.path().join("state"))
        .current_dir("/")
        .uid(65534)
        .gid(65534)
        .output()
        .expect("it starts");
    assert_eq!(code(&output), 3, "{}", stderr(&output));
}
