//! Recordings of the monitor, and replays.

use std::path::Path;
use std::process::Stdio;

use plimsoll_model::recording::model::{EventKind, RunStatus, file};
use plimsoll_model::recording::{Follow, FollowState, Recording};
use plimsoll_monitor::watch::{
    Level, MarkKind, Monitor, Options, Prepared, Program, Source, TargetChoice, WatchError,
};
use plimsoll_testkit::capability;

use super::{headless, length, stderr, summary, wait_for, wait_until, watch};

fn plimsoll(arguments: &[&str], folder: &Path) -> std::process::Output {
    let mut command = plimsoll_testkit::command(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(arguments).arg(folder).output().unwrap()
}

#[test]
fn a_recording_opens_for_every_other_command() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("r");
    let output = watch(&[
        "--json",
        "--duration",
        "1.2",
        "--hz",
        "20",
        "--record",
        record.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let summary = summary(&output);
    let recording = Recording::open(&record).unwrap();
    assert!(recording.complete, "{:?}", recording.warnings);
    assert_eq!(recording.manifest.plan.scenario, "watch");
    assert!(recording.manifest.plan.trials.is_empty());
    assert_eq!(recording.results.as_ref().unwrap().status, RunStatus::Ok);
    // Those that were taken while the recording was made are not in it; those that were taken while the monitor was about to
    // end are, and on a busy machine they are several.
    let (kept, taken) = (
        recording.samples.len() as u64,
        summary["samples"].as_u64().unwrap(),
    );
    assert!(kept + 2 >= taken && kept >= 10, "{kept} of {taken}");
    let times = recording.samples.t_ns();
    assert!(
        times.is_sorted_by(|one, next| one < next),
        "no sample is in it twice"
    );
    let end = recording.events.last().unwrap().t_ns;
    assert!(times.last().is_some_and(|last| *last <= end), "{times:?} {end}");
    let kinds: Vec<EventKind> = recording.events.iter().map(|event| event.kind).collect();
    assert_eq!(
        (kinds.first(), kinds.last()),
        (Some(&EventKind::RunStart), Some(&EventKind::RunEnd))
    );
    assert!(length(&record.join(file::REPORT)) > 10_000);
    for arguments in [
        &["report", "--format", "text"][..],
        &["report", "--json"],
        &["export", "--format", "json"],
    ] {
        let output = plimsoll(arguments, &record);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{arguments:?}: {}",
            stderr(&output)
        );
    }
    let again = watch(&["--duration", "0.1", "--record", record.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(1), "{}", stderr(&again));
}

#[test]
fn the_recording_of_a_killed_monitor_opens() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("r");
    let mut watch = headless(&["--hz", "50", "--record", record.to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("recorded", || length(&record.join(file::SAMPLES_LIVE)) > 100_000);
    let follower = Monitor::start(&Options::of(Source::Replay(record.clone()))).unwrap();
    wait_for(&follower, "what was written", |state| {
        state.history.latest().is_some()
    });
    let seen = follower.now_ns();
    wait_for(&follower, "what came since", |state| {
        state.history.latest().is_some_and(|frame| frame.t_ns > seen)
    });
    assert_eq!(follower.state().status.ended, None);
    watch.kill().unwrap();
    watch.wait().unwrap();
    wait_for(&follower, "the end", |state| state.status.ended.is_some());
    let FollowState::Stopped(cause) = Follow::open(&record).unwrap().poll().unwrap().state else {
        panic!("a killed monitor leaves a stopped recording");
    };
    let ended = follower.state().status.ended.clone().unwrap();
    assert!(
        ended.ends_with(&cause.to_string()),
        "{ended} does not give the cause: {cause}"
    );
    let recording = Recording::open(&record).unwrap();
    assert!(!recording.complete);
    assert!(recording.samples.len() > 50, "{}", recording.samples.len());
    let recorded = recording.samples.t_ns().iter().filter(|t_ns| **t_ns > 0).count();
    assert_eq!(follower.state().history.after(0).count(), recorded);
    assert_eq!(
        plimsoll(&["report", "--format", "text"], &record).status.code(),
        Some(0)
    );
}

#[test]
fn marks_come_back_in_a_replay() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("r");
    let monitor = Monitor::start(&Options::of(Source::Live(TargetChoice::None))).unwrap();
    monitor.mark(1);
    wait_for(&monitor, "samples", |state| state.history.after(0).count() > 3);
    // A recording that begins later has times of its own.
    monitor.record(Some(record.clone()));
    wait_for(&monitor, "recording", |state| state.status.recording.is_some());
    monitor.record(Some(folder.path().join("second")));
    let first = record.to_str().unwrap();
    wait_for(&monitor, "a refusal that names the first recording", |state| {
        state
            .messages
            .iter()
            .any(|message| message.level == Level::Error && message.text.contains(first))
    });
    assert_eq!(
        monitor.state().status.recording.as_deref(),
        Some(record.as_path())
    );
    assert!(!folder.path().join("second").exists());
    let begun_at = monitor.now_ns();
    wait_for(&monitor, "samples before the marks", |state| {
        state
            .history
            .latest()
            .is_some_and(|frame| frame.t_ns > begun_at + 200_000_000)
    });
    monitor.mark(2);
    monitor.note("so it \u{1b}[31mbegins");
    let marked_at = monitor.state().marks.last().unwrap().t_ns;
    wait_for(&monitor, "samples after the marks", |state| {
        state
            .history
            .latest()
            .is_some_and(|frame| frame.t_ns > marked_at + 500_000_000)
    });
    monitor.record(None);
    wait_for(&monitor, "the end of the recording", |state| {
        state.status.recording.is_none() && state.status.busy.is_none()
    });
    assert!(monitor.finish().recording.is_none());
    let replay = Monitor::start(&Options::of(Source::Replay(record))).unwrap();
    wait_for(&replay, "the end", |state| state.status.ended.is_some());
    replay.mark(4);
    let state = replay.state();
    let marks: Vec<(MarkKind, &str)> = state
        .marks
        .iter()
        .map(|mark| (mark.kind, mark.text.as_str()))
        .collect();
    let kinds: Vec<MarkKind> = marks.iter().map(|mark| mark.0).collect();
    assert_eq!(kinds, [MarkKind::Number(2), MarkKind::Note], "{marks:?}");
    assert!(state.status.replay && state.facts.mem_total > 0 && state.facts.hz == 10);
    let (first, last) = state.history.span().unwrap();
    assert!(
        first <= state.marks[0].t_ns && state.marks[1].t_ns < last,
        "{first} {last} {:?}",
        state.marks
    );
    assert_eq!(state.marks[1].text, "so it \u{fffd}[31mbegins");
    assert!(
        state
            .messages
            .iter()
            .any(|message| message.level == Level::Warning),
        "a recording takes no marks"
    );
}

/// The monitor looked for the cgroup when the recording had begun, which stayed.
#[test]
fn a_program_whose_cgroup_is_missing_leaves_no_recording() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("r");
    let program = Program {
        command: vec!["true".into()],
        passes_through: true,
    };
    let options = Options {
        record: Some(record.clone()),
        ..Options::of(Source::Program(program.clone()))
    };
    let prepared = Prepared {
        program,
        command: plimsoll_testkit::command("true"),
        cgroup: Some("/no/such/cgroup".into()),
    };
    let refused = Monitor::start_prepared(&options, prepared);
    assert!(matches!(refused, Err(WatchError::Cgroup { .. })));
    assert!(!record.exists());
}

/// A tmpfs of its own, gone at the end.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = plimsoll_testkit::command("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "plimsoll-test"])
            .arg(folder.path())
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(SmallDisk(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = plimsoll_testkit::command("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_monitor() {
    let Some(disk) = SmallDisk::mount("400k") else {
        capability("mount", false, "cannot mount a tmpfs");
        return;
    };
    let record = disk.0.path().join("r");
    let full = std::io::Error::from(rustix::io::Errno::NOSPC).to_string();
    let monitor = Monitor::start(&Options {
        hz: 100,
        record: Some(record.clone()),
        ..Options::of(Source::Live(TargetChoice::None))
    })
    .unwrap();
    wait_for(&monitor, "the end of the recording", |state| {
        state.status.recording.is_none()
            && state
                .messages
                .iter()
                .any(|message| message.level == Level::Error && message.text.contains(&full))
    });
    let before = monitor.now_ns();
    wait_for(&monitor, "a sample after it", |state| {
        state.history.latest().is_some_and(|frame| frame.t_ns > before)
    });
    assert!(Recording::open(&record).unwrap().samples.len() > 50);
    drop(monitor);
    std::fs::remove_dir_all(&record).unwrap();
    let output = watch(&[
        "--hz",
        "100",
        "--duration",
        "6",
        "--record",
        record.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let folder = record.to_str().unwrap();
    for expected in [folder, &full] {
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}
