//! Tests of the `report` room. The pages that they write under `target/tmp/report` are what `tests/page/run.sh`
//! opens and clicks through.

mod synthetic;

use plimsoll::report::{html, terminal};

/// Most bytes that a page may have.
const LARGEST_PAGE: usize = 5_000_000;

#[test]
fn an_hour_at_100_hz_makes_a_page_under_5_mb() {
    let page = html::render(&synthetic::page(synthetic::HOUR));
    std::fs::write(synthetic::folder().join("hour.html"), &page).expect("written");
    assert!(page.len() < LARGEST_PAGE, "{} bytes", page.len());
}

#[test]
fn pages_for_the_browser_are_written() {
    for (name, page) in [
        ("quick", synthetic::page(synthetic::QUICK)),
        ("troubled", synthetic::troubled(synthetic::QUICK)),
        ("hostile", synthetic::hostile(synthetic::QUICK)),
    ] {
        let html = html::render(&page);
        assert!(html.ends_with("</html>"), "{name}: cut short");
        std::fs::write(synthetic::folder().join(format!("{name}.html")), &html).expect("written");
    }
}

#[test]
fn hostile_texts_stay_texts() {
    let html = html::render(&synthetic::hostile(synthetic::QUICK));
    assert!(!html.contains("<img"), "an element came in from outside");
    assert!(!html.contains("<svg onload"), "an element came in from outside");
    assert_eq!(
        html.matches("</script>").count(),
        2,
        "a script element was ended from outside"
    );
}

#[test]
fn every_layer_is_in_every_static_drawing() {
    let page = synthetic::page(synthetic::QUICK);
    let html = html::render(&page);
    assert_eq!(
        html.matches("<svg class=\"timeline\"").count(),
        1 + page.groups.len()
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
    let mut page = synthetic::page(synthetic::QUICK);
    page.results.trials.clear();
    page.groups.clear();
    page.trials.clear();
    page.marks.clear();
    page.overview = plimsoll::report::Timeline::default();
    let html = html::render(&page);
    assert!(!html.contains("NaN"));
    assert_eq!(
        terminal::summary(&page.results, &page.groups, 80, false),
        "No trial ended: there is nothing to judge.\n"
    );
}

#[test]
fn summary_of_a_good_run() {
    let page = synthetic::page(synthetic::QUICK);
    insta::assert_snapshot!(terminal::summary(&page.results, &page.groups, 110, false));
}

#[test]
fn summary_of_a_troubled_run_on_a_narrow_terminal() {
    let page = synthetic::troubled(synthetic::QUICK);
    insta::assert_snapshot!(terminal::summary(&page.results, &page.groups, 80, false));
}

#[test]
fn colour_is_the_callers_choice() {
    let page = synthetic::page(synthetic::QUICK);
    let plain = terminal::summary(&page.results, &page.groups, 110, false);
    let coloured = terminal::summary(&page.results, &page.groups, 110, true);
    assert!(!plain.contains('\u{1b}'));
    assert!(coloured.contains('\u{1b}'));
    assert!(plain.contains(&page.verdict) || plain.replace('\n', " ").contains(&page.verdict));
}
