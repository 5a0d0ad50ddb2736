//! `plimsoll run` without a name: a bit of every experiment, here a tiny bit.

use std::collections::BTreeSet;

use super::pager::has_userfaultfd;
use super::refusals::unprivileged;
use super::{Ended, PLIMSOLL, Run, failure_codes, has_laboratory, is_trusted};

/// Every section as small as its experiment still means something.
const TINY: &[&str] = &[
    "hold=0.1",
    "compression.size=16M",
    // Half of it is a budget in which the fixed costs of a pager, about 2 MiB, fit beside the copies.
    "wscap.size=32M",
    "wscap.duration=0.2",
    "map.size=8M",
    "contention.size=16M",
    "contention.request=8M",
    "loadline.limit=32M",
    "loadline.loads=[0.5, 1, 2]",
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
    for bullet in bullets {
        let bullet = bullet["text"].as_str().expect("a text");
        assert!(text.contains(bullet), "{bullet} in {text}");
        assert!(page.contains(&bullet.replace('\'', "&#39;")), "{bullet}");
    }
}

/// The sections of a tour whose work runs on a pager in any case.
const PAGED: [&str; 5] = ["compression", "contention", "loadline", "thrash", "wscap"];

fn on_pager(trial: &serde_json::Value) -> bool {
    trial["subject"]
        .as_str()
        .is_some_and(|subject| subject.starts_with("pager"))
}

/// Without root every section failed. The sections that a pager can carry are measured; the others say what is missing.
#[test]
fn a_tour_without_root_measures_what_a_pager_can_carry() {
    if !has_userfaultfd() {
        return;
    }
    let Some(ended) = unprivileged(&[&["tour"], TINY].concat()) else {
        return;
    };
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    let codes = ended.warning_codes();
    for code in ["subject-replaced", "capability-missing"] {
        assert!(codes.contains(&code), "{code}: {codes:?}");
    }
    for section in PAGED {
        let trials = ended.of_section(section);
        assert!(
            !trials.is_empty() && trials.iter().all(|trial| on_pager(trial)),
            "{section}"
        );
    }
    for trial in ended.trials() {
        match on_pager(trial) {
            true => assert!(
                trial["status"] != "failed" && trial["verified"] == true,
                "{trial:#}"
            ),
            false => assert_eq!(failure_codes(trial), ["not-run"], "{trial:#}"),
        }
    }
}

/// A user who asks for the pager gets a tour of the pager, which is complete without root, and one line a section left out.
#[test]
fn a_tour_of_the_pager_needs_no_root_and_leaves_map_out() {
    if !has_userfaultfd() {
        return;
    }
    let Some(ended) = unprivileged(&[&["tour"], TINY, &["subject=pager:lz4"]].concat()) else {
        return;
    };
    ended.assert_went_well();
    assert!(ended.trials().iter().all(on_pager), "{:#}", ended.results);
    for section in PAGED {
        assert!(!ended.of_section(section).is_empty(), "{section}");
    }
    let codes = ended.warning_codes();
    assert!(
        codes.contains(&"subject-omitted") && !codes.contains(&"capability-missing"),
        "{codes:?}"
    );
    assert!(ended.of_section("map").is_empty(), "{:#}", ended.results);
    assert!(
        ended.stderr.contains("`map`") && ended.stderr.contains("map.subject=zram"),
        "{}",
        ended.stderr
    );
}

/// A section that cannot run on one of two subjects runs on the other.
#[test]
fn a_tour_of_zram_and_the_pager_has_map_on_zram_alone() {
    let output = plimsoll_testkit::command(PLIMSOLL)
        .args(["run", "tour", "subject=[zram, pager]", "--show", "--json"])
        .output()
        .expect("plimsoll starts");
    let ended = Ended::of(output);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let trials = ended.results["plan"]["trials"].as_array().expect("trials");
    let subjects = |section: &str| -> Vec<&str> {
        let trials = trials.iter().filter(|trial| trial["section"] == section);
        let ids = trials.filter_map(|trial| trial["id"].as_str());
        let mut subjects: Vec<&str> = ids.filter_map(|id| id.split(['/', '#']).nth(1)).collect();
        subjects.dedup();
        subjects
    };
    assert_eq!(subjects("map"), ["zram"]);
    for section in PAGED {
        assert_eq!(subjects(section), ["zram", "pager"], "{section}");
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
