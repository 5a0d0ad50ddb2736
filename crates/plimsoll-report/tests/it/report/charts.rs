//! Charts and tables of the HTML report as a reader sees them.

use std::collections::BTreeSet;

use plimsoll_report::html;

use super::headlines::made;
use super::kinds::{allocators, loadline_trials, page, thrash_trials};
use super::simulation::QUICK;
use super::synthetic;

/// The text between two marks, wherever it stands.
fn between<'t>(text: &'t str, start: &'t str, end: &'t str) -> Vec<&'t str> {
    let parts = text.split(start).skip(1);
    parts
        .filter_map(|part| part.split_once(end).map(|(inner, _)| inner))
        .collect()
}

/// Charts of several workloads.
fn pages() -> Vec<String> {
    let pages = [
        synthetic::page(QUICK),
        page("Thrashing", thrash_trials()),
        page("The load line", loadline_trials(6)),
        allocators(),
    ];
    pages.iter().map(html::render).collect()
}

#[test]
fn charts_of_a_page_have_one_type_size() {
    for html in pages() {
        let style = between(&html, "<style>", "</style>")[0];
        let of_charts = style.lines().filter(|line| line.starts_with("svg"));
        let sizes: BTreeSet<&str> = of_charts
            .flat_map(|line| between(line, "font-size: ", ";"))
            .collect();
        assert_eq!(sizes.len(), 1, "{sizes:?}");
        for kind in ["bars", "xy", "timeline"] {
            // Drawn in its own size: scaled charts would have scaled letters.
            let rule = format!("svg.{kind} {{ width: ");
            let width = match between(style, &rule, "px")[..] {
                [width] => width,
                _ => between(style, "svg.bars, svg.xy { width: ", "px")[0],
            };
            for size in between(&html, &format!("<svg class=\"{kind}\" viewBox=\"0 0 "), "\"") {
                assert_eq!(size.split(' ').next(), Some(width), "{kind}");
            }
        }
        for svg in between(&html, "<svg class=", "</svg>") {
            assert!(!svg.contains("font-size"), "{svg}");
        }
    }
}

#[test]
fn axis_titles_have_units() {
    let html = html::render(&page("The load line", loadline_trials(6)));
    let charts = between(&html, "<svg class=\"xy\"", "</svg>");
    assert!(charts.len() > 1, "{} charts", charts.len());
    for svg in charts {
        assert!(svg.contains(">load, size over limit (factor)<"), "{svg}");
        let title = between(svg, "class=\"title\">", "<")[0];
        assert!(
            ["second", "percent", "factor"]
                .iter()
                .any(|unit| title.contains(unit)),
            "{title}"
        );
    }
}

#[test]
fn values_at_one_load_are_bars_and_at_several_lines() {
    let at = |loads: &[&[(&str, &str)]]| {
        let metrics = [("slowdown_ratio", 120.0)];
        let html = html::render(&page(
            "A cap",
            made("wscap", &["zram:lz4", "swapfile"], loads, 3, &metrics),
        ));
        let charts = |kind: &str| between(&html, &format!("<svg class=\"{kind}\""), "</svg>").len();
        (charts("bars"), charts("xy"))
    };
    let twice: &[(&str, &str)] = &[("load", "2"), ("cap-by", "limit"), ("size", "67108864")];
    let half: &[(&str, &str)] = &[("load", "0.5"), ("cap-by", "limit"), ("size", "67108864")];
    assert_eq!(at(&[twice]), (1, 0));
    assert_eq!(at(&[half, twice]), (0, 1));
}

#[test]
fn the_points_of_a_load_line_are_sorted_by_load() {
    let html = html::render(&page("The load line", loadline_trials(6)));
    let table = between(&html, "id=\"loadline-points\"", "</table>")[0];
    let loads: Vec<f64> = between(table, "<tr>", "</tr>")
        .iter()
        .filter_map(|row| between(row, "<td class=\"number\"", "</td>").first().copied())
        .filter_map(|cell| {
            between(cell, "data-sort=\"", "\"")
                .first()
                .copied()
                .or(cell.split('>').nth(1))
        })
        .map(|load| load.parse().expect("a load"))
        .collect();
    assert_eq!(loads.len(), 4 * 6);
    assert!(loads.is_sorted(), "{loads:?}");
}

/// The advice on DAMON came as `echo off > ...`, with its backticks.
#[test]
fn commands_in_notes_are_code_and_no_backtick_is_left() {
    let html = html::render(&synthetic::troubled(QUICK));
    let body = html.split_once("<body>").expect("a body").1;
    let shown = body.split_once("<script>").expect("a script").0;
    let shown = shown.split("<pre>").next().expect("text");
    assert!(
        shown.contains("<code>echo off &gt; /sys/kernel/mm/damon"),
        "the advice"
    );
    assert!(!shown.contains('`'));
}

#[test]
fn shares_are_in_percent_in_every_table() {
    let html = html::render(&page("Thrashing", thrash_trials()));
    assert!(html.contains("99.0%"), "the fairness");
    assert!(!html.contains("0.99\u{d7}"), "the fairness is no factor");
}
