//! The comparison as one self-contained HTML file that works without scripts: alignment and layer are chosen with
//! radio buttons that the style looks at; the script only sorts tables.

use std::collections::HashMap;

use askama::Template;

use super::multiples::{Alignment, Sheet, Strand};
use super::terminal::lone;
use super::{intervals, words};
use crate::analysis::Group;
use crate::comparison::{Basis, Comparison, Difference, Row, State, Verdict};
use crate::contents::{Index, Page};
use crate::drawing::palette;
use crate::drawing::table::{Cell, Column, Table};
use crate::html::parts::{SORTABLE, look, policy};

const STYLE: &str = include_str!("../../assets/report/compare.css");
const START_SORTING: &str = r#"document.querySelectorAll("table.sortable").forEach(sortableTable);"#;
/// Alignments of timelines: key, title, alignment.
const ALIGNMENTS: [(u32, &str, Alignment); 5] = [
    (0, "start", Alignment::Start),
    (1, "mark 1", Alignment::Mark(1)),
    (2, "mark 2", Alignment::Mark(2)),
    (3, "mark 3", Alignment::Mark(3)),
    (4, "mark 4", Alignment::Mark(4)),
];

#[derive(Template)]
#[template(path = "compare.html")]
struct View<'a> {
    comparison: &'a Comparison,
    policy: String,
    style: String,
    script: String,
    sentence: String,
    status: (&'static str, &'static str),
    runs: Vec<String>,
    conditions: Vec<(&'static str, String)>,
    lone: Vec<String>,
    layers: Vec<&'static palette::Paint>,
    alignments: Vec<(u32, &'static str)>,
    groups: Vec<GroupView>,
    table: Table<'static>,
    differences: Vec<(&'a Difference, &'a str)>,
}

struct GroupView {
    label: String,
    intervals: Vec<(String, String)>,
    aligned: Vec<Aligned>,
}

/// The drawings of a group at one alignment.
struct Aligned {
    key: u32,
    multiples: Vec<String>,
    layers: Vec<(&'static str, String, String)>,
}

/// The report as one HTML document. `pages` are the runs' own, in the comparison's order.
pub fn render(comparison: &Comparison, pages: &[Page]) -> String {
    let script = format!("{SORTABLE}\n{START_SORTING}");
    let runs: Vec<RunIndex<'_>> = pages.iter().map(RunIndex::of).collect();
    let rows = comparison.rows_by_group();
    let groups: Vec<GroupView> = comparison
        .subjects
        .iter()
        .map(|subject| GroupView {
            label: subject.label.clone(),
            intervals: interval_charts(comparison, &rows, &subject.group),
            aligned: aligned(comparison, &runs, &subject.group),
        })
        .collect();
    let used = |key: u32| {
        groups
            .iter()
            .any(|group| group.aligned.iter().any(|one| one.key == key))
    };
    let view = View {
        policy: policy(&script),
        style: look() + STYLE + &choices(),
        script,
        sentence: words::sentence(comparison),
        status: status(comparison),
        runs: comparison.runs.iter().map(words::run).collect(),
        conditions: comparison
            .conditions
            .iter()
            .map(|outcome| (class(outcome.state), words::outcome(comparison, outcome)))
            .collect(),
        lone: lone(comparison),
        layers: palette::LAYERS.iter().filter(|paint| is_offered(paint)).collect(),
        alignments: ALIGNMENTS
            .iter()
            .filter(|(key, ..)| used(*key))
            .map(|(key, words, _)| (*key, *words))
            .collect(),
        table: table(comparison),
        differences: comparison
            .differences
            .iter()
            .map(|one| (one, comparison.runs[one.run].letter.as_str()))
            .collect(),
        groups,
        comparison,
    };
    // Rendering into a String fails only where a Display implementation does, and all that are used are std's.
    view.render()
        .unwrap_or_else(|error| format!("<!doctype html><p>cannot render the report: {error}"))
}

/// Layers of an overlay: those that an experiment moves, and their source.
fn is_offered(paint: &palette::Paint) -> bool {
    paint.moves || matches!(paint.key, "page_cache" | "free")
}

/// Hides the alternatives that the radio buttons do not select.
fn choices() -> String {
    let alignments = ALIGNMENTS.iter().map(|(key, ..)| {
        format!("body:has(#align-{key}:checked) .aligned:not([data-align=\"{key}\"]){{display:none}}")
    });
    let layers = palette::LAYERS.iter().map(|paint| {
        format!(
            "body:has(#layer-{0}:checked) .of-layer:not([data-layer=\"{0}\"]){{display:none}}",
            paint.key
        )
    });
    alignments.chain(layers).collect()
}

fn class(state: State) -> &'static str {
    match state {
        State::Passed => "known",
        State::Failed => "spoils",
        State::Unknown => "warning",
    }
}

fn status(comparison: &Comparison) -> (&'static str, &'static str) {
    let any = |state| comparison.conditions.iter().any(|one| one.state == state);
    let tally = comparison.tally();
    if any(State::Failed) {
        ("failed", "\u{2717} a condition failed")
    } else if any(State::Unknown) {
        ("untrustworthy", "! a condition is undecided")
    } else if tally.worse > 0 {
        ("failed", "\u{2717} worse")
    } else if tally.better > 0 {
        ("ok", "\u{2713} better")
    } else if tally.changed > 0 {
        ("untrustworthy", "\u{2260} changed")
    } else if tally.unclear > 0 {
        ("untrustworthy", "? unclear")
    } else {
        ("ok", "= the same")
    }
}

/// A chart for each run that is compared: whose, and the drawing.
fn interval_charts(
    comparison: &Comparison,
    rows: &HashMap<(usize, &str), Vec<&Row>>,
    group: &str,
) -> Vec<(String, String)> {
    let threshold = comparison.threshold_percent / 100.0;
    (1..comparison.runs.len())
        .filter_map(|run| {
            let rows = rows.get(&(run, group))?.iter().copied();
            let rows: Vec<&Row> = rows.filter(|row| words::shown(row)).collect();
            let title = format!(
                "{} against {}",
                comparison.runs[run].letter, comparison.runs[0].letter
            );
            let drawing = intervals::chart(&rows, threshold, &title)?;
            Some((title, drawing))
        })
        .collect()
}

/// The parts of a run's page, by group and by trial.
struct RunIndex<'a> {
    page: &'a Page,
    groups: HashMap<&'a str, &'a Group>,
    trials: Index<'a>,
}

impl<'a> RunIndex<'a> {
    fn of(page: &'a Page) -> Self {
        let groups = page.groups.iter();
        RunIndex {
            page,
            groups: groups.map(|group| (group.identity(), group)).collect(),
            trials: page.index(),
        }
    }
}

fn aligned(comparison: &Comparison, runs: &[RunIndex<'_>], group: &str) -> Vec<Aligned> {
    let strands: Vec<Strand<'_>> = comparison
        .runs
        .iter()
        .zip(runs)
        .filter_map(|(run, index)| {
            let (timeline, marks) = match comparison.basis {
                Basis::Timelines => (&index.page.overview, index.page.marks.iter().collect()),
                Basis::Trials => {
                    let found = index.groups.get(group)?;
                    let (trial, timeline) = index.trials.representative(found)?;
                    (timeline, index.trials.marks(&trial.id).to_vec())
                }
            };
            Some(Strand {
                letter: &run.letter,
                name: &run.name,
                timeline,
                marks,
            })
        })
        .collect();
    if strands.len() < 2 {
        return Vec::new();
    }
    ALIGNMENTS
        .iter()
        .filter_map(|(key, _, alignment)| {
            let sheet = Sheet::new(&strands, *alignment)?;
            let layers = palette::LAYERS.iter().filter(|paint| is_offered(paint));
            let drawings = layers.flat_map(|paint| {
                let sheet = &sheet;
                (1..strands.len()).filter_map(move |other| {
                    Some((
                        paint.key,
                        sheet.overlay(other, paint.key)?,
                        sheet.difference(other, paint.key)?,
                    ))
                })
            });
            Some(Aligned {
                key: *key,
                multiples: sheet.multiples(),
                layers: drawings.collect(),
            })
        })
        .collect()
}

fn table(comparison: &Comparison) -> Table<'static> {
    const HEADS: [(&str, bool); 12] = [
        ("Run", false),
        ("Group", false),
        ("Metric", false),
        ("Repeats", false),
        ("Baseline", true),
        ("Run's median", true),
        ("Change", true),
        ("95% interval", true),
        ("p", true),
        ("p (Holm)", true),
        ("Calibrated", true),
        ("Verdict", false),
    ];
    let number = |value: Option<f64>, text: String| match value {
        Some(value) => Cell::number(value, text),
        None => Cell::missing(),
    };
    let rows = comparison.rows.iter().map(|row| {
        let (symbol, word) = words::verdict(row.verdict);
        let mut verdict = Cell::text(format!("{symbol} {word}"));
        verdict.class = match row.verdict {
            Verdict::Worse => "failed",
            Verdict::Better => "ok",
            Verdict::Changed => "untrustworthy",
            Verdict::Same | Verdict::Unclear => "",
        };
        let calibrated = row.normalised.as_ref().map(|one| one.change);
        vec![
            Cell::text(&comparison.runs[row.run].letter),
            Cell::text(comparison.label(&row.group)),
            Cell::text(&row.metric),
            Cell::text(format!(
                "{}/{}",
                row.baseline.values.len(),
                row.other.values.len()
            )),
            Cell::number(row.baseline.median, words::value(row.unit, row.baseline.median)),
            Cell::number(row.other.median, words::value(row.unit, row.other.median)),
            number(row.change, words::change(row.change)),
            number(row.interval.map(|ends| ends.0), words::interval(row.interval)),
            number(row.p, words::probability(row.p)),
            number(row.p_holm, words::probability(row.p_holm)),
            number(calibrated, words::change(calibrated)),
            verdict,
        ]
    });
    Table {
        id: "rows",
        title: "Every metric",
        columns: HEADS
            .iter()
            .map(|&(title, numeric)| Column::new(title, numeric))
            .collect(),
        rows: rows.collect(),
    }
}
