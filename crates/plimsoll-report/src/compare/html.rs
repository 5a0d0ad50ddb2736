//! The comparison as one self-contained HTML file that works without network and without scripts.
//!
//! Static drawings (SVG) show the timelines of each group, aligned by their start, and the difference of one layer. With
//! scripts, `compare.js` replaces them by interactive panels of any alignment and layer, and `sortable.js` makes the table
//! sortable.

use std::collections::HashMap;

use askama::Template;

use super::columns::{self, COLUMNS, Content, paint};
use super::multiples::{Sheet, Strand};
use super::{data, intervals, words};
use crate::analysis::Group;
use crate::comparison::{Basis, Comparison, Row, State};
use crate::contents::{Index, Page};
use crate::drawing::palette::{self, Paint};
use crate::drawing::table::{Cell, Column, Table};
use crate::html::document::Chart;
use crate::html::parts::{LICENSE, SORTABLE, Shell, rendered, script, style};
use plimsoll_model::quantity;

const STYLE: &str = include_str!("../../assets/report/compare.css");
const SCRIPT: &str = include_str!("../../assets/report/compare.js");

#[derive(Template)]
#[template(path = "compare.html")]
struct View<'a> {
    comparison: &'a Comparison,
    shell: Shell,
    license: &'static str,
    data: String,
    sentence: String,
    status: (&'static str, &'static str),
    conditions: Vec<(&'static str, String)>,
    lone: Vec<String>,
    /// The layers of the drawings, bottom to top.
    legend: Vec<&'static Paint>,
    groups: Vec<GroupView>,
    has_timelines: bool,
    table: Table<'static>,
}

struct GroupView {
    label: String,
    intervals: Vec<(String, String)>,
    /// The timelines without scripts; empty if the runs have no samples of the group.
    drawings: Vec<String>,
}

/// The report as one HTML document. `pages` are the runs' own, in the comparison's order.
pub fn render(comparison: &Comparison, pages: &[Page]) -> String {
    let runs: Vec<RunIndex<'_>> = pages.iter().map(RunIndex::of).collect();
    let rows = comparison.rows_by_group();
    let subjects = &comparison.subjects;
    let timelines: Vec<Vec<Strand<'_>>> = subjects
        .iter()
        .map(|subject| strands(comparison, &runs, &subject.group))
        .collect();
    let groups: Vec<GroupView> = subjects
        .iter()
        .zip(&timelines)
        .map(|(subject, strands)| GroupView {
            label: subject.label.clone(),
            intervals: interval_charts(comparison, &rows, &subject.group),
            drawings: Sheet::new(strands)
                .map(|sheet| sheet.drawings())
                .unwrap_or_default(),
        })
        .collect();
    let drawn = subjects.iter().zip(&timelines);
    let drawn = drawn.filter(|(_, strands)| !strands.is_empty());
    rendered(&View {
        shell: Shell::new(style(STYLE), script(&format!("{SORTABLE}\n{SCRIPT}"))),
        license: LICENSE.trim(),
        data: data::document(drawn.map(|(subject, strands)| (subject.label.as_str(), strands.as_slice()))),
        sentence: words::sentence(comparison),
        status: status(comparison),
        conditions: comparison
            .conditions
            .iter()
            .map(|outcome| (class(outcome.state), words::outcome(comparison, outcome)))
            .collect(),
        lone: words::lone(comparison),
        legend: palette::LAYERS.iter().filter(|paint| paint.moves).collect(),
        has_timelines: groups.iter().any(|group| !group.drawings.is_empty()),
        table: table(comparison),
        groups,
        comparison,
    })
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

/// The changes of each group of each run, drawn.
pub fn charts(comparison: &Comparison) -> Vec<Chart> {
    let rows = comparison.rows_by_group();
    let subjects = comparison.subjects.iter();
    let of_subject = subjects.flat_map(|subject| {
        let charts = interval_charts(comparison, &rows, &subject.group).into_iter();
        charts.map(|(hint, svg)| Chart::drawn(subject.label.clone(), hint, svg))
    });
    of_subject.collect()
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

/// The timelines of a group in the runs that have it; none unless they are of several runs, all with samples.
fn strands<'a>(comparison: &'a Comparison, runs: &'a [RunIndex<'a>], group: &str) -> Vec<Strand<'a>> {
    let strands: Vec<Strand<'a>> = comparison
        .runs
        .iter()
        .zip(runs)
        .filter_map(|(run, index)| {
            let (timeline, marks) = match comparison.basis {
                Basis::Timelines => (&index.page.overview, index.page.marks.iter().collect()),
                Basis::Trials | Basis::Hosts => {
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
    let has_samples = strands.iter().all(|strand| !strand.timeline.t.is_empty());
    match strands.len() > 1 && has_samples {
        true => strands,
        false => Vec::new(),
    }
}

/// Every row of the comparison.
pub fn table(comparison: &Comparison) -> Table<'static> {
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
