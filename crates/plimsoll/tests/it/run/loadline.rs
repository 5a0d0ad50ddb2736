//! `plimsoll run loadline` on real zram.

use std::sync::LazyLock;

use rustix::process::Signal;
use serde_json::Value;

use super::pager::{has_userfaultfd, samples};
use super::refusals::unprivileged;
use super::{Ended, Run, has_laboratory, phase_value, phases};

const LIMIT: f64 = (32 << 20) as f64;

/// A sweep of a few seconds.
fn small(arguments: &[&str]) -> Run {
    let small = [
        "--set",
        "limit=32M",
        "--set",
        "max-load=2",
        "--set",
        "duration=0.15",
        "--repeat",
        "1",
    ];
    Run::of("loadline", &[&small[..], arguments].concat())
}

/// A scenario of short load lines, a section for each test: one run of all of them is calibrated once.
pub(super) fn scenario(sections: &str) -> String {
    format!(
        r#"
[scenario]
name = "sections"
[global]
workload = "loadline"
subject = "zram"
class = "ratio=2.5"
compute = 0.000005
limit = "32M"
duration = 0.15
repeat = 1
{sections}"#
    )
}

/// Runs these sections to the end.
pub(super) fn run_of(sections: &str) -> (Run, Ended) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("sections.toml");
    std::fs::write(&file, scenario(sections)).expect("write");
    let run = Run::of(file.to_str().expect("UTF-8"), &[]);
    let ended = run.finish();
    (run, ended)
}

/// The trials of a section of a run that went well.
pub(super) fn trials_of<'e>(ended: &'e Ended, section: &str) -> Vec<&'e Value> {
    ended.assert_went_well();
    let trials = ended.of_section(section);
    assert!(!trials.is_empty(), "no {section}: {:#}", ended.results);
    trials
}

/// A search on zram and one on a pager, in one run. Its files are read at once: a static is never dropped, so their folder
/// would stay.
pub(super) struct Searches {
    pub(super) ended: Ended,
    pub(super) page: String,
    pub(super) samples: String,
}

pub(super) static SEARCHES: LazyLock<Searches> = LazyLock::new(|| {
    let zram = "[zram]\nsubject = \"zram:lz4\"\nmax-load = 2\ntarget-p99 = 0.00002\n";
    let pager = "[pager]\nsubject = \"pager:lz4\"\nmax-load = 2\n";
    let pager = if has_userfaultfd() { pager } else { "" };
    let (run, ended) = run_of(&format!("{zram}{pager}"));
    let recording = run.recording().unwrap_or_default();
    Searches {
        ended,
        page: std::fs::read_to_string(recording.join("report.html")).unwrap_or_default(),
        samples: samples(&recording),
    }
});

/// The points of a trial, by load.
fn points(trial: &Value) -> Vec<&Value> {
    let mut points: Vec<&Value> = phases(trial).iter().collect();
    points.sort_by(|a, b| phase_value(a, "load").total_cmp(&phase_value(b, "load")));
    points
}

#[test]
fn loads_beyond_the_limit_go_to_zram_and_every_page_is_right() {
    if !has_laboratory() {
        return;
    }
    let trial = trials_of(&SEARCHES.ended, "zram")[0];
    let points = points(trial);
    let loads: Vec<f64> = points.iter().map(|point| phase_value(point, "load")).collect();
    for load in [0.5, 1.0, 1.5, 2.0] {
        assert!(loads.contains(&load), "{load} is not in {loads:?}");
    }
    for point in &points {
        let visits = phase_value(point, "visits");
        let (useful, per_second) = (
            phase_value(point, "visits_per_s"),
            phase_value(point, "wall_visits_per_s"),
        );
        let seconds = point["seconds"].as_f64().expect("seconds");
        assert!(
            visits > 10.0 && (per_second * seconds / visits - 1.0).abs() < 0.01,
            "{point:#}"
        );
        // Without the time that it waited for a CPU a visit takes no longer.
        assert!(useful >= per_second, "{point:#}");
        assert!(phase_value(point, "early_kills") <= 2.0, "{point:#}");
        assert!((phase_value(point, "size_bytes") / LIMIT - phase_value(point, "load")).abs() < 0.001);
        assert!(
            phase_value(point, "p50_s") <= phase_value(point, "p99_s")
                && phase_value(point, "p99_s") <= phase_value(point, "max_s")
        );
        assert!(
            phase_value(point, "own_s") > 0.0
                && phase_value(point, "generator_s") < phase_value(point, "own_s")
        );
        assert!(point["latency"].as_str().is_some_and(|text| !text.is_empty()));
    }
    let (light, heavy) = (points[0], *points.last().expect("points"));
    assert!(phase_value(light, "swapped_bytes") < LIMIT / 10.0);
    assert!(
        (phase_value(light, "resident_bytes") / (LIMIT / 2.0) - 1.0).abs() < 0.5,
        "{light:#}"
    );
    assert!(
        phase_value(heavy, "swapped_bytes") > LIMIT / 2.0 && phase_value(heavy, "store_bytes") > LIMIT / 10.0
    );
    assert!(phase_value(heavy, "ram_load") < phase_value(heavy, "load") * 0.9);
    // Half of the pages are elsewhere, so about half of the visits fault.
    let faults = phase_value(heavy, "hard_faults_per_s") / phase_value(heavy, "wall_visits_per_s");
    assert!((0.25..0.75).contains(&faults), "{faults} faults a visit");
    let metrics = &trial["metrics"];
    let low = metrics["knee_low_load"].as_f64().expect("a load that is carried");
    if let (Some(knee), Some(high)) = (metrics["knee_load"].as_f64(), metrics["knee_high_load"].as_f64()) {
        assert!(low <= knee && knee <= high && high <= low * 1.051, "{metrics:#}");
    }
    assert!(SEARCHES.page.contains("data-chart=\"work-over-load\""));
}

#[test]
fn without_swap_the_kill_is_what_is_measured() {
    if !has_laboratory() {
        return;
    }
    let ended = small(&["--set", "subject=none"]).finish();
    ended.assert_went_well();
    let trial = &ended.trials()[0];
    let points = points(trial);
    let last = points.last().expect("points");
    assert_eq!(
        (phase_value(last, "oom_killed"), phase_value(last, "visits_per_s")),
        (1.0, 0.0)
    );
    assert_eq!(phase_value(last, "early_kills"), 0.0, "without swap none is free");
    let killed = trial["metrics"]["oom_killed_load"].as_f64().expect("a kill");
    let carried = trial["metrics"]["knee_load"].as_f64().expect("a knee");
    assert!(
        carried >= 0.5 && carried < killed && killed <= 1.5,
        "{:#}",
        trial["metrics"]
    );
}

#[test]
fn without_a_cgroup_nothing_is_measured() {
    let arguments = [
        "loadline",
        "--set",
        "subject=none",
        "--set",
        "limit=16M",
        "--repeat",
        "1",
    ];
    let Some(ended) = unprivileged(&arguments) else {
        return;
    };
    ended.assert_failed(3, "not-run");
    assert!(
        ended.warning_codes().contains(&"capability-missing"),
        "{:#}",
        ended.results
    );
    for trial in ended.trials() {
        assert!(trial["phases"].as_array().is_none_or(Vec::is_empty), "{trial:#}");
        assert_eq!(trial["metrics"]["knee_low_load"], Value::Null);
    }
}

#[test]
fn every_pattern_is_verified() {
    if !has_laboratory() {
        return;
    }
    let small = [
        "--set",
        "limit=16M",
        "--set",
        "loads=[0.5, 1.5]",
        "--set",
        "duration=0.05",
        "--repeat",
        "1",
    ];
    let ended = Run::of("loadline-patterns", &small).finish();
    ended.assert_went_well();
    assert_eq!(ended.trials().len(), 5);
}

#[test]
fn a_sweep_ends_at_once_when_it_is_stopped() {
    if !has_laboratory() {
        return;
    }
    // Half of that is warm-up, before the point begins.
    let run = small(&["--set", "subject=zram", "--set", "duration=8"]);
    let mut started = run.start();
    started.await_event("phase-start", "load 0.5");
    // It cannot measure the point to its end, so that nothing but the signal ends the wait for it.
    started.stop_worker();
    started.signal(Signal::INT);
    let ended = started.finish();
    ended.assert_stopped(5, "signal", "SIGINT");
    let events = std::fs::read_to_string(run.recording().expect("a recording").join("events.jsonl"))
        .expect("the events of the run");
    let of_point = |line: &&str| {
        let event: Value = serde_json::from_str(line).expect("an event");
        event["phase"] == "load 0.5"
    };
    assert_eq!(
        events.lines().filter(of_point).count(),
        2,
        "start and end: {events}"
    );
    for trial in ended.trials() {
        assert!(trial["phases"].as_array().is_none_or(Vec::is_empty), "{trial:#}");
    }
}
