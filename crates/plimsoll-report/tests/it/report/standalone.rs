//! The first chart of a report as an SVG file.

use plimsoll_report::{Page, html};

use super::kinds;
use super::simulation::QUICK;
use super::synthetic;

fn check(page: &Page, expected: &str) {
    let (light, dark) = (html::chart(page, false), html::chart(page, true));
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
