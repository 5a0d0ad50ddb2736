//! `plimsoll run loadline` with pages of a file beside anonymous ones, under one limit: the choice that `vm.swappiness` makes.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::loadline::{run_of, trials_of};
use super::{Ended, Run, has_laboratory, is_trusted, loadline_points, metric, phase_value, phases};

const MIB: f64 = (1 << 20) as f64;

/// One run for two tests. Half of the pages of each trial are those of a file, so that the headline is the same for all.
static HALF: LazyLock<Ended> = LazyLock::new(|| {
    let (_, ended) = run_of(
        r#"
write-percent = 0
file-percent = 50
[usual]
loads = [0.5, 1.5]
duration = 0.2
[swappiness]
loads = [0.5, 1.25]
duration = 0.2
swappiness = [1, 200]
"#,
    );
    ended
});

fn at(trial: &Value, load: f64) -> &Value {
    let point = phases(trial)
        .iter()
        .find(|point| phase_value(point, "load") == load);
    point.unwrap_or_else(|| panic!("no load {load}: {trial:#}"))
}

#[test]
fn file_pages_and_anonymous_pages_share_one_limit() {
    if !has_laboratory() {
        return;
    }
    let trial = trials_of(&HALF, "usual")[0];
    assert_eq!(trial["verified"], true);
    assert_eq!(trial["params"]["file-percent"], "50");
    let place = trial["params"]["file-system"].as_str().expect("the file system");
    assert!(place.contains(" on "), "{place}");
    let (light, heavy) = (at(trial, 0.5), at(trial, 1.5));
    assert_eq!(phase_value(light, "file_size_bytes"), 8.0 * MIB);
    assert_eq!(phase_value(light, "file_in_ram_bytes"), 8.0 * MIB);
    assert_eq!(phase_value(heavy, "file_size_bytes"), 24.0 * MIB);
    let (file, anonymous) = (
        phase_value(heavy, "file_in_ram_bytes"),
        phase_value(heavy, "resident_bytes"),
    );
    // The limit holds both, but for the memory that the worker had before it was in the cgroup.
    assert!(file + anonymous <= 36.0 * MIB, "{heavy:#}");
    let lost = 24.0 * MIB - file + phase_value(heavy, "swapped_bytes");
    assert!(lost >= 14.0 * MIB, "a third of the pages is elsewhere: {heavy:#}");
    let back = phase_value(heavy, "swap_in_pages_per_s") + phase_value(heavy, "file_refaults_per_s");
    assert!(back > 0.0, "{heavy:#}");
    let kept = [
        metric(trial, "file_kept_at_1_5_percent"),
        metric(trial, "anonymous_kept_at_1_5_percent"),
    ];
    assert!(
        kept.iter().all(|kept| (0.0..=100.0).contains(kept)) && kept[0] + kept[1] < 200.0,
        "{kept:?}"
    );
    let bullets = HALF.results["headline"]["bullets"].as_array().expect("bullets");
    let stated = bullets
        .iter()
        .find(|bullet| bullet["code"] == "loadline-file-pages");
    // Beside other load the load line has no trustworthy value, and the headline no bullets.
    let is_told = ["knee_load", "knee_low_load"]
        .iter()
        .all(|name| is_trusted(trial, name));
    let stated = stated.map(|bullet| (&bullet["names"]["file_system"], &bullet["values"]["file_percent"]));
    assert!(
        stated == Some((&json!(place), &json!(50.0))) || !is_told,
        "{bullets:#?}"
    );
}

/// The weight of swap against page cache has its effect: nothing else differs between the two trials. Bytes in RAM do not show
/// it where read-ahead brings a reclaimed file back at once.
#[test]
fn higher_swappiness_takes_fewer_file_pages_for_each_swapped_one() {
    if !has_laboratory() {
        return;
    }
    let trials = trials_of(&HALF, "swappiness");
    let of_file = |swappiness: &str| {
        let trial = trials
            .iter()
            .find(|trial| trial["params"]["swappiness"] == swappiness);
        let trial = trial.unwrap_or_else(|| panic!("no swappiness {swappiness}: {trials:#?}"));
        let point = at(trial, 1.25);
        let (file, swapped) = (
            phase_value(point, "file_refaults_per_s"),
            phase_value(point, "swap_in_pages_per_s"),
        );
        assert!(file + swapped > 0.0, "{point:#}");
        file / (file + swapped)
    };
    let (low, high) = (of_file("1"), of_file("200"));
    assert!(low > high, "{low} {high}");
}

/// Pages of a file need no swap: the limit holds a part of them, and the rest is on the disk.
#[test]
fn pages_of_a_file_alone_are_carried_without_swap() {
    if !has_laboratory() {
        return;
    }
    let trial = loadline_points::trials_of("file")[0];
    assert_eq!(trial["metrics"]["oom_killed_load"], Value::Null, "{trial:#}");
    let heavy = at(trial, 1.5);
    assert_eq!(phase_value(heavy, "file_size_bytes"), 48.0 * MIB);
    assert!(phase_value(heavy, "file_in_ram_bytes") <= 34.0 * MIB, "{heavy:#}");
    assert_eq!(phase_value(heavy, "swapped_bytes"), 0.0);
}

#[test]
fn visits_that_write_to_file_pages_are_counted_too() {
    if !has_laboratory() {
        return;
    }
    let trial = loadline_points::trials_of("written-file")[0];
    assert_eq!(trial["verified"], true);
    let heavy = at(trial, 1.5);
    assert!(
        phase_value(heavy, "writes") > 0.0 && phase_value(heavy, "writes") < phase_value(heavy, "visits")
    );
}

/// In a folder in memory the pages would never leave RAM.
#[test]
fn a_file_in_memory_is_refused() {
    if !has_laboratory() {
        return;
    }
    let arguments = [
        "--set",
        "subject=zram",
        "--set",
        "file-percent=50",
        "--set",
        "swap-dir=/dev/shm",
    ];
    let ended = Run::of("loadline", &arguments).finish();
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    assert!(ended.stderr.contains("/dev/shm"), "{}", ended.stderr);
}
