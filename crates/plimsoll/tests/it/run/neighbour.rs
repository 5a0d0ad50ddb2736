//! The effect of a run on other programs: the wake-up probe outside of its cgroup.

use std::os::unix::process::CommandExt;

use plimsoll_testkit::capability;
use rustix::process::Signal;
use serde_json::Value;

use super::{PLIMSOLL, Run, SIZE, has_laboratory, metric, send};

/// Two short trials with a rest of `hold`.
fn twice(hold: &str) -> Run {
    let set = [
        "--set",
        SIZE,
        "--set",
        "class=constant",
        "--repeat",
        "2",
        "--set",
        hold,
    ];
    Run::of("compression", &set)
}

/// The wake-up probe's metrics of a trial.
fn wakeup(trial: &Value) -> [f64; 3] {
    ["neighbour_p99_s", "neighbour_max_s", "neighbour_cpu_percent"].map(|name| metric(trial, name))
}

#[test]
fn every_trial_has_neighbour_metrics() {
    if !has_laboratory() {
        return;
    }
    let ended = twice("hold=0.1").finish();
    ended.assert_went_well();
    assert_eq!(ended.trials().len(), 2);
    for trial in ended.trials() {
        let [p99, max, cpu] = wakeup(trial);
        assert!(p99 <= max && max < 60.0, "{trial:#}");
        assert!(
            cpu < 20.0,
            "a hundred wake-ups a second cost next to nothing: {cpu}%"
        );
    }
    let harmed = ended.trials().iter().any(|trial| wakeup(trial)[0] > 0.050);
    let confounders = ended.results["confounders"].as_array().expect("confounders");
    let told = confounders.iter().find(|found| found["name"] == "neighbour");
    assert_eq!(
        harmed,
        told.is_some(),
        "told exactly when others waited: {confounders:?}"
    );
    assert!(told.is_none_or(|told| told["spoils"] == serde_json::json!([])));
}

#[test]
fn the_wakeup_is_outside_of_the_cgroup_and_stays_for_the_whole_run() {
    if !has_laboratory() {
        return;
    }
    let run = twice("hold=1");
    let mut started = run.start();
    started.await_event("phase-start", "fill");
    // The first trial lasts until the test has looked.
    let worker = started.stop_worker();
    let wakeup = started.children()[0];
    assert_ne!(wakeup, worker);
    let cgroup = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("it lives");
    let name = run.name().expect("a recording");
    assert!(cgroup(worker).contains(&name), "{}", cgroup(worker));
    assert!(!cgroup(wakeup).contains(&name), "{}", cgroup(wakeup));
    let status = std::fs::read_to_string(format!("/proc/{wakeup}/status")).expect("it lives");
    let locked = status
        .lines()
        .find(|line| line.starts_with("VmLck:"))
        .expect("VmLck");
    assert_eq!(
        locked.split_whitespace().nth(1),
        Some("0"),
        "it is an ordinary process"
    );
    started.resume(worker);
    let ended = started.finish();
    ended.assert_went_well();
    assert!(super::ends_soon(wakeup));
}

#[test]
fn a_dead_wakeup_probe_is_a_warning_and_is_replaced() {
    if !has_laboratory() {
        return;
    }
    let run = twice("hold=1");
    let mut started = run.start();
    started.await_event("phase-start", "fill");
    // The first trial lasts until the probe is dead.
    let worker = started.stop_worker();
    let probe = started.children()[0];
    send(probe, Signal::KILL);
    assert!(super::ends_soon(probe));
    started.resume(worker);
    let ended = started.finish();
    ended.assert_went_well();
    let warnings = ended.results["warnings"].as_array().unwrap();
    assert!(
        warnings
            .iter()
            .any(|warning| warning["code"] == "neighbour-failed"),
        "{warnings:?}"
    );
    assert!(ended.trials()[0]["metrics"]["neighbour_p99_s"].is_null());
    assert!(wakeup(&ended.trials()[1])[1] > 0.0);
}

#[test]
fn without_privileges_there_is_a_wakeup_all_the_same() {
    if !capability(
        "root",
        rustix::process::geteuid().is_root(),
        "needs root to become somebody else",
    ) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("plimsoll");
    plimsoll_testkit::copy_program(PLIMSOLL, &program);
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).expect("chmod");
    let output = plimsoll_testkit::command(&program)
        .args([
            "run",
            "compression",
            "--json",
            "--wait",
            "--repeat",
            "1",
            "--set",
            "size=16M",
        ])
        // By default the pager would run, which needs no privilege.
        .args(["--set", "subject=zram:lz4", "--set", "hold=0.1"])
        .args(["--set", "class=constant", "--output"])
        .arg(folder.path().join("runs"))
        // nobody
        .uid(65534)
        .gid(65534)
        .output()
        .expect("plimsoll starts");
    let results: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
    });
    assert_eq!(results["status"], "incomplete", "{results:#}");
    wakeup(&results["trials"][0]);
}
