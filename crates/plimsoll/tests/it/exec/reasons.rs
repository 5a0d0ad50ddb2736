//! Reasons that depend on the machine. The tests run the command in a mount namespace that shows it other swap, cgroups
//! and seccomp filters than the machine has; nothing outside of the namespace changes.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Output;

use plimsoll_proc::capabilities::{SYS_ADMIN, this_process_has};
use plimsoll_testkit::{capability, refuse_userfaultfd, status_of_fork};

use super::budget::Group;
use super::programs::Place;
use super::{PLIMSOLL, assert_engine, document, documents, exec, may_mount, ran, scratch, text};
use crate::heap::NOBODY;

const MIB: u64 = 1 << 20;

/// Exit code of the shell if a command of the set-up fails.
const NOT_SET_UP: i32 = 99;

/// A shell command that makes `/proc/meminfo` show `total` and `free` KiB of swap.
fn with_swap(name: &str, total: u64, free: u64) -> String {
    let shown = fs::read_to_string("/proc/meminfo").expect("procfs");
    let line = |line: &str| match line.split(':').next() {
        Some("SwapTotal") => format!("SwapTotal: {total} kB\n"),
        Some("SwapFree") => format!("SwapFree: {free} kB\n"),
        _ => format!("{line}\n"),
    };
    let changed: String = shown.lines().map(line).collect();
    let path = scratch(&format!("meminfo-{name}")).join("meminfo");
    fs::write(&path, changed).expect("written");
    // User nobody must be able to read it.
    fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("opened");
    format!("mount --bind '{}' /proc/meminfo", path.display())
}

/// Runs the shell commands `setup`, then `exec --ram 64M --json` with these options, in a new mount namespace. With a
/// place, user nobody runs `exec` there. `None` if the machine does not allow the set-up.
fn ran_after(setup: &str, place: Option<&Place>, options: &[&str]) -> Option<Output> {
    if !may_mount() {
        return None;
    }
    let (plimsoll, cache, user) = match place {
        Some(place) => (
            place.plimsoll(),
            place.work(),
            format!("setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups --"),
        ),
        None => (PathBuf::from(PLIMSOLL), crate::heap::cache(), String::new()),
    };
    let script = format!(
        "{{ {setup}; }} || exit {NOT_SET_UP}; exec {user} \"$0\" exec --ram 64M --json \"$@\" -- /bin/true"
    );
    let mut command = plimsoll_testkit::command("unshare");
    command
        .args(["--mount", "sh", "-c", &script])
        .arg(plimsoll)
        .args(options)
        .current_dir("/")
        .env("XDG_CACHE_HOME", cache)
        .env_remove("LD_PRELOAD");
    let output = ran(&mut command);
    let is_set_up = output.status.code() != Some(NOT_SET_UP);
    capability("mount", is_set_up, &format!("cannot set up: {setup}")).then_some(output)
}

/// Checks that `exec` refuses the engine for this reason, ends with exit code 3, and does not start the program.
fn assert_refused(output: &Output, engine: &str, reason: &str) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert_engine(&document(&said, "refused"), engine, None, reason);
    assert_eq!(documents(&said).len(), 1, "{said}");
}

/// Checks that `exec` refuses the engine kernel for this reason and, without `--engine`, chooses the pager for the same
/// reason.
fn assert_no_kernel(setup: &str, place: Option<&Place>, reason: &str) {
    let Some(output) = ran_after(setup, place, &["--engine", "kernel"]) else {
        return;
    };
    assert_refused(&output, "kernel", reason);
    let output = ran_after(setup, place, &[]).expect("it was set up before");
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_engine(&document(&said, "engine"), "pager", Some(64 * MIB), reason);
}

#[test]
fn a_machine_without_free_swap_has_no_engine_kernel() {
    for (reason, total) in [("no-swap", 0), ("swap-full", 1 << 20)] {
        assert_no_kernel(&with_swap(reason, total, 0), None, reason);
    }
}

#[test]
fn a_cgroup_that_may_not_use_swap_has_no_engine_kernel() {
    const LIMIT: u64 = 1 << 30;
    let group = Group::make("forbidden", LIMIT).filter(|group| group.forbid_swap(LIMIT).is_ok());
    let root = rustix::process::geteuid().is_root();
    if !capability(
        "cgroup",
        root && group.is_some(),
        "needs root and a memory cgroup hierarchy",
    ) {
        return;
    }
    let group = group.expect("a cgroup");
    let setup = format!(
        "echo $$ >{} && {}",
        group.entrance().display(),
        with_swap("swap-forbidden", 1 << 20, 1 << 20)
    );
    assert_no_kernel(&setup, None, "swap-forbidden");
}

#[test]
fn a_machine_without_cgroups_has_no_engine_kernel() {
    let setup = format!(
        "{} && awk '/ - cgroup2? /{{print $5}}' /proc/self/mountinfo | sort -r | \
         while read -r point; do umount -l \"$point\"; done; ! grep -q ' - cgroup' /proc/self/mountinfo",
        with_swap("no-cgroup", 1 << 20, 1 << 20)
    );
    assert_no_kernel(&setup, None, "no-cgroup");
}

#[test]
fn a_user_without_rights_has_no_engine_kernel() {
    let place = Place::new();
    let setup = with_swap("no-privilege", 1 << 20, 1 << 20);
    assert_no_kernel(&setup, Some(&place), "no-privilege");
    // The user cannot turn swap on either.
    let Some(output) = ran_after("true", Some(&place), &["--swap", "zram,64M"]) else {
        return;
    };
    assert_refused(&output, "kernel", "no-privilege");
}

#[test]
fn a_missing_folder_for_the_swap_file_is_a_missing_requirement() {
    if !capability("root", this_process_has(SYS_ADMIN), "needs CAP_SYS_ADMIN") {
        return;
    }
    let swap = "swapfile:/no/such/folder,64M";
    let output = ran(exec().args(["--ram", "64M", "--swap", swap, "--json", "--", "/bin/true"]));
    assert_refused(&output, "kernel", "swap-unavailable");
}

/// The pager derives the cause of a refusal from the error and from the seccomp filters of its thread. A filter of this
/// test returns the error. The test hides the filter, so that the kernel seems to return the error.
#[test]
fn each_error_of_userfaultfd_without_a_filter_has_a_reason() {
    const HIDE: &str = "mount --bind /dev/null /proc/$$/task/$$/status";
    for (errno, reason) in [
        (libc::EPERM, "sysctl"),
        (libc::ENOSYS, "no-userfaultfd"),
        (libc::ENOMEM, "pager"),
    ] {
        let status = status_of_fork(|| {
            refuse_userfaultfd(errno, true);
            if let Some(output) = ran_after(HIDE, None, &["--engine", "pager"]) {
                assert_refused(&output, "pager", reason);
            }
        });
        assert_eq!(status, 0, "{reason}");
    }
}
