//! The comparison as one self-contained HTML file that works without scripts: alignment and layer are chosen with
//! radio buttons that the style looks at; the script only sorts tables.

use std::collections::HashMap;

use askama::Template;

use super::columns::{self, COLUMNS, Content, paint};
use super::multiples::{Alignment, Sheet, Strand};
use super::{intervals, words};
use crate::analysis::Group;
use crate::comparison::{Basis, Comparison, Row, State};
use crate::contents::{Index, Page};
use crate::drawing::palette;
use crate::drawing::table::{Cell, Column, Table};
use crate::html::parts::{SORTABLE, Shell, look, rendered};
use plimsoll_model::quantity;

const STYLE: &str = include_str!("../../assets/report/compare.css");
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
    shell: Shell,
    sentence: String,
    status: (&'static str, &'static str),
    conditions: Vec<(&'static str, String)>,
    lone: Vec<String>,
    layers: Vec<&'static palette::Paint>,
    alignments: Vec<(u32, &'static str)>,
    groups: Vec<GroupView>,
    table: Table<'static>,
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
    rendered(&View {
        shell: Shell::new(look() + STYLE + &choices(), SORTABLE.to_owned()),
        sentence: words::sentence(comparison),
        status: status(comparison),
        conditions: comparison
            .conditions
            .iter()
            .map(|outcome| (class(outcome.state), words::outcome(comparison, outcome)))
            .collect(),
        lone: words::lone(comparison),
        layers: palette::LAYERS.iter().filter(|paint| is_offered(paint)).collect(),
        alignments: ALIGNMENTS
            .iter()
            .filter(|(key, ..)| used(*key))
            .map(|(key, words, _)| (*key, *words))
            .collect(),
        table: table(comparison),
        groups,
        comparison,
    })
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

/// The CSS class of the status, which is the name of its colour, and its text.
fn status(comparison: &Comparison) -> (&'static str, &'static str) {
    let tally = comparison.tally();
    match comparison.state() {
        State::Failed => return ("bad", "\u{2717} a condition failed"),
        State::Unknown => return ("doubt", "! a condition is undecided"),
        State::Passed => {}
    }
    if tally.worse > 0 {
        ("bad", "\u{2717} worse")
    } else if tally.better > 0 {
        ("good", "\u{2713} better")
    } else if tally.changed > 0 {
        ("doubt", "\u{2260} changed")
    } else if tally.unclear > 0 {
        ("doubt", "? unclear")
    } else {
        ("good", "= the same")
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
    let cell = |column: &columns::Column, row: &Row| match column.content {
        Content::Words(text) => Cell::text(text(comparison, row)),
        Content::Number(number) => match number(row) {
            (Some(number), text) => Cell::number(number, text),
            (None, _) => Cell::missing(),
        },
        Content::Verdict => Cell {
            class: paint(row.verdict).map_or("", |(class, _)| class),
            ..Cell::text(column.text(comparison, row))
        },
    };
    let rows = comparison.rows.iter();
    let rows = rows.map(|row| COLUMNS.iter().map(|column| cell(column, row)).collect::<Vec<_>>());
    let sorts_by_number = |column: &columns::Column| matches!(column.content, Content::Number(_));
    Table {
        id: "rows",
        title: "Every metric",
        columns: COLUMNS
            .iter()
            .map(|column| Column::new(column.title, sorts_by_number(column)))
            .collect(),
        rows: rows.collect(),
    }
}
