//! A level of memory that a run holds on the machine while its trials run.

use rustix::process::Signal;
use serde_json::Value;

use super::{Ended, Run, ends_soon, has_laboratory, metric, send};

const HELD: f64 = (96 << 20) as f64;

/// A trial of 32 MiB beside 96 MiB that the run holds.
fn beside_96_mib(hold: &str) -> Run {
    Run::new(&[
        "--set",
        "class=constant",
        "--set",
        "background=bytes=96M",
        "--set",
        hold,
    ])
}

#[test]
fn a_trial_has_its_background_and_its_record_names_it() {
    if !has_laboratory() {
        return;
    }
    let run = beside_96_mib("hold=0.5");
    // Runs of other tests are other programs: the processes of this one have a name of their own.
    let name = "plimsoll-beside";
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join(name);
    // By another process: a child that another test's thread forks from this one meanwhile has a file that is open for writes
    // open too, and the kernel then starts no program from it (ETXTBSY).
    let copied = plimsoll_testkit::command("cp")
        .arg(super::PLIMSOLL)
        .arg(&program)
        .status();
    assert!(copied.expect("cp starts").success());
    let ended = Ended::of(run.command_of(&program).output().expect("plimsoll starts"));
    run.assert_nothing_left();
    ended.assert_went_well();
    let report = run.recording().expect("a recording").join("report.html");
    let page = std::fs::read_to_string(report).expect("a report");
    assert!(page.contains("bytes=96M"), "the report names the level");
    assert_eq!(ended.trials().len(), 1);
    for trial in ended.trials() {
        assert_eq!(trial["params"]["background"], "bytes=96M", "{trial:#}");
        assert!(
            (metric(trial, "background_held_bytes") - HELD).abs() <= 0.02 * HELD,
            "{trial:#}"
        );
        assert_eq!(metric(trial, "background_within_percent"), 100.0, "{trial:#}");
        assert!(metric(trial, "background_cpu_percent") < 20.0, "{trial:#}");
        let programs = trial["other_programs"].as_array().map(Vec::as_slice);
        let blamed = |program: &Value| program[0] == name;
        assert!(!programs.unwrap_or_default().iter().any(blamed), "{trial:#}");
    }
}

#[test]
fn a_background_ends_with_a_stopped_and_with_a_killed_run() {
    if !has_laboratory() {
        return;
    }
    for signal in [Signal::INT, Signal::KILL] {
        let run = beside_96_mib("hold=60");
        let mut started = run.start();
        started.await_event("phase-start", "fill");
        let workers = started.children();
        // The background, the wake-up probe and the worker of the trial.
        assert_eq!(workers.len(), 3, "{workers:?}");
        started.signal(signal);
        let name = run.name().expect("a recording");
        let ended = started.wait();
        assert!(workers.into_iter().all(ends_soon));
        if signal == Signal::KILL {
            super::undo_killed(&name);
        } else {
            ended.assert_stopped(5, "signal", "SIGINT");
        }
        run.assert_nothing_left();
    }
}

#[test]
fn a_background_that_dies_fails_its_trial() {
    if !has_laboratory() {
        return;
    }
    let run = beside_96_mib("hold=0.5");
    let mut started = run.start();
    started.await_event("phase-end", "fill");
    // The trial lasts until the background is dead.
    let worker = started.stop_worker();
    send(started.children()[0], Signal::KILL);
    started.resume(worker);
    started.finish().assert_failed(5, "background");
}

#[test]
fn a_background_that_does_not_fit_is_refused_before_the_run() {
    for (level, code) in [
        ("used=100%", 3),
        ("used=1M", 3),
        ("bytes=100%", 3),
        ("used=101%", 1),
        ("used=0", 1),
        ("free=1G", 1),
        ("80%", 1),
    ] {
        let run = Run::new(&["--set", "subject=none", "--set", &format!("background={level}")]);
        let ended = run.finish();
        assert_eq!(ended.code, code, "{level}: {}", ended.stderr);
        assert!(run.recording().is_none(), "{level}");
    }
}
