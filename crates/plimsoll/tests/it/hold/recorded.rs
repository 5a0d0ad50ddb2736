//! Holds with a recording: its content, its reports, its early ends; and holds without one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use plimsoll_model::recording::Recording;
use plimsoll_model::recording::hold::{APPROACH, HOLD, HoldEnd};
use plimsoll_model::recording::model::{Event, EventKind, Results, RunStatus};
use plimsoll_testkit::capability;
use rustix::process::Signal;
use tempfile::TempDir;

use super::{
    Group, MIB, PATIENCE, PLIMSOLL, end_by, hold, hold_as_nobody, is_held, json, root_with_cgroup, start,
};
use crate::run::bad_luck::SmallDisk;

/// Time between two samples.
const TICK_NS: u64 = 100_000_000;

/// A folder for recordings.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self) -> &str {
        self.0.path().to_str().expect("ASCII")
    }

    fn recordings(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.0.path()).expect("the folder").flatten();
        entries.map(|entry| entry.path()).collect()
    }

    fn recording(&self) -> PathBuf {
        let mut all = self.recordings();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    fn results(&self) -> Results {
        let results = Recording::read_results(&self.recording()).expect("readable");
        results.expect("complete")
    }

    /// Waits until the level of the only recording is reached.
    fn wait_for_the_level(&self) {
        let start = Instant::now();
        while !self.recordings().iter().any(|recording| is_held(recording)) {
            assert!(start.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Nanoseconds from the start of a recording to the start or the end of a phase.
fn mark(recording: &Recording, kind: EventKind, phase: &str) -> u64 {
    let mut events = recording.events.iter();
    let is_mark = |event: &&Event| event.kind == kind && event.phase.as_deref() == Some(phase);
    events.find(is_mark).expect("a mark").t_ns
}

fn plimsoll(arguments: &[&str]) -> Output {
    let mut command = plimsoll_testkit::command(PLIMSOLL);
    command.args(arguments).output().expect("plimsoll starts")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("ASCII")
}

#[test]
fn a_recording_has_the_level_its_goal_and_its_marks() {
    let folder = Folder::new();
    let output = hold(&[
        "--bytes",
        "64M",
        "--duration",
        "2s",
        "--json",
        "--output",
        folder.path(),
    ]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let document = json(&output);
    let recording = Recording::open(&folder.recording()).expect("readable");
    assert!(recording.complete && recording.warnings.is_empty());
    assert_eq!(document["recording"], text(&folder.recording()));
    assert!(folder.recording().join("report.html").is_file());
    assert_eq!(document["report"], text(&folder.recording().join("report.html")));
    assert_eq!(
        (&document["ended"], &document["duration_s"]),
        (&"duration".into(), &2.0.into())
    );
    assert_eq!(document["held_bytes"]["most"], 64 * MIB);
    let phases: Vec<&str> = recording
        .events
        .iter()
        .filter(|event| event.kind == EventKind::PhaseStart)
        .filter_map(|event| event.phase.as_deref())
        .collect();
    assert_eq!(phases, [APPROACH, HOLD]);
    let values = |name: &str| -> Vec<i64> {
        let column = recording.samples.column(name).expect("a column");
        column.iter().flatten().collect()
    };
    let held = values("hold_held");
    // A busy machine delays the worker, which fills the memory, and the sampler, which counts the ticks that it missed.
    let sampler = folder.results().sampler;
    let approach_ns =
        mark(&recording, EventKind::PhaseStart, HOLD) - mark(&recording, EventKind::PhaseStart, APPROACH);
    let ticks = held.len() as u64 + sampler.missed + approach_ns / TICK_NS;
    assert!(ticks >= 10, "{held:?}, {sampler:?}, {approach_ns} ns");
    assert!(!held.is_empty());
    assert_eq!(held.last(), Some(&(64 * MIB as i64)));
    assert!(values("hold_goal").iter().all(|goal| *goal == 64 * MIB as i64));
    // The machine's categories have the worker as their target.
    assert!(values("target_anon").into_iter().max() >= Some(60 * MIB as i64));
    // The document is that of the recording, and can be computed again.
    let results = folder.results();
    assert_eq!(results.status, RunStatus::Ok);
    let again = plimsoll_report::results(&recording);
    assert_eq!(results.hold, again.hold);
    let level = serde_json::to_value(results.hold.expect("a level")).expect("JSON");
    for (name, value) in level.as_object().expect("a document") {
        assert_eq!(document[name], *value, "{name}");
    }
}

/// A fill that took most of the duration left no sample with the level, and the document had no held bytes.
#[test]
fn a_level_that_is_reached_at_the_end_of_the_duration_is_recorded() {
    for _ in 0..8 {
        let folder = Folder::new();
        // The first step reaches the level after the duration.
        let level = ["--bytes", "64M", "--duration", "0.001", "--json"];
        let output = hold(&[&level[..], &["--output", folder.path()]].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let document = json(&output);
        assert_eq!(document["held_bytes"]["least"], 64 * MIB, "{document:#}");
        assert_eq!(document["held_bytes"]["most"], 64 * MIB);
        assert_eq!(document["within"], 1.0);
        let recording = Recording::open(&folder.recording()).expect("readable");
        let held =
            mark(&recording, EventKind::PhaseStart, HOLD)..=mark(&recording, EventKind::PhaseEnd, HOLD);
        // The worker had the memory then.
        let anonymous = recording.samples.column("target_anon").expect("a column");
        let mut rows = recording.samples.t_ns().iter().zip(0..);
        assert!(rows.any(|(t_ns, row)| held.contains(t_ns) && anonymous.get(row) >= Some(60 * MIB as i64)));
    }
}

#[test]
fn every_command_takes_the_recording_of_a_hold() {
    let folder = Folder::new();
    for bytes in ["16M", "32M"] {
        let output = hold(&["--bytes", bytes, "--duration", "1s", "--output", folder.path()]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let printed = String::from_utf8(output.stdout).expect("text");
        assert!(printed.contains("report.html"), "{printed}");
    }
    let all = folder.recordings();
    let (one, other) = (text(&all[0]), text(&all[1]));
    for arguments in [
        &["report", one, "--format", "text"][..],
        &["report", one, "--format", "markdown"],
        &["report", one, "--format", "csv"],
        &["report", one, "--format", "svg"],
        &["report", one, "--json"],
        &["report", one],
        &["export", one, "--format", "csv", "--output", "-"],
        &["export", one, "--format", "json", "--output", "-"],
        &["export", one, "--format", "prometheus", "--output", "-"],
        &["compare", one, other],
        &["runs", folder.path()],
    ] {
        let output = plimsoll(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        assert!(!output.stdout.is_empty(), "{arguments:?}");
    }
    // Only a run has trials to resume, and a condition needs a metric that both have.
    let refused = plimsoll(&["run", "--resume", one]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(all[0].join("results.json").is_file());
    let unknown = plimsoll(&["compare", one, other, "--fail-on", "restore.seconds>10%"]);
    assert!(matches!(unknown.status.code(), Some(1 | 7)), "{unknown:?}");
}

#[test]
fn a_refused_hold_leaves_no_recording() {
    let folder = Folder::new();
    for level in ["--used=1M", "--available=1M", "--bytes=100%"] {
        let output = hold(&[level, "--output", folder.path()]);
        assert_eq!(output.status.code(), Some(3), "{level}: {output:?}");
        assert_eq!(folder.recordings(), Vec::<PathBuf>::new(), "{level}");
    }
}

/// Its only end is a signal, so that this is no interruption.
#[test]
fn a_hold_without_a_duration_ends_well_by_a_signal() {
    for (duration, status) in [(None, RunStatus::Ok), (Some("10m"), RunStatus::Interrupted)] {
        let folder = Folder::new();
        let mut arguments = vec!["--bytes", "16M", "--output", folder.path()];
        arguments.extend(duration.iter().flat_map(|time| ["--duration", time]));
        let holder = start(&arguments);
        folder.wait_for_the_level();
        let output = end_by(holder, Signal::TERM);
        assert_eq!(output.status.code(), Some(5), "{output:?}");
        let results = folder.results();
        assert_eq!(results.status, status, "{duration:?}");
        assert_eq!(results.hold.expect("a level").ended, Some(HoldEnd::Signal));
    }
}

#[test]
fn a_killed_hold_leaves_a_recording_that_opens() {
    let folder = Folder::new();
    let holder = start(&["--bytes", "16M", "--output", folder.path()]);
    folder.wait_for_the_level();
    assert_eq!(end_by(holder, Signal::KILL).status.code(), None);
    let recording = Recording::open(&folder.recording()).expect("readable");
    let results = plimsoll_report::results(&recording);
    assert_eq!(results.status, RunStatus::Interrupted);
    let level = results.hold.expect("its settings");
    assert!(level.ended.is_none() && level.reached_s.is_some());
    let output = plimsoll(&["report", text(&folder.recording()), "--format", "text"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn the_recording_of_a_failed_hold_has_its_error() {
    if !root_with_cgroup() {
        return;
    }
    let (group, folder) = (Group::new("failed", 256 * MIB), Folder::new());
    let holder = start(&[
        "--bytes",
        "32M",
        "--cgroup",
        group.path(),
        "--output",
        folder.path(),
    ]);
    folder.wait_for_the_level();
    // Ten samples.
    std::thread::sleep(Duration::from_secs(1));
    let pid = rustix::process::Pid::from_raw(group.worker() as i32).expect("a process");
    rustix::process::kill_process(pid, Signal::KILL).expect("it lives");
    let output = holder.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let results = folder.results();
    assert_eq!(results.status, RunStatus::Failed);
    assert!(!results.headline.trust.is_empty());
    let level = results.hold.expect("a level");
    assert_eq!(level.ended, Some(HoldEnd::Failed));
    assert_eq!(level.settings.cgroup.as_deref(), Some(group.path()));
    let recording = Recording::open(&folder.recording()).expect("readable");
    let usage = recording.samples.column("cgroup_usage").expect("a column");
    assert!(usage.iter().flatten().max() >= Some(32 * MIB as i64));
}

/// As in a container with a read-only root file system.
#[test]
fn a_hold_without_output_writes_no_file() {
    let root = rustix::process::geteuid().is_root();
    if !capability("setpriv", root, "needs root to become another user") {
        return;
    }
    let output = hold_as_nobody(&["--bytes", "16M", "--duration", "0.5"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let closed = Folder::new();
    fs::set_permissions(closed.path(), fs::Permissions::from_mode(0o755)).expect("its owner may");
    let output = hold_as_nobody(&["--bytes", "16M", "--output", closed.path()]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(closed.recordings(), Vec::<PathBuf>::new());
}

#[test]
fn a_full_disk_ends_the_hold_and_releases_the_memory() {
    if !root_with_cgroup() {
        return;
    }
    let (group, disk) = (Group::new("full", 256 * MIB), SmallDisk::mount("160k"));
    let holder = start(&[
        "--bytes",
        "64M",
        "--cgroup",
        group.path(),
        "--output",
        text(disk.path()),
    ]);
    let output = holder.wait_with_output().expect("it ends by itself");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    group.wait(0, 4 * MIB);
    let mut entries = fs::read_dir(disk.path()).expect("the disk").flatten();
    let folder = entries.next().expect("a recording").path();
    let recording = Recording::open(&folder).expect("readable");
    assert!(!recording.samples.is_empty());
    assert_ne!(plimsoll_report::results(&recording).status, RunStatus::Ok);
}

/// `--output` without a folder is that of the other commands.
#[test]
fn the_usual_folder_needs_no_name() {
    let folder = Folder::new();
    let mut command = plimsoll_testkit::command(PLIMSOLL);
    command.args(["hold", "--output", "--bytes", "16M", "--duration", "0.5"]);
    let output = command
        .current_dir(folder.path())
        .output()
        .expect("plimsoll starts");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let mut report = plimsoll_testkit::command(PLIMSOLL);
    report.args(["report", "@latest", "--format", "text"]);
    let output = report
        .current_dir(folder.path())
        .output()
        .expect("plimsoll starts");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}
