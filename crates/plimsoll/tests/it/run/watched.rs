//! The monitor beside a run of a user's program: its storm, its end, and the recording afterwards.

use std::time::{Duration, Instant};

use plimsoll_monitor::watch::{MarkKind, Monitor, Options, Source, State, TargetChoice};
use rustix::process::Signal;
use serde_json::Value;

use super::command::Programs;
use super::{PLIMSOLL, ends_soon, has_laboratory};

/// Waits until the state of a monitor is as it should be.
fn wait_for(monitor: &Monitor, event: &str, is_so: impl Fn(&State) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so(&monitor.state()) {
        assert!(
            Instant::now() < deadline,
            "not {event}: {:?}",
            monitor.state().marks
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The processes of the storms that `plimsoll ps --storm` lists.
fn processes_in_storms() -> Vec<Value> {
    let output = plimsoll_testkit::command(PLIMSOLL)
        .args(["ps", "--storm", "--json"])
        .output()
        .expect("plimsoll starts");
    assert!(output.status.success(), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let storms = document["storms"].as_array().expect("storms");
    let processes = storms.iter().filter_map(|storm| storm["processes"].as_array());
    processes.flatten().cloned().collect()
}

/// The program reads a file of 48 MiB again and again under a limit of 16 MiB.
#[test]
fn watch_and_ps_find_the_storm_of_a_program_in_a_run() {
    if !has_laboratory() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let big = folder.path().join("big");
    // One hole: no disk is read.
    let made = std::fs::File::create(&big).and_then(|file| file.set_len(48 << 20));
    made.expect("a file");
    let script = format!(
        "echo $$ > $FILE; exec cat $(yes {} | head -n 5000) > /dev/null",
        big.display()
    );
    let programs = Programs::shell(&script, "subject = \"none\"\nlimit = \"16M\"\n");
    let mut started = programs.run.start();
    started.await_event("phase-start", "limit 16M");
    let monitor = {
        let deadline = Instant::now() + Duration::from_secs(60);
        while std::fs::read_to_string(programs.file()).map_or(true, |text| text.trim().is_empty()) {
            assert!(Instant::now() < deadline, "the program has not begun");
            std::thread::sleep(Duration::from_millis(5));
        }
        let target = TargetChoice::Pid(programs.written_pid());
        Monitor::start(&Options::of(Source::Live(target))).expect("a monitor")
    };
    let program = programs.written_pid();
    wait_for(&monitor, "a storm", |state| {
        state.marks.iter().any(|mark| mark.kind == MarkKind::FaultStorm)
    });
    let watched = monitor.state().target.as_ref().map(|target| target.pids.clone());
    assert_eq!(watched, Some(vec![program]), "the program has no descendants");
    let listed = (0..20).any(|_| processes_in_storms().iter().any(|one| one["pid"] == program));
    assert!(listed, "`ps --storm` does not list {program}");
    started.signal(Signal::INT);
    started.finish().assert_stopped(5, "signal", "SIGINT");
    assert!(ends_soon(program));
    wait_for(&monitor, "the end of the program", |state| {
        state.target.as_ref().is_some_and(|target| target.ended.is_some())
    });
    drop(monitor);
    let recording = programs.run.recording().expect("a recording");
    let replay = Monitor::start(&Options::of(Source::Replay(recording))).expect("a replay");
    wait_for(&replay, "the phase of the program", |state| {
        let mut marks = state.marks.iter();
        marks.any(|mark| mark.kind == MarkKind::Event && mark.text == "limit 16M")
    });
    assert!(replay.state().history.latest().is_some());
}
