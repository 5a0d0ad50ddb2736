//! Reports of recordings of `plimsoll watch`: no trials, and marks set by hand.

use plimsoll_model::recording::model::{Event, EventKind, WATCH};
use plimsoll_model::recording::{Recording, StatementCode};
use plimsoll_report::page::build;
use plimsoll_report::{html, markdown, terminal};

use super::lone::{self, HOSTILE, event};
use super::synthetic;

/// A recording as the monitor makes it of the synthetic machine, with an event of every kind that it marks.
fn watched() -> Recording {
    let kinds = [
        (EventKind::RunStart, None),
        (EventKind::Target, None),
        (EventKind::Mark, Some(1)),
        (EventKind::Mark, Some(4)),
        (EventKind::Mark, None),
        (EventKind::Trim, None),
        (EventKind::Release, None),
        (EventKind::PageFlags, None),
        (EventKind::Warning, None),
        (EventKind::RunEnd, None),
    ];
    let events = (0_u64..).zip(kinds).map(|(second, (kind, number))| Event {
        number,
        ..event(second, kind, None, HOSTILE)
    });
    lone::recording(WATCH, &format!("watch of pid 42 {HOSTILE}"), events.collect())
}

#[test]
fn the_report_of_a_watch_has_no_trials() {
    let recording = watched();
    let results = plimsoll_report::results(&recording);
    let page = build(&recording, &results);
    let labels: Vec<&str> = page.marks.iter().map(|mark| mark.label.as_str()).collect();
    assert_eq!(labels, ["*", "1", "4", "m", "T", "E", "k", "!"]);
    let target = recording.samples.column("target_resident").expect("sampled");
    let most = target.iter().flatten().max().expect("a target");
    let peak = plimsoll_model::quantity::bytes(most as f64);
    assert!(page.manifest.is_watch());
    let finding = &page.headline.finding;
    assert_eq!(finding.code, StatementCode::WatchTarget);
    assert!(finding.names["target"].starts_with("pid 42 "), "{finding:?}");
    assert_eq!(finding.values["samples_per_s"], 10.0);
    let mut bullets = page.headline.bullets.iter();
    let resident = bullets
        .find(|bullet| bullet.code == StatementCode::WatchResident)
        .expect("the peak");
    assert_eq!(resident.values["target_resident_bytes"], most as f64);
    // The numbers stand in the texts too.
    for (statement, number) in [(finding, "10 Hz"), (resident, &*peak)] {
        assert!(statement.text.contains(number), "{statement}");
    }

    let text = terminal::watched(&recording, &results, 80);
    let document = markdown::markdown(&recording, &results);
    let of_trials = terminal::summary(&results, &page.groups, 80, false);
    let html = html::render(&page);
    std::fs::write(synthetic::folder().join("watched.html"), &html).expect("written");
    for (name, shown) in [("terminal", &text), ("markdown", &document), ("page", &html)] {
        assert!(!shown.contains(of_trials.trim()), "{name}");
        assert!(!shown.to_lowercase().contains("calibration"), "{name}");
        assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{name}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(
        !document.contains("0 trials") && !document.contains("<img"),
        "{document}"
    );
    assert_eq!(html.matches("<svg class=\"timeline\"").count(), 1);
    assert_eq!(html.matches("<svg class=\"bars\"").count(), 0);
    assert_eq!(html.matches("<table class=\"sortable\">").count(), 1);
    assert!(!html.contains(" data-empty"));
    assert!(!html.contains("<img"), "an element came in from outside");
    assert_eq!(html.matches("</script>").count(), 2);
}

#[test]
fn a_watch_without_samples_says_so() {
    let mut recording = watched();
    recording.samples = plimsoll_model::recording::Samples::from_rows(&[]);
    let results = plimsoll_report::results(&recording);
    let page = build(&recording, &results);
    assert!(
        page.overview.t.is_empty() && page.headline.bullets.is_empty(),
        "{:?}",
        page.headline
    );
    let finding = &page.headline.finding;
    assert_eq!(finding.code, StatementCode::WatchWithoutSamples);
    assert!(finding.names["target"].starts_with("pid 42 "), "{finding:?}");
    assert!(!html::render(&page).contains("NaN"));
}
