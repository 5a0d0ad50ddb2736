//! A guard beside the consumers of a thrash trial.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::thrash::small;
use super::{ends_soon, has_laboratory, metric, phase};

/// Half of the memory: the next consumer has room as soon as another one has freed its area.
const GUARDED: [&str; 2] = ["guard=relay", "limit=48M"];

/// The guard looks once a second, measures for five, and then stops processes.
#[test]
fn a_trial_may_have_a_guard() {
    if !has_laboratory() {
        return;
    }
    let ended = small(&[&GUARDED[..], &["together=16"]].concat()).finish();
    ended.assert_went_well();
    let trial = &ended.trials()[0];
    assert!(metric(trial, "guard_stops") > 0.0, "{trial:#}");
    assert!(
        (0.0..100.0).contains(&metric(trial, "guard_cpu_percent")),
        "{trial:#}"
    );
    assert!(metric(trial, "together_cycles_per_s") > 0.0, "{trial:#}");
    check_second_half(trial);
    let refused = small(&["guard=kill"]).finish();
    refused.assert_refused(1, &["kill", "relay"]);
}

/// At most half of the 16 s of work together, and a part of the wake-ups of the load: the probes are asked in the middle.
fn check_second_half(trial: &Value) {
    let seconds = metric(trial, "second_half_s");
    assert!(seconds > 0.0 && seconds <= 8.0 + 1e-6, "{trial:#}");
    assert!(metric(trial, "second_half_wakeup_p99_s") > 0.0, "{trial:#}");
    let count = |name: &str| phase(trial, "load")["values"][name].as_f64();
    let (part, whole) = (count("second_half_wakeup_count"), count("wakeup_count"));
    assert!(part > Some(0.0) && part < whole, "{trial:#}");
}

/// The journal is that of a worker, in the state folder of the run.
#[test]
fn the_guard_of_an_interrupted_trial_leaves_no_journal() {
    if !has_laboratory() {
        return;
    }
    // With a state folder of its own, the run does not hold the machine.
    let _alone = crate::machine::alone();
    let state = tempfile::tempdir().expect("a folder");
    let journals = || -> Vec<String> {
        let entries = std::fs::read_dir(state.path().join("runs"))
            .into_iter()
            .flatten()
            .flatten();
        entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()
    };
    let run = small(&[&GUARDED[..], &["together=300"]].concat());
    let mut command = run.command();
    command.env("PLIMSOLL_STATE_DIR", state.path());
    let mut started = run.start_by(command);
    started.await_event("phase-start", "load");
    let workers = started.children();
    let is_stopped = |pid: &u32| {
        let stat = plimsoll_proc::PidStat::read(*pid, &mut Vec::new()).map(|stat| stat.is_stopped());
        stat.is_ok_and(|is_stopped| is_stopped)
    };
    let begun = Instant::now();
    while !workers.iter().any(is_stopped) {
        assert!(
            begun.elapsed() < Duration::from_secs(240),
            "the guard stopped no consumer"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let during = journals();
    assert!(during.iter().any(|name| name.starts_with("guard-")), "{during:?}");
    started.signal(Signal::INT);
    let ended = started.finish();
    ended.assert_stopped(5, "signal", "SIGINT");
    assert_eq!(journals(), Vec::<String>::new());
    for worker in workers {
        assert!(ends_soon(worker), "process {worker} was left stopped");
    }
}
