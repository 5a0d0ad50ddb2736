//! The capped scans, small and for real.

use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use super::{Run, has_laboratory, metric, phase, phase_names};

/// Small, short, and once.
const TINY: &[&str] = &[
    "--set",
    "size=16M",
    "--set",
    "duration=0.6",
    "--set",
    "hold=0",
    "--set",
    "subject=zram",
    "--repeat",
    "1",
];
const PAGES: f64 = (16 << 20) as f64 / 4096.0;

fn wscap(arguments: &[&str]) -> Run {
    Run::of("wscap", &[TINY, arguments].concat())
}

fn phase_value(trial: &Value, of: &str, name: &str) -> f64 {
    super::phase_value(phase(trial, of), name)
}

#[test]
fn a_cap_of_half_the_size_makes_scans_slow_and_every_page_is_right() {
    if !has_laboratory() {
        return;
    }
    let run = wscap(&["--set", "cap-by=limit"]);
    let ended = run.finish();
    ended.assert_went_well();
    let trial = &ended.trials()[0];
    assert_eq!(
        phase_names(trial),
        ["fill", "uncapped", "capped", "emptied", "verify"]
    );
    // The factor of a quiet machine is above 100.
    assert!(metric(trial, "slowdown_ratio") > 5.0, "{trial:#}");
    check_counts(trial);
    // Nothing faults without the cap; with it more than what does not fit comes back in every scan.
    assert!(phase_value(trial, "uncapped", "faults_per_scan_count") < PAGES / 20.0);
    assert!(metric(trial, "faults_per_scan_count") > PAGES / 8.0, "{trial:#}");
    assert!(
        metric(trial, "capped_resident_max_bytes") < 10e6,
        "half of 16 MiB and a bit: {trial:#}"
    );
    assert!(phase_value(trial, "uncapped", "resident_min_bytes") > 15e6);
    assert!(
        phase_value(trial, "emptied", "stayed_bytes") <= PAGES * 4096.0 / 20.0,
        "{trial:#}"
    );
    assert!(
        metric(trial, "emptied_slowdown_ratio") < metric(trial, "slowdown_ratio"),
        "emptying once costs less than a cap: {trial:#}"
    );
    for (param, value) in [("load", "2"), ("cap-by", "limit")] {
        assert_eq!(trial["params"][param], value);
    }
    let mechanism = trial["params"]["mechanism"].as_str().expect("a mechanism");
    assert!(["memory.limit_in_bytes", "memory.max"].contains(&mechanism));
    check_profile(trial);
}

/// Scans, bytes, rates and latencies of a phase tell of the same scans.
fn check_counts(trial: &Value) {
    for name in ["uncapped", "capped", "emptied"] {
        let scans = phase_value(trial, name, "scans_count");
        assert!(scans > 0.0, "{name}");
        let rate = phase_value(trial, name, "scans_per_s");
        let rates: Vec<f64> = trial["lists"][format!("{name}_scans_per_s")]
            .as_array()
            .expect("rates")
            .iter()
            .filter_map(Value::as_f64)
            .collect();
        // One for each 0.1 s; a long piece of a scan repeats its rate.
        let most = (phase(trial, name)["seconds"].as_f64().expect("seconds") / 0.1).ceil() as usize + 1;
        assert!((3..=most).contains(&rates.len()), "{name}: {rates:?}");
        let (least, most) = (
            rates.iter().copied().fold(f64::MAX, f64::min),
            rates.iter().copied().fold(0.0, f64::max),
        );
        assert!(
            least <= rate * 1.2 && most >= rate * 0.8,
            "{name}: {rate} in {rates:?}"
        );
        if scans >= 1.0 {
            assert!(phase_value(trial, name, "first_scan_s") > 0.0);
            assert!(phase(trial, name)["latency"].is_string());
        }
    }
    let (bytes, scans) = (
        phase(trial, "uncapped")["bytes"].as_f64(),
        phase_value(trial, "uncapped", "scans_count"),
    );
    let expected = scans * PAGES * 4096.0;
    assert!(bytes.is_some_and(|bytes| (bytes / expected - 1.0).abs() < 1e-6));
}

/// Either most of the CPU time is in faults and functions are named, or the trial says why that is not known.
fn check_profile(trial: &Value) {
    if let Some(why) = trial["params"]["fault-path"].as_str() {
        assert!(trial["metrics"]["fault_path_percent"].is_null(), "{trial:#}");
        assert!(why.contains("sysctl") || why.contains("CONFIG"), "{why}");
        return;
    }
    assert!(phase_value(trial, "capped", "profile_samples_count") > 0.0);
    assert!(metric(trial, "fault_path_percent") > 50.0, "{trial:#}");
    let profile = phase(trial, "capped")["profile"].as_array().expect("a profile");
    assert!(!profile.is_empty());
    assert!(
        profile
            .iter()
            .all(|line| line[0].is_string() && line[1].as_f64() > Some(0.0))
    );
}

#[test]
fn memory_that_fits_under_its_cap_does_not_fault() {
    if !has_laboratory() {
        return;
    }
    // The cap counts the worker's own memory too, which is much beside 16 MiB.
    let run = wscap(&["--set", "cap-by=limit", "--set", "load=0.5"]);
    let ended = run.finish();
    ended.assert_went_well();
    let trial = &ended.trials()[0];
    assert!(metric(trial, "faults_per_scan_count") < PAGES / 20.0, "{trial:#}");
    assert!(metric(trial, "capped_resident_min_bytes") > 15e6, "{trial:#}");
}

#[test]
fn a_balance_set_manager_trims_once_a_second() {
    if !has_laboratory() {
        return;
    }
    let run = wscap(&["--set", "cap-by=balance", "--set", "duration=4"]);
    let ended = run.finish();
    ended.assert_went_well();
    let trial = &ended.trials()[0];
    let looks = phase_value(trial, "capped", "balance_looks_count");
    // At once, and a second after each, of which a machine that stands still may cost one; the last piece of a scan takes as long as the machine lets it.
    let seconds = phase(trial, "capped")["seconds"].as_f64().expect("seconds");
    assert!((3.0..=seconds.floor() + 1.0).contains(&looks), "{trial:#}");
    // What is trimmed comes back while the rest is: less may be missing after a trim than was trimmed, but it has faulted.
    // A piece is 256 pages, and each look trims at least one.
    let scans = phase_value(trial, "capped", "scans_count");
    let faults = metric(trial, "faults_per_scan_count") * scans;
    assert!(faults > 256.0, "{trial:#}");
    assert!(
        metric(trial, "capped_resident_max_bytes") > 12e6,
        "it refills: {trial:#}"
    );
    let mechanism = trial["params"]["mechanism"].as_str().expect("a mechanism");
    assert!(mechanism.contains("MADV_PAGEOUT"));
}

#[test]
fn a_cap_that_this_machine_does_not_have_is_named() {
    if !has_laboratory() || !Path::new("/sys/fs/cgroup/memory").exists() {
        return;
    }
    let run = wscap(&["--set", "cap-by=high"]);
    let ended = run.finish();
    ended.assert_refused(3, &["memory.high", "cap-by=limit"]);
    assert_eq!(run.name(), None, "a refusal leaves no recording");
}

#[test]
fn scans_under_a_cap_can_be_interrupted() {
    if !has_laboratory() {
        return;
    }
    let run = wscap(&["--set", "cap-by=limit", "--set", "duration=60"]);
    let mut started = run.start();
    started.await_event("phase-start", "uncapped");
    let worker = started.worker();
    started.signal(Signal::INT);
    let ended = started.finish();
    // A phase that the worker finishes is in the trial.
    assert_eq!(phase_names(&ended.trials()[0]), ["fill"]);
    ended.assert_stopped(5, "signal", "SIGINT");
    assert!(super::ends_soon(worker));
}
