//! A pressure on the real machine: as measured from outside, and its end.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plimsoll_proc::cgroup::Hierarchy;
use plimsoll_proc::psi;
use plimsoll_testkit::capability;
use rustix::process::Signal;

use super::{Group, MIB, PLIMSOLL, end_by, hold, is_held, json, root_with_cgroup, start, terminate};

/// Time for which the pressure is measured.
const MEASURED: Duration = Duration::from_secs(12);

/// One test of this module at a time: they look for the cgroups of each other.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn can_press() -> bool {
    root_with_cgroup() && capability("psi", Path::new(psi::MEMORY).exists(), "needs a kernel with PSI")
}

/// Microseconds in which some task stalled.
fn stalled_us() -> i64 {
    let text = fs::read(psi::MEMORY).expect("a pressure");
    psi::totals(&text).0.expect("a total")
}

/// A folder on the disk of the build.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

/// The cgroups of holds.
fn cgroups() -> Vec<PathBuf> {
    let own = Hierarchy::of_this_process().expect("a hierarchy").own;
    let entries = fs::read_dir(own).expect("its cgroups").flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("plimsoll-hold-"))
        .map(|entry| entry.path())
        .collect()
}

/// Waits for a state of a hold.
fn wait_until(what: &str, mut met: impl FnMut() -> bool) {
    let start = Instant::now();
    while !met() {
        assert!(start.elapsed() < crate::machine::WAIT, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a hold, which may have to wait for the runs of other tests, and waits for its cgroup.
fn pressing(level: &str, folder: &str, more: &[&str]) -> Child {
    let arguments = ["--psi", level, "--wait", "--folder", folder];
    let mut holder = start(&[&arguments, more].concat());
    wait_until("no cgroup", || {
        if holder.try_wait().expect("its state").is_some() {
            let mut reason = String::new();
            let stderr = holder.stderr.as_mut().expect("a pipe");
            stderr.read_to_string(&mut reason).expect("its errors");
            panic!("the hold ended: {reason}");
        }
        !cgroups().is_empty()
    });
    holder
}

#[test]
fn a_pressure_is_held_within_five_points_as_measured_from_outside() {
    if !can_press() {
        return;
    }
    let _alone = alone();
    let folder = folder();
    let path = folder.path().to_str().expect("ASCII");
    let recordings = tempfile::tempdir().expect("a folder");
    let output = recordings.path().to_str().expect("ASCII");
    let holder = pressing("some=15%", path, &["--json", "--output", output]);
    // The worker first writes 40 MiB to the disk, and then the pressure rises.
    wait_until("the level", || {
        fs::read_dir(recordings.path())
            .expect("the folder")
            .flatten()
            .any(|entry| is_held(&entry.path()))
    });
    let (before, start) = (stalled_us(), Instant::now());
    std::thread::sleep(MEASURED);
    let percent = (stalled_us() - before) as f64 / 1e4 / start.elapsed().as_secs_f64();
    let output = terminate(holder);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let document = json(&output);
    assert!((percent - 15.0).abs() <= 5.0, "{percent}% {document:#}");
    assert_eq!(document["goal"]["some_percent"], 15.0);
    assert!(document["reached_s"].is_number(), "{document:#}");
    let recording = document["recording"].as_str().expect("a path");
    let recording = plimsoll_model::recording::Recording::open(Path::new(recording)).expect("readable");
    let stalled = recording.samples.column("hold_stalled_ppm").expect("a column");
    assert!(stalled.iter().flatten().count() >= 50, "{document:#}");
    assert!(document["stalled_percent"]["mean"].is_number() && document.get("held_bytes").is_none());
    assert!(cgroups().is_empty());
    assert_eq!(fs::read_dir(path).expect("the folder").count(), 0);
}

#[test]
fn cleanup_leaves_nothing_of_a_killed_pressure() {
    if !can_press() {
        return;
    }
    let _alone = alone();
    let folder = folder();
    let path = folder.path().to_str().expect("ASCII");
    let holder = pressing("some=50%", path, &[]);
    assert_eq!(end_by(holder, Signal::KILL).status.code(), None);
    wait_until("cleanup left the cgroup", || {
        let cleanup = plimsoll_testkit::command(PLIMSOLL).arg("cleanup").output();
        cleanup.expect("plimsoll starts").status.success() && cgroups().is_empty()
    });
    assert_eq!(fs::read_dir(path).expect("the folder").count(), 0);
}

#[test]
fn one_pressure_at_a_time_holds_the_machine() {
    if !can_press() {
        return;
    }
    let _alone = alone();
    let folder = folder();
    let path = folder.path().to_str().expect("ASCII");
    let holder = pressing("some=50%", path, &[]);
    let output = hold(&["--psi", "some=90%", "--folder", path]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    // A signal ends the wait as it ends a hold.
    let waiting = start(&["--psi", "some=90%", "--wait", "--folder", path]);
    wait_until("no wait", || {
        // It has taken over the signals.
        let status = fs::read_to_string(format!("/proc/{}/status", waiting.id())).expect("it lives");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = u64::from_str_radix(caught.expect("signals").trim(), 16).expect("a mask");
        caught & (1 << (Signal::TERM.as_raw() - 1)) != 0
    });
    let output = terminate(waiting);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert_eq!(terminate(holder).status.code(), Some(5));
    assert!(cgroups().is_empty());
}

#[test]
fn a_pressure_needs_a_disk_and_its_own_cgroup() {
    if !can_press() {
        return;
    }
    let _alone = alone();
    if Path::new("/dev/shm").is_dir() {
        let output = hold(&["--psi", "some=90%", "--folder", "/dev/shm"]);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
    }
    let output = hold(&["--psi", "some=90%", "--folder", "/nonexistent"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    // A leaf, v1 counts no pressure of it, and a leaf of v2 cannot have children with a limit.
    let group = Group::new("pressed", 256 * MIB);
    let output = hold(&["--psi", "some=90%", "--wait", "--cgroup", group.path()]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(cgroups().is_empty());
}
