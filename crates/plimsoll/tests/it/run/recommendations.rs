//! The recommendations at the end of a real run.

use serde_json::Value;

use super::devices::{as_root, compressible};
use super::{Run, SIZE, has_laboratory};

/// The elements of a list of the results about this setting.
fn about<'a>(results: &'a Value, list: &str, setting: &str) -> Vec<&'a Value> {
    let all = results[list].as_array().expect("a list");
    all.iter().filter(|one| one["setting"] == setting).collect()
}

/// Whether a metric is trustworthy in every trial.
fn trusted(trials: &[Value], metric: &str) -> bool {
    trials
        .iter()
        .all(|trial| trial["metrics"][metric].is_number() && !trial["untrustworthy"][metric].is_array())
}

#[test]
fn six_repeats_of_real_data_end_with_a_size_of_zram() {
    if !has_laboratory() {
        return;
    }
    let run = Run::of(
        "compression",
        &[
            "--repeat",
            "6",
            SIZE,
            "hold=0.1",
            "class=ratio=2.5",
            "subject=[\"zram:lz4\", \"zram:lzo-rle\"]",
        ],
    );
    let ended = run.finish();
    ended.assert_went_well();
    let trials = ended.trials();
    let results = &ended.results;
    if trusted(trials, "stored_ratio") {
        let [size] = about(results, "recommendations", "zram-size")[..] else {
            panic!("{results:#}")
        };
        assert_eq!(size["code"], "zram-size");
        assert_eq!(
            (&size["basis"], &size["repeats"]),
            (&"stored_ratio".into(), &6.into())
        );
        assert_eq!(size["conditions"]["class"], "ratio=2.5");
        let worth = |name: &str| size["worth"][name].as_f64().expect("a number");
        assert!(1.5 < worth("low") && worth("low") <= worth("median") && worth("median") <= worth("high"));
        // Half of the RAM, times a ratio of the data that the interval allows.
        let manifest = std::fs::read_to_string(run.recording().expect("a recording").join("manifest.json"));
        let manifest: Value = serde_json::from_str(&manifest.expect("a manifest")).expect("JSON");
        let ram = manifest["host"]["mem_total"].as_f64().expect("bytes");
        let bytes: f64 = size["value"]
            .as_str()
            .and_then(|text| text.parse().ok())
            .expect("bytes");
        let ratio = bytes / (ram / 2.0);
        assert!((2.0..2.6).contains(&ratio), "{ratio}: {size:#}");
        assert!(
            (ratio - (2.0 * worth("low") - 1.0)).abs() < 0.001,
            "{ratio}: {size:#}"
        );
        assert!(!size["commands"].as_array().expect("commands").is_empty());
    }
    // Which algorithm is better depends on the machine, and whether it is known on its load: one answer in each case.
    let answers = about(results, "recommendations", "swap").len() + about(results, "withheld", "swap").len();
    assert_eq!(answers, 1, "{results:#}");
    if let [swap] = about(results, "recommendations", "swap")[..] {
        assert!(swap["value"].as_str().expect("a subject").starts_with("zram:"));
        let (low, high) = (&swap["worth"]["low"], &swap["worth"]["high"]);
        assert!(
            low.as_f64() > Some(1.0) && low.as_f64() <= high.as_f64(),
            "{swap:#}"
        );
    }
}

#[test]
fn one_repeat_has_no_recommendation_and_a_reason() {
    let Some((ended, _)) = as_root() else { return };
    ended.assert_went_well();
    assert_eq!(ended.results["recommendations"], serde_json::json!([]));
    let withheld = about(&ended.results, "withheld", "zram-size");
    assert_eq!(withheld.len(), 1);
    let code = withheld[0]["code"].as_str().expect("a code");
    let text = withheld[0]["text"].as_str().expect("a text");
    let spoiled = ["zram:lzo-rle", "zram:lz4"].iter().any(|subject| {
        let trial = compressible(ended, subject);
        text.contains(subject) && !trusted(std::slice::from_ref(trial), "stored_ratio")
    });
    assert!(code == "too-few-repeats" || spoiled, "{code}");
}
