//! Memory of files and memory files, and workers of several threads: compression and wscap for real.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Run, has_laboratory, metric, phase, phase_names, phase_value};

const SIZE: f64 = (16 << 20) as f64;

fn param<'t>(trial: &'t Value, name: &str) -> &'t str {
    trial["params"][name]
        .as_str()
        .unwrap_or_else(|| panic!("{name}: {trial:#}"))
}

fn has_metric(trial: &Value, name: &str) -> bool {
    trial["metrics"][name].is_number()
}

/// Metrics of swap and of compression, which pages of files have none of.
const OF_SWAP: [&str; 5] = [
    "stored_bytes",
    "compression_ratio",
    "stored_ratio",
    "original_bytes",
    "swapped_bytes",
];
/// Metrics of files alone.
const OF_FILES: [&str; 2] = ["dirty_bytes", "cached_bytes"];

#[test]
fn every_store_is_trimmed_in_every_way_by_one_thread_and_by_several() {
    if !has_laboratory() {
        return;
    }
    let run = Run::of(
        "compression",
        &[
            "--set",
            "size=16M",
            "--set",
            "request=6M",
            "--set",
            "class=ratio=2.5",
            "--set",
            "subject=zram",
            "--set",
            "hold=0.1",
            "--set",
            "memory=[anonymous, memfd, file]",
            "--set",
            "threads=[1, 3]",
            "--set",
            "trim=[worker, process-madvise, cgroup]",
            "--repeat",
            "1",
        ],
    );
    let ended = run.finish();
    ended.assert_went_well();
    assert_eq!(ended.trials().len(), 18);
    let seen: BTreeSet<_> = ended
        .trials()
        .iter()
        .map(|trial| ["memory", "threads", "trim"].map(|name| param(trial, name)))
        .collect();
    assert_eq!(seen.len(), 18);
    for trial in ended.trials() {
        check_compression(trial);
    }
}

fn check_compression(trial: &Value) {
    assert_eq!(trial["verified"], true, "{trial:#}");
    for name in ["fill", "trim", "restore", "release"] {
        assert!(
            phase(trial, name)["seconds"].as_f64() > Some(0.0),
            "{name}: {trial:#}"
        );
    }
    assert_eq!(phase(trial, "fill")["bytes"].as_f64(), Some(SIZE));
    assert_eq!(phase(trial, "restore")["bytes"].as_f64(), Some(SIZE));
    assert!(metric(trial, "trimmed_ratio") > 0.9, "{trial:#}");
    assert!(metric(trial, "trim_gb_per_s") > 0.0 && metric(trial, "restore_gb_per_s") > 0.0);
    let major = phase(trial, "restore")["major_faults"].as_u64();
    match param(trial, "memory") {
        "file" => {
            assert_eq!(trial["subject"], "none", "no page goes to swap");
            assert_eq!(
                phase_names(trial),
                ["fill", "writeback", "trim", "restore", "release"]
            );
            assert!(OF_SWAP.iter().all(|name| !has_metric(trial, name)), "{trial:#}");
            assert!(metric(trial, "cached_bytes") <= SIZE / 20.0, "{trial:#}");
            assert!(metric(trial, "dirty_bytes") <= 1.1 * SIZE, "{trial:#}");
            assert!(major > Some(0), "restore read the file: {trial:#}");
        }
        _ => {
            assert_eq!(trial["subject"], "zram");
            assert_eq!(phase_names(trial), ["fill", "trim", "restore", "release"]);
            assert!(OF_FILES.iter().all(|name| !has_metric(trial, name)), "{trial:#}");
            assert!(metric(trial, "swapped_bytes") > 0.9 * SIZE, "{trial:#}");
            let ratio = metric(trial, "compression_ratio");
            assert!((2.2..=2.8).contains(&ratio), "{ratio} of 2.5: {trial:#}");
            assert!(major > Some(100), "restore read from swap: {trial:#}");
        }
    }
}

#[test]
fn a_cap_on_memory_of_files_refaults_from_the_file() {
    if !has_laboratory() {
        return;
    }
    let settings = |duration: &str, memory: &str, cap: &str| {
        let mut arguments = ["--repeat", "1"].map(str::to_owned).to_vec();
        for setting in [
            "size=16M",
            "hold=0",
            "subject=zram",
            "threads=[1, 3]",
            duration,
            memory,
            cap,
        ] {
            arguments.extend(["--set".to_owned(), setting.to_owned()]);
        }
        arguments
    };
    let run = |settings: &[String]| {
        let arguments: Vec<&str> = settings.iter().map(String::as_str).collect();
        let ended = Run::of("wscap", &arguments).finish();
        ended.assert_went_well();
        ended
    };
    let mut ended = run(&settings(
        "duration=0.6",
        "memory=[memfd, file]",
        "cap-by=[limit, balance]",
    ));
    assert_eq!(ended.trials().len(), 8);
    // Each scan of a capped file writes 16 MiB to the disk and reads it again. A slow disk ends none in time.
    for longer in ["duration=2.4", "duration=9.6", ""] {
        let (whole, cut): (Vec<&Value>, Vec<&Value>) =
            ended.trials().iter().partition(|trial| is_whole(trial));
        whole.into_iter().for_each(check_wscap);
        if cut.is_empty() {
            return;
        }
        assert!(!longer.is_empty(), "no scan in 9.6 s: {cut:#?}");
        ended = run(&settings(longer, "memory=file", "cap-by=limit"));
    }
}

fn is_limited_file(trial: &Value) -> bool {
    param(trial, "memory") == "file" && param(trial, "cap-by") == "limit"
}

/// Whether each thread came to the end of its first scan under a limit on a file.
fn is_whole(trial: &Value) -> bool {
    !is_limited_file(trial) || phase(trial, "capped")["values"]["first_scan_s"].is_number()
}

fn check_wscap(trial: &Value) {
    assert_eq!(trial["verified"], true, "{trial:#}");
    assert_eq!(
        phase_names(trial),
        ["fill", "uncapped", "capped", "emptied", "verify"]
    );
    let pages = SIZE / 4096.0;
    assert!(
        phase_value(phase(trial, "uncapped"), "faults_per_scan_count") < pages / 20.0,
        "{trial:#}"
    );
    assert!(
        phase_value(phase(trial, "uncapped"), "resident_min_bytes") > 0.9 * SIZE,
        "{trial:#}"
    );
    assert!(
        phase_value(phase(trial, "emptied"), "stayed_bytes") <= SIZE / 20.0,
        "{trial:#}"
    );
    assert!(metric(trial, "faults_per_scan_count") > 0.0, "{trial:#}");
    let of_file = param(trial, "memory") == "file";
    assert_eq!(trial["subject"], if of_file { "none" } else { "zram" });
    for name in ["cache_hits_percent", "file_refaults_per_scan_count"] {
        assert_eq!(has_metric(trial, name), of_file, "{name}: {trial:#}");
    }
    let is_limited = param(trial, "cap-by") == "limit";
    if is_limited {
        assert!(metric(trial, "slowdown_ratio") > 2.0, "{trial:#}");
        assert!(
            metric(trial, "capped_resident_max_bytes") < 0.7 * SIZE,
            "{trial:#}"
        );
    }
    if is_limited_file(trial) {
        let a_scan = metric(trial, "file_refaults_per_scan_count");
        let scans = phase_value(phase(trial, "capped"), "scans_count");
        // One scan alone may be exactly one refault of each page: a product of two quotients.
        assert!(
            (a_scan * scans).round() >= pages,
            "each page at least once: {trial:#}"
        );
        // Of several threads, one whose part stays in RAM makes nearly all scans meanwhile.
        let is_divided = param(trial, "threads") != "1" && a_scan * scans > 4.0 * pages;
        assert!(a_scan > pages / 8.0 || is_divided, "{trial:#}");
    }
    if of_file && !is_limited {
        // The manager unmaps dirty pages, which stay in the page cache until they are written.
        assert!(metric(trial, "cache_hits_percent") > 50.0, "{trial:#}");
    }
}
