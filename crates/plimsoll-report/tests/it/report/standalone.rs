//! A chart of a report as an SVG file.

use std::collections::BTreeSet;

use plimsoll_report::{Page, html};

use super::kinds;
use super::simulation::QUICK;
use super::synthetic;

fn check(page: &Page, expected: &str) {
    check_named(page, None, expected);
}

fn check_named(page: &Page, name: Option<&str>, expected: &str) {
    let chart = |dark| html::chart(page, name, dark).expect("a chart");
    let (light, dark) = (chart(false), chart(true));
    assert_ne!(light, dark, "the themes differ in their colours");
    for svg in [&light, &dark] {
        assert!(
            svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""),
            "{svg}"
        );
        assert_eq!(svg.matches("</svg>").count(), 1);
        assert!(svg.ends_with("</svg>\n"));
        assert!(svg.contains(expected), "{expected} is not drawn");
        assert!(
            !svg.contains("var("),
            "a viewer without CSS variables draws it too"
        );
        assert!(
            !svg.contains("<img") && !svg.contains("<script"),
            "an element came in from outside"
        );
        assert!(!svg.contains("NaN"));
    }
}

#[test]
fn the_chart_of_an_experiment_stands_alone() {
    check(&kinds::allocators(), "mimalloc");
}

/// `report --format svg` wrote only the first chart, and a script extracted the others from the HTML.
#[test]
fn every_chart_has_a_name() {
    for page in [kinds::allocators(), kinds::tour(), synthetic::page(QUICK)] {
        let error = html::chart(&page, Some("x\u{1b}y"), false).expect_err("no such chart");
        assert_eq!(error.name, "x\u{1b}y");
        let said = error.to_string();
        assert!(
            said.contains("`x\u{fffd}y`") && said.contains(&error.names.join(", ")),
            "{said}"
        );
        let names: Vec<&str> = error.names.iter().map(String::as_str).collect();
        let distinct: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
        for name in &distinct {
            assert!(html::chart(&page, Some(*name), false).is_ok(), "{name}");
        }
        let first = html::chart(&page, None, false).expect("the first chart");
        let named = html::chart(&page, Some(names[0]), false).expect("the first chart");
        assert_eq!(named, first, "{names:?}");
    }
    let page = synthetic::page(QUICK);
    check_named(&page, Some("overview"), "url(#hatch)");
    check_named(&page, Some("memory-use"), "Memory and swap use");
}

#[test]
fn compression_is_drawn_by_its_time_to_complete() {
    check(&synthetic::page(QUICK), "Time to complete");
    check(&synthetic::hostile(QUICK), "Time to complete");
}

#[test]
fn a_run_without_trials_is_drawn_by_its_timeline() {
    let mut page = synthetic::page(QUICK);
    page.results.trials.clear();
    page.groups.clear();
    check(&page, "url(#hatch)");
}
