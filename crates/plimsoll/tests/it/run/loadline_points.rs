//! `plimsoll run loadline` on real zram and swap files: given points, a fixed working set, targets, threads, reads beside
//! writes, and visits that are due at a rate.

use std::sync::LazyLock;

use serde_json::Value;

use super::loadline::{self, SEARCHES, run_of};
use super::{Ended, Run, has_laboratory, phase_value, phases};

const MIB: f64 = (1 << 20) as f64;

/// The given points of most tests here, and of two of `page_cache`, in one run.
static POINTS: LazyLock<Ended> = LazyLock::new(|| {
    // No visit takes ten seconds here, and none takes less than a nanosecond. A visit of a millisecond is ten times longer than
    // a rate of 10000 allows: overload, even where all memory is resident.
    let (_, ended) = run_of(
        r#"
[targets]
loads = [1.5, 0.5, 1.25]
target-p99 = [10, 0.000000001]
[just-above]
loads = [1.025, 1.028, 1.031, 1.034, 1.04, 1.05]
[without-swap]
subject = "none"
size = "32M"
limit = ["64M", "48M", "24M", "16M"]
[threads]
loads = [0.5, 1.5]
threads = [1, 4]
pattern = ["zipf", "chase"]
[reads]
subject = "swapfile"
loads = [0.5, 1.5]
write-percent = [0, 25, 100]
[rate]
loads = [0.5, 1.5]
duration = 0.2
compute = 0
threads = 2
rate = 2000
[overload]
loads = [0.5, 1]
duration = 0.2
compute = 0.001
rate = 10000
[file]
subject = "none"
loads = [0.5, 1.5]
duration = 0.2
write-percent = 0
file-percent = 100
pattern = "zipf"
[written-file]
loads = [0.5, 1.5]
duration = 0.2
write-percent = 50
file-percent = 30
threads = 2
pattern = "chase"
"#,
    );
    ended
});

pub(super) fn trials_of(section: &str) -> Vec<&'static Value> {
    loadline::trials_of(&POINTS, section)
}

fn values_of(trial: &Value, name: &str) -> Vec<f64> {
    phases(trial)
        .iter()
        .map(|point| phase_value(point, name))
        .collect()
}

fn metric(trial: &Value, name: &str) -> Option<f64> {
    trial["metrics"][name].as_f64()
}

#[test]
fn given_loads_are_measured_in_their_order_and_no_others() {
    if !has_laboratory() {
        return;
    }
    let trial = trials_of("targets")[0];
    assert_eq!(values_of(trial, "load"), [0.5, 1.25, 1.5]);
    assert_eq!(trial["params"]["loads"], "0.5,1.25,1.5");
    let rates = values_of(trial, "visits_per_s");
    assert_eq!(metric(trial, "work_at_1_5_ratio"), Some(rates[2] / rates[0]));
    assert_eq!(trial["metrics"]["work_at_1_ratio"], Value::Null);
}

/// Reclaim decided by statistics of up to 2 s ago, found nothing on an inactive list that they showed as long, and the OOM
/// killer ended a worker at every tenth such point; once three in a row, at 1.031, which ended the run.
#[test]
fn the_oom_killer_spares_workers_just_above_the_limit() {
    if !has_laboratory() {
        return;
    }
    let killed: f64 = values_of(trials_of("just-above")[0], "early_kills").iter().sum();
    assert!(killed <= 1.0, "{killed} early kills");
}

#[test]
fn a_fixed_working_set_stays_while_the_limit_falls() {
    if !has_laboratory() {
        return;
    }
    let run = Run::of(
        "loadline",
        &[
            "--repeat",
            "1",
            "--set",
            "subject=zram",
            "--set",
            "duration=0.15",
            "--set",
            "size=48M",
            "--set",
            "limit=[96M, 48M, 32M, 16M]",
        ],
    );
    let ended = run.finish();
    ended.assert_went_well();
    let trial = &ended.trials()[0];
    let limits: Vec<f64> = values_of(trial, "limit_bytes")
        .iter()
        .map(|bytes| bytes / MIB)
        .collect();
    assert_eq!(limits, [96.0, 48.0, 32.0, 16.0]);
    assert!(
        values_of(trial, "size_bytes")
            .iter()
            .all(|bytes| *bytes == 48.0 * MIB)
    );
    let names: Vec<&str> = phases(trial)
        .iter()
        .filter_map(|point| point["name"].as_str())
        .collect();
    assert_eq!(names, ["limit 96M", "limit 48M", "limit 32M", "limit 16M"]);
    for (point, limit) in phases(trial).iter().zip(&limits) {
        // The kernel enforces the limit of each point: resident memory is below it, but for what the worker got before it
        // was moved into the cgroup, and the rest is in swap.
        let (resident, swapped) = (
            phase_value(point, "resident_bytes"),
            phase_value(point, "swapped_bytes"),
        );
        assert!(resident <= (limit + 4.0) * MIB, "{point:#}");
        assert!(swapped >= (48.0 - limit) * MIB * 0.9, "{point:#}");
    }
    let has_result = trial["status"] == "ok";
    if let (Some(needed), Some(knee), true) = (
        metric(trial, "needed_limit_bytes"),
        metric(trial, "knee_load"),
        has_result,
    ) {
        assert!((needed * knee / (48.0 * MIB) - 1.0).abs() < 1e-6);
        let finding = &ended.results["headline"]["finding"];
        assert_eq!(finding["code"], "loadline-needs", "{finding:#}");
        assert_eq!(finding["values"]["size_bytes"], 48.0 * MIB, "{finding:#}");
    }
    let page =
        std::fs::read_to_string(run.recording().expect("a recording").join("report.html")).expect("a page");
    assert!(page.contains("data-chart=\"work-over-limit\""));
}

/// Without swap a limit below the working set gets the worker killed, also where the limit was larger before: nothing may
/// go to the swap of the machine.
#[test]
fn without_swap_a_fixed_working_set_needs_a_limit_that_holds_it() {
    if !has_laboratory() {
        return;
    }
    let trial = trials_of("without-swap")[0];
    let points = phases(trial);
    assert_eq!(points.len(), 3, "16M would be no better than 24M");
    assert_eq!(phase_value(&points[2], "oom_killed"), 1.0);
    assert_eq!(metric(trial, "oom_killed_load"), Some(32.0 / 24.0));
    let needed = metric(trial, "needed_limit_bytes").expect("a limit");
    assert!((needed / (48.0 * MIB) - 1.0).abs() < 1e-9, "{needed}");
}

#[test]
fn a_target_of_p99_has_a_load_line_beside_useful_work() {
    if !has_laboratory() {
        return;
    }
    for trial in trials_of("targets") {
        let (target, missed) = (metric(trial, "target_load"), metric(trial, "target_high_load"));
        match trial["params"]["target-p99"].as_str() {
            Some("10") => assert_eq!((target, missed), (Some(1.5), None)),
            Some(_) => assert_eq!((target, missed), (None, None)),
            None => panic!("{trial:#}"),
        }
        assert!(metric(trial, "knee_low_load").is_some());
    }
    // A search brackets the target too.
    let trial = loadline::trials_of(&SEARCHES.ended, "zram")[0];
    if let (Some(target), Some(missed)) = (metric(trial, "target_load"), metric(trial, "target_high_load")) {
        assert!(
            target < missed && missed <= target * 1.051,
            "{:#}",
            trial["metrics"]
        );
        let p99 = |load: f64| {
            let of_load = phases(trial)
                .iter()
                .filter(|point| phase_value(point, "load") == load);
            of_load
                .map(|point| phase_value(point, "p99_s"))
                .fold(f64::INFINITY, f64::min)
        };
        assert!(p99(target) <= 0.000_02);
    }
}

#[test]
fn several_threads_visit_one_memory_and_no_count_is_lost() {
    if !has_laboratory() {
        return;
    }
    // A wrong tag or a lost count would have failed the trial.
    let trials = trials_of("threads");
    assert_eq!(trials.len(), 4);
    for trial in trials {
        assert_eq!(trial["verified"], true);
        for point in phases(trial) {
            assert!(phase_value(point, "visits") >= 10.0, "{point:#}");
            assert_eq!(phase_value(point, "visits"), phase_value(point, "writes"));
        }
    }
}

#[test]
fn reads_stand_beside_writes() {
    if !has_laboratory() {
        return;
    }
    for trial in trials_of("reads") {
        let percent: f64 = trial["params"]["write-percent"]
            .as_str()
            .map_or(100.0, |text| text.parse().unwrap());
        for point in phases(trial) {
            let (visits, writes) = (phase_value(point, "visits"), phase_value(point, "writes"));
            // Six standard deviations of the number of writes.
            let share = percent / 100.0;
            let allowed = 6.0 * (visits * share * (1.0 - share)).sqrt();
            assert!((writes - visits * share).abs() <= allowed, "{writes} of {visits}");
            let both = percent == 25.0 && visits > 100.0;
            assert!(point["values"]["read_p99_s"].is_number() >= both, "{point:#}");
            assert!(point["values"]["write_p99_s"].is_number() >= both, "{point:#}");
        }
    }
}

#[test]
fn an_open_loop_reports_what_it_achieved_of_its_rate() {
    if !has_laboratory() {
        return;
    }
    let trial = trials_of("rate")[0];
    for point in phases(trial) {
        let (visits, unserved) = (
            phase_value(point, "visits"),
            phase_value(point, "unserved_visits"),
        );
        assert_eq!(
            (visits + unserved, phase_value(point, "offered_per_s")),
            (400.0, 2000.0)
        );
        assert!((phase_value(point, "achieved_ratio") - visits / 400.0).abs() < 1e-9);
        assert!((phase_value(point, "visits_per_s") - visits / 0.2).abs() < 1e-6);
        assert!(point["values"]["net_visit_s"].is_null());
    }
    let trial = trials_of("overload")[0];
    assert_eq!(metric(trial, "overload_load"), Some(0.5));
    assert_eq!(
        (metric(trial, "knee_load"), metric(trial, "knee_low_load")),
        (None, None)
    );
    let id = trial["id"].as_str().expect("an id");
    let warnings = POINTS.results["warnings"].as_array().expect("warnings");
    let of_trial = |warning: &Value| {
        let text = warning["text"].as_str().expect("a text");
        warning["code"] == "overload" && text.starts_with(&format!("{id}:"))
    };
    assert!(warnings.iter().any(of_trial), "{warnings:#?}");
    // Nothing is left out of the percentiles: the median visit waited for a large part of the stretch.
    assert!(
        values_of(trial, "p50_s").iter().all(|p50| *p50 > 0.05),
        "{trial:#}"
    );
}
