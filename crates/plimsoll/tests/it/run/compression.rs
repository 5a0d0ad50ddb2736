//! The compression experiment on every subject and mechanism, and the content of its results.

use plimsoll_model::recording::model::RESULTS_SCHEMA;
use serde_json::Value;

use super::devices::{as_root, compressible};
use super::{Run, has_laboratory, phase_names, phases};

#[test]
fn the_main_experiment_is_measured_verified_and_recorded() {
    if !has_laboratory() {
        return;
    }
    let run = Run::new(&[]);
    let ended = run.finish();
    ended.assert_went_well();
    assert_eq!(ended.results["schema"], RESULTS_SCHEMA);
    assert_eq!(ended.results["scenario"], "compression");
    assert_eq!(ended.trials().len(), 3, "random, runs20, constant");
    for trial in ended.trials() {
        check_phases(trial);
    }
    let stored = |class: &str| metric(&ended.results, class, "stored_bytes");
    assert!(stored("random") > 30e6, "random data does not compress");
    assert!(stored("constant") < 1e6, "constant data needs next to nothing");
    assert!(stored("runs20") < stored("random") / 2.0 && stored("runs20") > stored("constant"));
    let folder = run.recording().expect("a recording");
    for file in [
        "manifest.json",
        "samples.parquet",
        "events.jsonl",
        "trials.jsonl",
        "results.json",
        "report.html",
    ] {
        assert!(folder.join(file).exists(), "{file} is missing");
    }
    assert!(
        !folder.join("samples.arrows").exists(),
        "the live stream outlived the run"
    );
}

/// Four phases, each with a cost, and categories that sum to the same MemTotal throughout.
fn check_phases(trial: &Value) {
    let phases = phases(trial);
    assert_eq!(phase_names(trial), ["fill", "trim", "restore", "release"]);
    let total = mem_total();
    for phase in phases {
        assert!(phase["seconds"].as_f64().expect("seconds") > 0.0);
        for side in ["before", "after"] {
            let sum: i64 = phase[side]
                .as_object()
                .expect("categories")
                .values()
                .filter_map(Value::as_i64)
                .sum();
            assert_eq!(sum, total, "{side} {} does not sum to MemTotal", phase["name"]);
        }
    }
    let target = |phase: usize, side: &str| phases[phase][side]["target"].as_i64().expect("target");
    let size = 32 << 20;
    assert!(
        target(0, "after") - target(0, "before") > size * 95 / 100,
        "fill shows in the target's layer"
    );
    assert!(
        target(1, "before") - target(1, "after") > size * 95 / 100,
        "trim empties it"
    );
    assert!(
        target(2, "after") - target(2, "before") > size * 95 / 100,
        "restore brings it back"
    );
    assert!(
        phases[2]["major_faults"].as_u64() > Some(1000),
        "restore reads from swap"
    );
}

fn mem_total() -> i64 {
    let text = std::fs::read_to_string("/proc/meminfo").expect("/proc/meminfo");
    let kib: i64 = text
        .split_whitespace()
        .nth(1)
        .and_then(|word| word.parse().ok())
        .expect("MemTotal");
    kib * 1024
}

fn metric(results: &Value, class: &str, name: &str) -> f64 {
    let trials = results["trials"].as_array().expect("trials");
    let trial = trials
        .iter()
        .find(|trial| trial["params"]["class"] == class)
        .expect("the class");
    trial["metrics"][name]
        .as_f64()
        .unwrap_or_else(|| panic!("{name} of {class}: {trial:#}"))
}

#[test]
fn swap_files_and_zswap_are_subjects_too() {
    let Some((ended, _)) = as_root() else { return };
    ended.assert_went_well();
    let (file, zswap) = (compressible(ended, "swapfile"), compressible(ended, "zswap"));
    for trial in [file, zswap] {
        let swapped = trial["metrics"]["swapped_bytes"].as_f64().expect("swapped_bytes");
        assert!(swapped > 30e6, "{}: {swapped}", trial["subject"]);
    }
    let phases = phases(file);
    // What stays in the swap cache is in RAM: a restore that finds it there reads no disk.
    assert!(
        phases[2]["major_faults"].as_u64() > Some(100),
        "restore read nothing: {:#}",
        phases[2]
    );
    let cached = phases[1]["after"]["swap_cache"].as_i64().expect("swap_cache");
    assert!(cached < 4 << 20, "{cached} bytes of the trim are still in RAM");
    let stored = zswap["metrics"]["stored_bytes"].as_f64().expect("stored_bytes");
    assert!(
        stored > 0.0 && stored < 20e6,
        "zswap compresses data of 2.5: {stored}"
    );
}

#[test]
fn data_of_a_ratio_and_of_a_file_is_stored_and_verified() {
    if !has_laboratory() {
        return;
    }
    let file = format!("file={}", super::PLIMSOLL);
    let classes = format!("class=[\"ratio=3\", \"{file}\"]");
    let ended = Run::new(&["--set", &classes, "--set", "subject=zram:lz4"]).finish();
    ended.assert_went_well();
    let ratio = metric(&ended.results, "ratio=3", "compression_ratio");
    assert!((2.7..=3.3).contains(&ratio), "zram's lz4 makes {ratio} of 3");
    assert!(
        metric(&ended.results, &file, "compression_ratio") > 1.2,
        "a program compresses"
    );
}
