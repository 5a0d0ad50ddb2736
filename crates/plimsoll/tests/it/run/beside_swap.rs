//! Runs beside other programs that swap: the run's device takes their pages too, and other devices may take the run's.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plimsoll_model::scenario::builtin;
use serde_json::Value;

use super::{Run, Started, has_laboratory, phases};
use crate::foreign::{OtherSwap, SwappingCgroup};

const MIB: u64 = 1 << 20;

/// The trials that a confounder makes untrustworthy.
fn spoiled_by<'r>(results: &'r Value, name: &str) -> Vec<&'r str> {
    let confounders = results["confounders"].as_array().expect("confounders");
    let found = confounders.iter().find(|confounder| confounder["name"] == name);
    let spoils = found.and_then(|confounder| confounder["spoils"].as_array());
    spoils.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The confounders that make a metric of a trial untrustworthy.
fn distrust<'t>(trial: &'t Value, metric: &str) -> Vec<&'t str> {
    let confounders = trial["untrustworthy"][metric].as_array();
    confounders
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// A run of one trial with rests of `hold`.
fn random_on_zram(hold: &str) -> Run {
    Run::new(&["--set", "class=random", "--set", "subject=zram", "--set", hold])
}

/// Stops the trial's worker at the start of its fill until other programs have changed their swap. Before the fill another
/// test's run may have the machine.
fn before_the_fill<T>(started: &mut Started<'_>, change: impl FnOnce() -> T) -> T {
    started.await_event("phase-start", "fill");
    let worker = started.stop_worker();
    let changed = change();
    started.resume(worker);
    changed
}

/// "random shrinks 1.22:1": a program of 220 MiB in a cgroup of 150 MiB swapped onto the run's device.
#[test]
fn pages_of_another_cgroup_are_no_compression() {
    if !has_laboratory() {
        return;
    }
    let run = random_on_zram("hold=0.5");
    let mut started = run.start();
    let foreign = before_the_fill(&mut started, || {
        let foreign = SwappingCgroup::start(40 * MIB, 56 * MIB);
        let deadline = Instant::now() + Duration::from_secs(60);
        while foreign.most_swapped() <= 8 * MIB && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        foreign
    });
    started.await_event("phase-end", "trim");
    let swapped = foreign.most_swapped();
    drop(foreign);
    let ended = started.finish();
    assert!(swapped > 8 * MIB, "the other program did not swap: {swapped}");
    let trial = &ended.trials()[0];
    let id = trial["id"].as_str().expect("an id");
    assert_eq!(
        spoiled_by(&ended.results, "foreign-pages"),
        [id],
        "{:#}",
        ended.results
    );
    assert_ne!(trial["status"], "ok");
    if trial["status"] == "untrustworthy" {
        assert_eq!(ended.code, 7, "{}", ended.stderr);
        let ratio = super::metric(trial, "compression_ratio");
        assert!(
            ratio > 1.05,
            "the premise of this test: random data seems to shrink: {ratio}"
        );
        for metric in [
            "compression_ratio",
            "stored_bytes",
            "original_bytes",
            "swapped_bytes",
        ] {
            assert!(
                distrust(trial, metric).contains(&"foreign-pages"),
                "{metric}: {trial:#}"
            );
        }
    }
    for part in ["headline", "findings"] {
        let stated = ended.results[part].to_string();
        assert!(
            !stated.contains("compression_ratio") && !stated.contains("stored_bytes"),
            "of untrustworthy metrics: {stated}"
        );
    }
}

/// Swap of others was turned on during a run: size 256M, swapped 496M, original 0, "random 2.11:1".
#[test]
fn swap_that_others_turn_on_during_a_run_is_noticed() {
    if !has_laboratory() {
        return;
    }
    let run = random_on_zram("hold=1");
    let mut started = run.start();
    let other = before_the_fill(&mut started, || OtherSwap::turn_on(64 * MIB));
    started.await_event("phase-end", "trim");
    // Two fifths of the rest after the trim: swap that goes between two samples has no share that they could show.
    std::thread::sleep(Duration::from_millis(400));
    drop(other);
    let ended = started.finish();
    let trial = &ended.trials()[0];
    let id = trial["id"].as_str().expect("an id");
    for confounder in ["other-swap", "inconsistent-bytes"] {
        assert_eq!(
            spoiled_by(&ended.results, confounder),
            [id],
            "{confounder}: {:#}",
            ended.results
        );
    }
    assert_ne!(trial["status"], "ok");
    assert!(!distrust(trial, "original_bytes").is_empty(), "{trial:#}");
}

/// "1.09x, OOM at 1.12x", while 1.5 and 2.0 ran to the end: a kill on a device that others have filled was the answer.
#[test]
fn a_load_line_is_not_where_others_filled_the_swap() {
    if !has_laboratory() {
        return;
    }
    let small = [
        "--set",
        "subject=zram",
        "--set",
        "limit=32M",
        "--set",
        "swap-size=64M",
        "--set",
        "max-load=2",
        "--set",
        "duration=0.3",
        "--repeat",
        "1",
    ];
    let run = Run::of("loadline", &small);
    let mut started = run.start();
    started.await_event("trial-start", "");
    // More than the whole device.
    let foreign = SwappingCgroup::start(16 * MIB, 96 * MIB);
    let ended = started.finish();
    drop(foreign);
    for trial in ended.trials() {
        assert_ne!(trial["status"], "ok", "{trial:#}");
        assert_eq!(impossible(trial), Vec::<String>::new(), "{trial:#}");
    }
}

/// The metrics of a trial that are called ok and cannot be right, each with its value.
fn impossible(trial: &Value) -> Vec<String> {
    if trial["status"] == "failed" {
        return Vec::new();
    }
    let metrics = trial["metrics"].as_object().expect("metrics");
    let is_trusted = |name: &str| distrust(trial, name).is_empty();
    let of = |name: &str| metrics.get(name)?.as_f64().filter(|_| is_trusted(name));
    let param = |name: &str| trial["params"][name].as_str().unwrap_or_default();
    let size: Option<f64> = param("size").parse().ok();
    let mut wrong = Vec::new();
    let mut check = |name: &str, low: f64, high: f64| {
        if let Some(value) = of(name).filter(|value| !(low..=high).contains(value)) {
            wrong.push(format!("{name} is {value}, not within {low} to {high}"));
        }
    };
    for name in metrics.keys() {
        check(name, 0.0, f64::MAX);
        if name.ends_with("_percent") && !name.contains("cpu") {
            check(name, 0.0, 105.0);
        }
    }
    if let Some(size) = size.filter(|_| trial["workload"] == "compression") {
        for name in ["trimmed_bytes", "swapped_bytes"] {
            check(name, 0.93 * size, 1.05 * size);
        }
        if trial["subject"] != "zswap" {
            check("original_bytes", 0.93 * size, 1.05 * size);
        }
        check("stored_bytes", 0.0, 1.1 * size);
        let (low, high) = match param("class") {
            "random" => (0.9, 1.05),
            "runs20" => (3.0, 6.5),
            _ => (1.0, f64::MAX),
        };
        check("compression_ratio", low, high);
        check("stored_ratio", 0.8 * low, high);
    }
    check("fairness_ratio", 0.0, 1.0);
    check("recovered_ratio", 0.0, 1.0);
    check("cycles_done_percent", 0.0, 100.5);
    check("work_at_1_ratio", 0.0, 1.5);
    check("work_at_2_ratio", 0.0, 1.5);
    if trial["workload"] == "loadline" {
        wrong.extend(impossible_loads(trial, &of));
    }
    wrong
}

/// The same of a load line: an order of loads that cannot be.
fn impossible_loads(trial: &Value, of: &dyn Fn(&str) -> Option<f64>) -> Vec<String> {
    let mut wrong = Vec::new();
    let number = |point: &Value, name: &str| point["values"][name].as_f64();
    let completed = phases(trial)
        .iter()
        .filter(|point| number(point, "oom_killed") != Some(1.0));
    let largest = completed
        .filter_map(|point| number(point, "load"))
        .fold(0.0, f64::max);
    if let Some(killed) = of("oom_killed_load").filter(|killed| *killed < largest) {
        wrong.push(format!("killed at load {killed}, and {largest} was completed"));
    }
    let bounds = [of("knee_low_load"), of("knee_load"), of("knee_high_load")];
    if let [Some(low), Some(knee), Some(high)] = bounds
        && !(low <= knee && knee <= high)
    {
        wrong.push(format!("the knee {knee} is not between {low} and {high}"));
    }
    if let Some((knee, ram)) = of("knee_load")
        .zip(of("knee_ram_load"))
        .filter(|(knee, ram)| ram > knee)
    {
        wrong.push(format!("{knee} is less by the RAM of the store: {ram}"));
    }
    for point in phases(trial) {
        let (swapped, size) = (number(point, "swapped_bytes"), number(point, "size_bytes"));
        if let (Some(swapped), Some(size)) = (swapped, size)
            && swapped > 1.1 * size + MIB as f64
        {
            wrong.push(format!("{swapped} bytes of {size} are in swap"));
        }
        let file = number(point, "file_size_bytes").zip(number(point, "file_in_ram_bytes"));
        if let Some((size, in_ram)) = file.filter(|(size, in_ram)| in_ram > size) {
            wrong.push(format!("{in_ram} bytes of a file of {size} are in RAM"));
        }
    }
    wrong
}

/// Settings that make scenarios smaller than `--quick` does, behind the name of each.
const SMALLER: [&[&str]; 15] = [
    &["compression", "size=64M", "swap-size=256M", "hold=1"],
    &["compression-devices", "size=64M", "swap-size=256M", "hold=0.5"],
    &[
        "contention",
        "size=32M",
        "request=16M",
        "swap-size=256M",
        "hold=0.2",
    ],
    &["wscap", "size=32M", "swap-size=256M", "duration=0.5", "hold=0.2"],
    &["wscap-sweep", "size=16M", "duration=0.3", "hold=0"],
    &["map", "size=16M"],
    &["thrash", "swap-size=512M", "hold=1"],
    &["thrash-e1", "scale=0.02", "tc=5", "N=6"],
    &["thrash-e2", "scale=0.02", "tc=5", "N=6"],
    &["thrash-e3", "scale=0.02", "tc=5", "N=6"],
    &["thrash-e4", "scale=0.02", "tc=5", "N=6"],
    &["loadline", "duration=0.2"],
    &["loadline-patterns", "duration=0.1"],
    &["heap-replacement", "duration=0.1"],
    &["heap-scaling", "duration=0.1"],
];

/// Runs every scenario beside a cgroup that swaps: `just beside-swap`. The kernel writes the other program's pages to
/// the run's device, and ends the program when the device goes.
#[test]
#[ignore = "takes about ten minutes: `just beside-swap`"]
fn no_metric_called_ok_is_impossible_beside_a_cgroup_that_swaps() {
    assert!(has_laboratory(), "needs root, a memory cgroup and zram");
    let smaller: BTreeMap<&str, &[&str]> = SMALLER.map(|row| (row[0], &row[1..])).into();
    let is_builtin = |name: &&str| builtin().iter().any(|scenario| scenario.name == *name);
    assert!(smaller.keys().all(is_builtin));
    let foreign = SwappingCgroup::start(150 * MIB, 220 * MIB);
    let (mut wrong, mut counts) = (Vec::new(), [0_usize; 3]);
    for name in builtin().iter().map(|scenario| scenario.name) {
        let run = match name {
            "tour" => Run::of(name, &[]),
            _ => {
                let settings = smaller.get(name).copied().unwrap_or_default();
                Run::of(name, &[&["--quick", "--repeat", "1"], settings].concat())
            }
        };
        let ended = run.finish();
        eprintln!("{}: exit {}, {} trials", name, ended.code, ended.trials().len());
        assert!(!ended.trials().is_empty(), "{}: {}", name, ended.stderr);
        for trial in ended.trials() {
            let status = trial["status"].as_str().expect("a status");
            let id = trial["id"].as_str().expect("an id");
            eprintln!("  {id}: {status} {}", trial["reasons"]);
            let states = ["ok", "untrustworthy", "failed"];
            counts[states
                .iter()
                .position(|state| *state == status)
                .expect("a known status")] += 1;
            wrong.extend(
                impossible(trial)
                    .into_iter()
                    .map(|wrong| format!("{id}: {wrong}")),
            );
        }
    }
    let swapped = foreign.most_swapped();
    drop(foreign);
    eprintln!("ok, untrustworthy, failed: {counts:?}; the other program had {swapped} bytes in swap");
    assert!(swapped > 50 * MIB, "the other program did not swap");
    assert_eq!(wrong, Vec::<String>::new());
}
