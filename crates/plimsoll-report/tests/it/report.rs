//! Tests of reports. They write under `target/tmp/report` the reports that `tests/page/run.sh`
//! opens and clicks through.

mod charts;
mod headlines;
mod held;
pub(crate) mod kinds;
mod lone;
pub(crate) mod recorded;
mod service;
pub(crate) mod simulation;
mod sized;
mod standalone;
pub(crate) mod synthetic;
mod watched;

use plimsoll_model::recording::StatementCode;
use plimsoll_report::analysis::gauges::Panel;
use plimsoll_report::page::build;
use plimsoll_report::{Series, html, markdown, terminal};

use simulation::{HOUR, QUICK};

/// Most bytes that a page may have.
const LARGEST_PAGE: usize = 5_000_000;

#[test]
fn an_hour_at_100_hz_makes_a_page_under_5_mb() {
    let recording = recorded::recording(HOUR, 100);
    assert_eq!(recording.samples.len(), 360_000);
    let results = recording.results.clone().expect("a finished run");
    let page = html::render(&build(&recording, &results));
    std::fs::write(synthetic::folder().join("hour.html"), &page).expect("written");
    assert!(page.len() < LARGEST_PAGE, "{} bytes", page.len());
}

/// `tests/page/page.mjs` checks their legend and their areas.
#[test]
fn each_state_of_a_pager_is_in_the_timelines() {
    const STATES: [&str; 7] = [
        "pager-active",
        "pager-modified",
        "pager-standby",
        "pager-standby-low",
        "pager-compressed",
        "pager-page-file",
        "pager-metadata",
    ];
    let recording = recorded::paged(QUICK, 10);
    let results = recording.results.clone().expect("a finished run");
    let page = build(&recording, &results);
    std::fs::write(synthetic::folder().join("pager.html"), html::render(&page)).expect("written");
    for timeline in page.trials.iter().chain([&page.overview]) {
        let pages = timeline.of(Panel::Pager);
        let keys: Vec<&str> = pages.iter().map(|series| series.key.as_str()).collect();
        assert_eq!(keys, STATES, "{:?}", timeline.trial);
        for series in pages {
            let most = series.values.iter().flatten().copied().fold(0.0, f64::max);
            assert!(most > QUICK.size / 100.0, "{:?} {}", timeline.trial, series.key);
        }
    }
}

#[test]
fn a_page_is_built_from_a_recording() {
    let recording = recorded::recording(QUICK, 10);
    let results = recording.results.clone().expect("a finished run");
    let page = build(&recording, &results);
    std::fs::write(synthetic::folder().join("recorded.html"), html::render(&page)).expect("written");

    assert_eq!(page.trials.len(), results.trials.len());
    assert_eq!(
        page.marks
            .iter()
            .map(|mark| mark.label.as_str())
            .take(4)
            .collect::<Vec<_>>(),
        ["1", "2", "3", "4"]
    );
    for at in 0..page.overview.t.len() {
        let sum: f64 = page
            .overview
            .layers
            .iter()
            .filter_map(|layer| layer.values[at])
            .sum();
        assert_eq!(sum, recording.manifest.host.mem_total as f64, "layers at {at} s");
    }
    let random = page
        .groups
        .iter()
        .position(|group| group.label.ends_with("random"))
        .expect("the class");
    let use_of = &page.memory[random];
    let median = |side: &Option<plimsoll_report::analysis::groups::Measured>| {
        side.as_ref().expect("measured").summary.median / QUICK.size
    };
    // Sampled at 10 Hz, the neighbours of a phase are up to 0.1 s off.
    assert!(
        median(&use_of.working_set[0]) > 0.95,
        "{:?}",
        use_of.working_set[0]
    );
    assert!(
        median(&use_of.working_set[1]) < 0.05,
        "{:?}",
        use_of.working_set[1]
    );
    assert!(
        median(&use_of.compressed[1]) > 0.95,
        "random data does not compress"
    );
    assert!(median(&use_of.swap_used[0]) < 0.05, "{:?}", use_of.swap_used[0]);
    assert!(median(&use_of.swap_used[1]) > 0.95, "{:?}", use_of.swap_used[1]);

    let peak = |series: &[Series], key: &str| {
        let one = series
            .iter()
            .find(|series| series.key == key)
            .expect("the series");
        one.values.iter().flatten().copied().fold(0.0, f64::max)
    };
    assert_eq!(page.overview.of(Panel::Swap)[0].label, "zram1");
    assert!(
        (peak(page.overview.of(Panel::Pressure), "memory-some") - 22.0).abs() < 3.0,
        "PSI in percent of time"
    );
    assert!(
        (peak(page.overview.of(Panel::Cpu), "user") - 48.0).abs() < 4.0,
        "CPU in percent of all CPUs"
    );
    assert!(
        peak(page.overview.of(Panel::Io), "swap-out") > 2e8,
        "pages are shown as bytes"
    );
}

#[test]
fn pages_for_the_browser_are_written() {
    for (name, page) in [
        ("quick", synthetic::page(QUICK)),
        ("advised", synthetic::advised(QUICK)),
        ("troubled", synthetic::troubled(QUICK)),
        ("hostile", synthetic::hostile(QUICK)),
    ] {
        let html = html::render(&page);
        assert!(html.ends_with("</html>"), "{name}: cut short");
        std::fs::write(synthetic::folder().join(format!("{name}.html")), &html).expect("written");
    }
}

#[test]
fn every_format_has_the_recommendations_and_each_command_on_a_line() {
    let page = synthetic::advised(QUICK);
    let results = &page.results;
    let recording = recorded::recording(QUICK, 10);
    let html = html::render(&page);
    assert!(html.contains("<section id=\"recommendations\""));
    assert!(html.contains("href=\"#recommendations\""));
    let terminal = terminal::summary(results, &page.groups, 60, false);
    let markdown = markdown::markdown(&recording, results);
    let first = &results.recommendations[0];
    let file = first.persistent.as_ref().expect("a file");
    for line in first.commands.iter().chain(&file.lines) {
        for (format, text) in [("terminal", &terminal), ("Markdown", &markdown)] {
            let whole = format!("    {line}");
            // Both are applied alike: the commands stand once.
            assert_eq!(
                text.lines().filter(|other| **other == whole).count(),
                1,
                "{format}: {line}"
            );
        }
        assert_eq!(html.matches(&format!("{line}\n")).count(), 1, "HTML: {line}");
    }
    let bare = synthetic::page(QUICK);
    assert!(!html::render(&bare).contains("id=\"recommendations\""));
    assert!(!markdown::markdown(&recording, &bare.results).contains("## Recommendations"));
}

#[test]
fn hostile_texts_stay_texts() {
    let html = html::render(&synthetic::hostile(QUICK));
    assert!(!html.contains("<img"), "an element came in from outside");
    assert!(!html.contains("<svg onload"), "an element came in from outside");
    assert_eq!(
        html.matches("</script>").count(),
        2,
        "a script element was ended from outside"
    );
}

#[test]
fn every_layer_is_in_the_static_overview() {
    let page = synthetic::page(QUICK);
    let html = html::render(&page);
    assert_eq!(html.matches("<svg class=\"timeline\"").count(), 1);
    assert_eq!(
        html.matches("<table class=\"states\"").count(),
        page.groups.len(),
        "without script the memory at the events of each group stays"
    );
    assert_eq!(html.matches("<svg class=\"bars\"").count(), 2);
    for layer in &page.overview.layers {
        assert!(
            html.contains(&format!("fill=\"var(--{})\"", layer.key)),
            "{} is not drawn",
            layer.key
        );
    }
}

#[test]
fn an_empty_run_still_makes_a_page_and_a_summary() {
    let mut page = synthetic::page(QUICK);
    page.results.trials.clear();
    page.groups.clear();
    page.trials.clear();
    page.marks.clear();
    page.overview = plimsoll_report::Timeline::default();
    let html = html::render(&page);
    assert!(!html.contains("NaN"));
    let headline = plimsoll_report::headlines::of_run(&page.results, &page.groups);
    assert_eq!(headline.finding.code, StatementCode::RunWithoutTrials);
    assert_eq!(headline.statements().count(), 1, "{headline:?}");
    assert_eq!(
        terminal::summary(&page.results, &page.groups, 80, false),
        format!("{}\n", headline.finding)
    );
}

#[test]
fn summary_of_a_good_run() {
    let page = synthetic::page(QUICK);
    insta::assert_snapshot!(terminal::summary(&page.results, &page.groups, 110, false));
}

#[test]
fn summary_of_a_troubled_run_on_a_narrow_terminal() {
    let page = synthetic::troubled(QUICK);
    insta::assert_snapshot!(terminal::summary(&page.results, &page.groups, 80, false));
}

#[test]
fn colour_is_the_callers_choice() {
    let page = synthetic::page(QUICK);
    let plain = terminal::summary(&page.results, &page.groups, 110, false);
    let coloured = terminal::summary(&page.results, &page.groups, 110, true);
    assert!(!plain.contains('\u{1b}'));
    assert!(coloured.contains('\u{1b}'));
    assert!(plain.contains(&page.headline.finding.text));
}
