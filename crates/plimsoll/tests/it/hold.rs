//! `plimsoll hold`: levels of cgroups of their own, and refusals.

mod endings;
mod pressure;
mod recorded;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use plimsoll_lab::workload::protocol::{Command, Placement};
use plimsoll_lab::workload::{Worker, WorkerOptions};
use plimsoll_model::scenario::{FillClass, ThpMode};
use plimsoll_proc::cgroup::{Hierarchy, MemoryCgroup};
use plimsoll_testkit::capability;
use rustix::process::{Pid, Signal};
use serde_json::Value;

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");
const MIB: u64 = 1 << 20;
/// Longest wait for a state of the machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn hold(arguments: &[&str]) -> Output {
    let mut command = plimsoll_testkit::command(PLIMSOLL);
    command.arg("hold").args(arguments).stdin(Stdio::null());
    command.output().expect("plimsoll starts")
}

/// `hold` as the user nobody, with a copy of the program that this user can execute.
fn hold_as_nobody(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("its owner may");
    let program = folder.path().join("plimsoll");
    plimsoll_testkit::copy_program(PLIMSOLL, &program);
    plimsoll_testkit::command("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&program)
        .arg("hold")
        .args(arguments)
        .stdin(Stdio::null())
        .current_dir(folder.path())
        .output()
        .expect("setpriv starts")
}

fn start(arguments: &[&str]) -> Child {
    let mut command = plimsoll_testkit::command(PLIMSOLL);
    command.arg("hold").args(arguments).stdin(Stdio::null());
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("plimsoll starts")
}

/// Whether the level of a recording has been reached.
fn is_held(recording: &Path) -> bool {
    let events = fs::read_to_string(recording.join("events.jsonl")).unwrap_or_default();
    events.contains("\"phase\":\"hold\"")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("a JSON document")
}

fn root_with_cgroup() -> bool {
    let found = Hierarchy::of_this_process();
    capability(
        "cgroup",
        rustix::process::geteuid().is_root() && found.is_ok(),
        "needs root and a memory cgroup hierarchy",
    )
}

/// A cgroup of a test, which is removed at its end.
struct Group(MemoryCgroup);

impl Group {
    fn new(name: &str, limit: u64) -> Group {
        let hierarchy = Hierarchy::of_this_process().expect("a memory cgroup hierarchy");
        let path = hierarchy.own.join(format!("held-{name}-{}", std::process::id()));
        fs::create_dir(&path).expect("root can make a cgroup");
        let cgroup = MemoryCgroup::new(path, hierarchy.version);
        cgroup.set_limit(limit).expect("a limit");
        Group(cgroup)
    }

    fn path(&self) -> &str {
        self.0.path().to_str().expect("a path of ASCII")
    }

    /// The one process in it.
    fn worker(&self) -> u32 {
        let processes = self.0.processes().expect("a list");
        assert_eq!(processes.len(), 1);
        processes[0]
    }

    fn wait_for(&self, met: impl Fn(u64) -> bool) {
        let start = Instant::now();
        while !met(self.0.usage().expect("a usage")) {
            assert!(start.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until its usage stays in a range for half a second: a level is passed on the way to another, too.
    fn wait(&self, least: u64, most: u64) {
        let start = Instant::now();
        let mut since = None;
        loop {
            let usage = self.0.usage().expect("a usage");
            let stays = since.filter(|_| (least..=most).contains(&usage));
            since = (least..=most)
                .contains(&usage)
                .then(|| stays.unwrap_or_else(Instant::now));
            if since.is_some_and(|since| since.elapsed() > Duration::from_millis(500)) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{usage} is not in {least}..={most}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let start = Instant::now();
        while self.0.path().exists() && fs::remove_dir(self.0.path()).is_err() && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn terminate(child: Child) -> Output {
    end_by(child, Signal::TERM)
}

fn end_by(child: Child, signal: Signal) -> Output {
    rustix::process::kill_process(Pid::from_child(&child), signal).expect("it runs");
    child.wait_with_output().expect("it ends")
}

#[test]
fn a_level_of_a_cgroup_is_kept_while_another_program_comes_and_goes() {
    if !root_with_cgroup() {
        return;
    }
    let group = Group::new("level", 256 * MIB);
    // 156 MiB in use; 2% of the 100 MiB that stay available.
    let (least, most) = (154 * MIB, 158 * MIB);
    let holder = start(&["--available", "100M", "--cgroup", group.path(), "--json"]);
    group.wait(least, most);
    for _ in 0..3 {
        let mut neighbour = Worker::spawn(
            Path::new(PLIMSOLL),
            &WorkerOptions {
                cgroup: Some(group.0.clone()),
                ..WorkerOptions::default()
            },
        )
        .expect("a worker");
        let fill = Command::Fill {
            bytes: 60 * MIB,
            request: 60 * MIB,
            class: FillClass::Constant,
            seed: 1,
            thp: ThpMode::Never,
            placement: Placement::default(),
        };
        neighbour
            .call(&fill, PATIENCE, &AtomicBool::new(false))
            .expect("60 MiB fit");
        group.wait(least, most);
        drop(neighbour);
        group.wait(least, most);
    }
    let output = terminate(holder);
    assert_eq!(output.status.code(), Some(5));
    let document = json(&output);
    assert_eq!(document["ended"], "signal");
    assert_eq!(document["goal"]["available_bytes"], 100 * MIB);
    // It released memory for the neighbour, and took again.
    let held = |key: &str| document["held_bytes"][key].as_u64().expect("bytes");
    assert!(held("most") - held("least") >= 50 * MIB, "{document:#}");
    group.wait(0, 4 * MIB);
}

#[test]
fn a_leak_in_a_cgroup_ends_with_the_holder_as_the_victim() {
    if !root_with_cgroup() || !plimsoll_proc::swaps::active().is_ok_and(|areas| areas.is_empty()) {
        return;
    }
    let group = Group::new("leak", 64 * MIB);
    let output = hold(&["--bytes", "16M", "--leak", "200M/s", "--cgroup", group.path()]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(group.0.oom_kills().expect("a count") >= 1);
}

/// Two holders that looked at the same moment took and released the same bytes.
#[test]
fn two_holders_share_a_level() {
    if !root_with_cgroup() {
        return;
    }
    let group = Group::new("two", 256 * MIB);
    let level = ["--available", "100M", "--cgroup", group.path(), "--json"];
    let holders = [start(&level), start(&level)];
    group.wait(154 * MIB, 158 * MIB);
    for holder in holders {
        let document = json(&terminate(holder));
        assert_eq!(document["ended"], "signal", "{document:#}");
    }
    group.wait(0, 4 * MIB);
}

#[test]
fn amounts_are_held_in_full_and_their_pages_stay() {
    for (bytes, expected) in [("32M", 32 * MIB), ("100K", 100 << 10)] {
        let output = hold(&[
            "--bytes",
            bytes,
            "--duration",
            "1s",
            "--touch-every",
            "1s",
            "--json",
        ]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let document = json(&output);
        assert_eq!(document["ended"], "duration");
        assert_eq!(document["held_bytes"]["most"], expected);
        assert_eq!(document["off_bytes"]["most"], 0);
    }
}

/// The level was reached when the step began that filled the memory: after 0.000001 s in place of 0.9 s.
#[test]
fn a_level_is_reached_at_the_end_of_its_step() {
    // The first step is longer than this duration.
    let output = hold(&["--bytes", "64M", "--duration", "0.001", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let document = json(&output);
    assert!(document["reached_s"].as_f64() > Some(0.001), "{document:#}");
}

/// A level that was never reached ended with exit code 0.
#[test]
fn a_level_that_is_not_reached_has_failed() {
    if !root_with_cgroup() {
        return;
    }
    let group = Group::new("never", 256 * MIB);
    let level = [
        "--available",
        "100M",
        "--ramp",
        "1h",
        "--duration",
        "0.5",
        "--cgroup",
        group.path(),
        "--json",
    ];
    let output = hold(&level);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(json(&output)["reached_s"].is_null());
}

#[test]
fn levels_that_cannot_be_held_are_refused() {
    for (arguments, code) in [
        (&["--used", "100%"][..], 3),
        // Other programs use more already.
        (&["--used", "1M"], 3),
        (&["--available", "1M"], 3),
        (&["--bytes", "100%"], 3),
        (&["--bytes", "1M", "--reserve", "8E"], 3),
        (&["--bytes", "8E"], 1),
        (&["--used", "8E"], 1),
        (&["--used", "101%"], 1),
        (&["--used", "0"], 1),
        (&["--used", "0%"], 1),
        (&["--used", "NaN%"], 1),
        (&["--used", "-1G"], 1),
        (&["--used", "much"], 1),
        (&["--used", "80%", "--bytes", "1G"], 1),
        (&["--used", "80%", "--psi", "some=1%"], 1),
        (&["--used", "80% size"], 1),
        (&["--leak", "10M"], 1),
        (&["--leak", "0/s"], 1),
        (&["--bytes", "1M", "--class", "nonsense"], 1),
        (&["--bytes", "1M", "--duration", "soon"], 1),
        (&["--bytes", "1M", "--duration", "NaN"], 1),
        (&["--bytes", "1M", "--reserve", "5%"], 1),
        (&["--bytes", "1M", "--folder", "/tmp"], 1),
        (&["--bytes", "1M", "--cgroup", "/no/such/cgroup"], 1),
        (&["--bytes", "1M", "--class", "file=/nonexistent"], 2),
        (&["--psi", "10%"], 1),
        (&["--psi", "some=0%"], 1),
        (&["--psi", "some=101%"], 1),
        (&["--psi", "full=NaN%"], 1),
        (&["--psi", "some=5%", "--class", "random"], 1),
        (&[], 1),
    ] {
        let output = hold(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
        assert!(
            output.stdout.is_empty() && !output.stderr.is_empty(),
            "{arguments:?}"
        );
    }
}
