//! `plimsoll run` without a name: a bit of every experiment, here a tiny bit.

use std::collections::BTreeSet;

use super::{PLIMSOLL, Run, has_laboratory, is_trusted};

/// Every section as small as its experiment still means something.
const TINY: &[&str] = &[
    "hold=0.1",
    "compression.size=16M",
    "wscap.size=16M",
    "wscap.duration=0.2",
    "map.size=8M",
    "contention.size=16M",
    "contention.request=8M",
    "loadline.limit=32M",
    "loadline.max-load=2",
    "loadline.duration=0.1",
    "thrash.consumers=3",
    "thrash.consumer-size=16M",
    "thrash.limit=32M",
    "thrash.writes=100",
    "thrash.stagger=0.3",
];

#[test]
fn the_tour_takes_every_experiment_and_answers_on_one_page() {
    if !has_laboratory() {
        return;
    }
    let run = Run::of("tour", TINY);
    let ended = run.finish();
    ended.assert_went_well();
    let kinds: BTreeSet<&str> = ended
        .trials()
        .iter()
        .filter_map(|trial| trial["workload"].as_str())
        .collect();
    let all = ["compression", "contention", "loadline", "map", "thrash", "wscap"];
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), all);
    for trial in ended.trials() {
        assert!(trial["metrics"]["neighbour_p99_s"].is_number(), "{}", trial["id"]);
        let headline = trial["metrics"].as_object().map_or(0, serde_json::Map::len);
        assert!(
            headline > 3,
            "{} measured nothing of its own: {trial:#}",
            trial["id"]
        );
    }
    let recording = run.recording().expect("a recording");
    let page = std::fs::read_to_string(recording.join("report.html")).expect("a page");
    let text = plimsoll_testkit::command(PLIMSOLL)
        .args(["report", "--format", "text"])
        .arg(&recording)
        .output()
        .expect("plimsoll starts");
    let text = String::from_utf8(text.stdout).expect("text");
    let headline = &ended.results["headline"];
    let found: Vec<&str> = ended.results["findings"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|finding| finding["workload"].as_str())
        .collect();
    // A headline has all trustworthy metrics, and no others.
    let is_known = |name: &str| {
        let mut trials = ended.trials().iter();
        trials.any(|trial| trial["metrics"][name].is_number() && is_trusted(trial, name))
    };
    assert!(
        found.contains(&"compression") || !is_known("compression_ratio"),
        "no finding on compression: {headline:#}"
    );
    assert_eq!(
        found.contains(&"neighbour"),
        is_known("neighbour_p99_s"),
        "{headline:#}"
    );
    // The terminal breaks lines; the report escapes quotes.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let bullets = headline["bullets"].as_array().expect("bullets");
    for bullet in bullets.iter().filter_map(|bullet| bullet.as_str()) {
        assert!(text.contains(bullet), "{bullet} in {text}");
        assert!(page.contains(&bullet.replace('\'', "&#39;")), "{bullet}");
    }
}

#[test]
fn one_section_can_be_changed_and_the_others_stay() {
    let shown = |changes: &[&str]| {
        let output = plimsoll_testkit::command(PLIMSOLL)
            .args(["run", "tour", "--show"])
            .args(changes)
            .output()
            .expect("plimsoll starts");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("text")
    };
    let section = |text: &str, name: &str| -> toml::Value {
        let document: toml::Table = text.parse().expect("TOML");
        document[name].clone()
    };
    let (plain, changed) = (shown(&[]), shown(&["thrash.consumers=3", "duration=0.5"]));
    assert_eq!(section(&changed, "thrash")["consumers"].as_integer(), Some(3));
    for known in ["wscap", "loadline"] {
        assert_eq!(section(&changed, known)["duration"].as_float(), Some(0.5));
    }
    for other in ["compression", "map", "contention"] {
        assert_eq!(section(&changed, other), section(&plain, other));
    }
}

#[test]
fn a_change_that_no_section_knows_is_an_error() {
    let output = plimsoll_testkit::command(PLIMSOLL)
        .args(["run", "tour", "map.consumers=3", "--show"])
        .output()
        .expect("plimsoll starts");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("consumers") && said.contains("`map`"), "{said}");
}

/// A program of the user is no part of the tour: no section has the keys of the workload.
#[test]
fn the_tour_runs_no_program_of_the_user() {
    let output = plimsoll_testkit::command(PLIMSOLL)
        .args(["run", "tour", "command=true", "--show"])
        .output()
        .expect("plimsoll starts");
    let ended = super::Ended::of(output);
    ended.assert_refused(1, &["command"]);
    let output = plimsoll_testkit::command(PLIMSOLL)
        .args(["run", "tour", "workload=command", "--show"])
        .output()
        .expect("plimsoll starts");
    assert_eq!(super::Ended::of(output).code, 1);
}
