//! Runs that are ended before their time: by a signal in each phase, by SIGKILL, and gone on with.

use rustix::process::Signal;

use super::callers::{TIME_LIMITED, WithBrowser};
use super::{PLIMSOLL, Run, has_laboratory};

/// Ends a run by `signal` at an event and checks that it says so and leaves nothing. A signal that comes late, on a machine
/// with other load, still meets the run: the rest after the fill is long, or the worker is stopped.
fn interrupted_at(kind: &str, phase: &str, signal: Signal, name: &str) {
    let is_later = ["trim", "restore"].contains(&phase);
    let hold = if is_later { "hold=1" } else { "hold=3" };
    let run = Run::new(&["--set", "class=random", "size=128M", "trim=cgroup", hold]);
    let mut started = run.start();
    if is_later {
        // The runner trims by the cgroup, without the worker; the restore cannot end.
        started.await_event("phase-end", "fill");
        started.stop_worker();
    }
    started.await_event(kind, phase);
    started.signal(signal);
    let ended = started.finish();
    ended.assert_stopped(5, "signal", name);
}

#[test]
fn sigint_in_any_phase_ends_with_everything_undone() {
    if !has_laboratory() {
        return;
    }
    interrupted_at("calibration", "", Signal::INT, "SIGINT");
    for phase in ["fill", "trim", "restore"] {
        interrupted_at("phase-start", phase, Signal::INT, "SIGINT");
    }
    // The rests after fill and trim.
    for phase in ["fill", "trim"] {
        interrupted_at("phase-end", phase, Signal::INT, "SIGINT");
    }
}

#[test]
fn sigterm_is_obeyed_like_sigint() {
    if has_laboratory() {
        interrupted_at("phase-start", "fill", Signal::TERM, "SIGTERM");
    }
}

#[test]
fn a_run_that_passes_its_time_limit_is_stopped_and_undone() {
    if !has_laboratory() {
        return;
    }
    let (WithBrowser { ended, .. }, report) = &*TIME_LIMITED;
    ended.assert_stopped(2, "time-limit", "`time-limit`");
    assert!(
        report.status.success(),
        "{}",
        String::from_utf8_lossy(&report.stderr)
    );
}

#[test]
fn a_killed_run_is_undone_by_cleanup_and_its_recording_opens() {
    if !has_laboratory() {
        return;
    }
    let run = Run::new(&["--set", "class=random", "--set", "hold=3"]);
    let mut started = run.start();
    started.await_event("phase-end", "trim");
    let worker = started.worker();
    started.signal(Signal::KILL);
    started.wait();
    let name = run.name().expect("a recording");
    super::undo_killed(&name);
    run.assert_nothing_left();
    assert!(super::ends_soon(worker), "the worker outlived its runner");
    let folder = run.recording().expect("a recording");
    let report = plimsoll_testkit::command(PLIMSOLL)
        .arg("report")
        .arg(&folder)
        .arg("--json")
        .output()
        .expect("report");
    assert!(
        report.status.success(),
        "{}",
        String::from_utf8_lossy(&report.stderr)
    );
    let results: serde_json::Value = serde_json::from_slice(&report.stdout).expect("one document");
    assert_eq!(results["status"], "interrupted");
}

#[test]
fn a_run_that_was_cut_short_goes_on_without_repeating_what_is_done() {
    if !has_laboratory() {
        return;
    }
    let run = Run::new(&["--set", "hold=0.2", "--set", "order=fixed"]);
    let mut started = run.start();
    started.await_event("trial-end", "");
    started.await_event("trial-start", "");
    started.signal(Signal::INT);
    let first = started.finish();
    assert_eq!(first.code, 5, "{}", first.stderr);
    let folder = run.recording().expect("a recording");
    let output = plimsoll_testkit::command(PLIMSOLL)
        .args(["run", "compression", "--json", "--wait", "--resume"])
        .arg(&folder)
        .output()
        .expect("plimsoll starts");
    let resumed = super::Ended::of(output);
    resumed.assert_went_well();
    assert_eq!(resumed.trials().len(), 3, "{:#}", resumed.results);
    let done: Vec<&str> = first
        .trials()
        .iter()
        .filter(|trial| trial["status"] == "ok")
        .filter_map(|trial| trial["id"].as_str())
        .collect();
    for id in done {
        let span = |ended: &super::Ended| {
            ended
                .trials()
                .iter()
                .find(|trial| trial["id"] == id)
                .map(|trial| trial["span_ns"].clone())
        };
        assert_eq!(span(&first), span(&resumed), "{id} was run again");
    }
    run.assert_nothing_left();
}

#[test]
fn a_run_of_a_scenario_file_goes_on_too() {
    if !has_laboratory() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mine.toml");
    let text = "[scenario]\nname = \"my-own\"\n[global]\nworkload = \"compression\"\nsize = \"16M\"\nhold = 0.3\nrepeat = 2\n\
                [a]\nclass = \"runs20\"\nsubject = \"zram\"\n";
    std::fs::write(&file, text).expect("write");
    let path = file.to_str().expect("UTF-8");
    let run = Run::of(path, &[]);
    let mut started = run.start();
    started.await_event("phase-end", "fill");
    started.signal(Signal::QUIT);
    started.finish().assert_stopped(5, "signal", "SIGQUIT");
    let output = plimsoll_testkit::command(PLIMSOLL)
        .args(["run", path, "--json", "--wait", "--resume"])
        .arg(run.recording().expect("a recording"))
        .output()
        .expect("plimsoll starts");
    let resumed = super::Ended::of(output);
    resumed.assert_went_well();
    assert_eq!(resumed.trials().len(), 2, "{:#}", resumed.results);
}
