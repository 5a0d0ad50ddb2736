//! `plimsoll trim`: refusals, exit codes and output.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Output, Stdio};
use std::sync::atomic::AtomicBool;

use plimsoll_monitor::trim::{TrimError, What};
use plimsoll_testkit::capability;

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");

fn trim(arguments: &[&str]) -> Output {
    plimsoll_testkit::command(PLIMSOLL)
        .arg("trim")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("plimsoll starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn trim_of_all_needs_a_confirmation() {
    for arguments in [&["--all"][..], &["--all", "--json"], &["--all", "--size", "1M"]] {
        let output = trim(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(output.stdout.is_empty());
        let said = said(&output);
        assert!(said.contains("--all") && said.contains("--yes"), "{said}");
    }
}

#[test]
fn wrong_arguments_end_with_1_and_missing_processes_with_2() {
    let own = std::process::id().to_string();
    let has_cgroups = plimsoll_proc::cgroup::Hierarchy::of_this_process().is_ok();
    for (arguments, code, name) in [
        (&["4000000000"][..], 2, "4000000000"),
        (&["no-number"], 1, ""),
        (&[], 1, ""),
        (&["--cgroup", "/"], 1, "--all"),
        (&["--cgroup", "plimsoll-no-such"], 1, "plimsoll-no-such"),
        (&[&own, "--all"], 1, ""),
        (&[&own, "--size", "12 apples"], 1, "apples"),
        (&[&own, "--size", "10%"], 1, "share"),
    ] {
        if arguments.contains(&"--cgroup") && !has_cgroups {
            continue;
        }
        let output = trim(arguments);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(name), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    let never = AtomicBool::new(false);
    let refused = |what: What| plimsoll_monitor::trim::trim(&what, None, &never).expect_err("a refusal");
    let error = refused(What::pid(4_000_000_000));
    assert!(
        matches!(error, TrimError::NoSuchProcess { pid: 4_000_000_000 }),
        "{error}"
    );
    if has_cgroups {
        let error = refused(What::Cgroup("/".into()));
        assert!(matches!(error, TrimError::RootCgroup { .. }), "{error}");
        let error = refused(What::Cgroup("plimsoll-no-such".into()));
        assert!(matches!(error, TrimError::NoSuchCgroup { .. }), "{error}");
    }
}

#[test]
fn a_kernel_thread_has_nothing_to_trim() {
    let status = std::fs::read_to_string("/proc/2/status").unwrap_or_default();
    if !capability(
        "kernel-threads",
        status.contains("kthreadd"),
        "pid 2 is not the kernel's here",
    ) {
        return;
    }
    let output = trim(&["2"]);
    assert_eq!(output.status.code(), Some(2));
    let never = AtomicBool::new(false);
    let error = plimsoll_monitor::trim::trim(&What::pid(2), None, &never).expect_err("a kernel thread");
    assert!(matches!(error, TrimError::KernelThread { pid: 2, .. }), "{error}");
}

/// Another user's process, trimmed as a user without privileges.
#[test]
fn another_user_s_process_needs_privileges_that_are_named() {
    if !capability(
        "root",
        rustix::process::geteuid().is_root(),
        "starts processes of other users",
    ) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).expect("permissions");
    // The build folder may be closed to others.
    let program = folder.path().join("plimsoll");
    plimsoll_testkit::copy_program(PLIMSOLL, &program);
    let mut theirs = plimsoll_testkit::command("sleep")
        .arg("60")
        .uid(65_534)
        .current_dir("/")
        .spawn()
        .expect("sleep");
    let output = plimsoll_testkit::command(&program)
        .args(["trim", &theirs.id().to_string()])
        .uid(65_533)
        .gid(65_533)
        .current_dir("/")
        .output()
        .expect("plimsoll starts");
    theirs.kill().expect("killed");
    theirs.wait().expect("ended");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("CAP_SYS_NICE") && said.contains("root"), "{said}");
}

#[test]
fn a_process_without_much_memory_is_reported_as_json() {
    if !capability("root", rustix::process::geteuid().is_root(), "needs CAP_SYS_NICE") {
        return;
    }
    let mut child = plimsoll_testkit::command("sleep")
        .arg("60")
        .spawn()
        .expect("sleep");
    let output = trim(&[&child.id().to_string(), "--json"]);
    child.kill().expect("killed");
    child.wait().expect("ended");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(document["schema"], 1);
    assert_eq!(document["mechanism"], "process_madvise(MADV_PAGEOUT)");
    assert!(
        document["before"]["resident"]
            .as_u64()
            .is_some_and(|bytes| bytes > 0)
    );
    assert_eq!(document["processes"][0]["pid"], child.id());
}
