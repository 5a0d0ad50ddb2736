//! The comparison on a terminal: a table a group, as wide as the terminal allows.

use std::collections::BTreeMap;
use std::fmt::Write;

use comfy_table::{Cell, CellAlignment, Color, Table};

use super::words;
use crate::comparison::{Comparison, Difference, Row, State, Verdict};
use crate::terminal::{ruled, wrap};
use plimsoll_model::sanitize::sanitize;

/// Differences of one kind that are listed.
const LISTED: usize = 6;

/// The comparison for a terminal of `width` columns, with colours if `colour` is set. Ends with a line feed.
pub fn summary(comparison: &Comparison, width: u16, colour: bool) -> String {
    let mut out = String::new();
    for run in &comparison.runs {
        out += &wrap(&words::run(run), width, "  ");
    }
    out.push('\n');
    let rows = comparison.rows_by_group();
    for (run, subject) in subjects(comparison) {
        let Some(of_group) = rows.get(&(run, subject.0)) else {
            continue;
        };
        let title = match comparison.runs.len() {
            2 => subject.1.to_owned(),
            _ => format!("{}: {}", comparison.runs[run].letter, subject.1),
        };
        out += &wrap(&title, width, "  ");
        let shown: Vec<&Row> = of_group.iter().copied().filter(|row| words::shown(row)).collect();
        let _ = writeln!(out, "{}\n", table(comparison, &shown, run, width, colour));
    }
    out += &wrap(&words::sentence(comparison), width, "  ");
    out += &remarks(comparison, width);
    out += &notes(comparison, width);
    for outcome in &comparison.conditions {
        let text = wrap(&words::outcome(comparison, outcome), width, "    ");
        out += &tinted(&text, tint_of(outcome.state), colour);
    }
    out
}

/// Every run but the baseline with every group (identity, label).
fn subjects(comparison: &Comparison) -> impl Iterator<Item = (usize, (&str, &str))> {
    (1..comparison.runs.len()).flat_map(|run| {
        comparison
            .subjects
            .iter()
            .map(move |subject| (run, (subject.group.as_str(), subject.label.as_str())))
    })
}

fn tint_of(state: State) -> &'static str {
    match state {
        State::Passed => "\u{1b}[32m",
        State::Failed => "\u{1b}[31m",
        State::Unknown => "\u{1b}[33m",
    }
}

fn tinted(text: &str, tint: &str, colour: bool) -> String {
    match colour {
        true => format!("{tint}{}\u{1b}[0m\n", text.trim_end()),
        false => text.to_owned(),
    }
}

#[derive(Clone, Copy)]
enum Column {
    Metric,
    Repeats,
    Baseline,
    Other,
    Change,
    Interval,
    P,
    Holm,
    Normalised,
    Verdict,
}

/// Columns in their order, each with how soon it is left out when the terminal is narrow (0: never).
const COLUMNS: &[(Column, u8)] = &[
    (Column::Metric, 0),
    (Column::Repeats, 1),
    (Column::Baseline, 0),
    (Column::Other, 0),
    (Column::Change, 0),
    (Column::Interval, 0),
    (Column::P, 2),
    (Column::Holm, 3),
    (Column::Normalised, 4),
    (Column::Verdict, 0),
];

fn table(comparison: &Comparison, rows: &[&Row], run: usize, width: u16, colour: bool) -> Table {
    let last = COLUMNS.iter().map(|(_, rank)| *rank).max().unwrap_or(0);
    let mut fitting = table_without(0, comparison, rows, run, colour);
    for left_out in 1..=last {
        let fits = |line: String| line.chars().count() <= usize::from(width);
        if fitting.lines().next().is_some_and(fits) {
            break;
        }
        fitting = table_without(left_out, comparison, rows, run, colour);
    }
    fitting
}

/// The table without the columns that are left out first, up to rank `left_out`.
fn table_without(left_out: u8, comparison: &Comparison, rows: &[&Row], run: usize, colour: bool) -> Table {
    let columns: Vec<Column> = COLUMNS
        .iter()
        .filter(|(_, rank)| *rank == 0 || *rank > left_out)
        .map(|(column, _)| *column)
        .collect();
    let letters = [&comparison.runs[0].letter, &comparison.runs[run].letter];
    let mut table = ruled(columns.iter().map(|column| column.head(letters)), colour);
    for row in rows {
        table.add_row(columns.iter().map(|column| column.cell(row, colour)));
    }
    table
}

impl Column {
    fn head(self, [baseline, other]: [&String; 2]) -> String {
        match self {
            Column::Metric => "metric".to_owned(),
            Column::Repeats => "n".to_owned(),
            Column::Baseline => baseline.clone(),
            Column::Other => other.clone(),
            Column::Change => "change".to_owned(),
            Column::Interval => "95% interval".to_owned(),
            Column::P => "p".to_owned(),
            Column::Holm => "p (Holm)".to_owned(),
            Column::Normalised => "calibrated".to_owned(),
            Column::Verdict => "verdict".to_owned(),
        }
    }

    fn cell(self, row: &Row, colour: bool) -> Cell {
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        match self {
            Column::Metric => Cell::new(sanitize(&row.metric)),
            Column::Repeats => right(format!(
                "{}/{}",
                row.baseline.values.len(),
                row.other.values.len()
            )),
            Column::Baseline => right(words::value(row.unit, row.baseline.median)),
            Column::Other => right(words::value(row.unit, row.other.median)),
            Column::Change => right(words::change(row.change)),
            Column::Interval => right(words::interval(row.interval)),
            Column::P => right(words::probability(row.p)),
            Column::Holm => right(words::probability(row.p_holm)),
            Column::Normalised => right(words::change(row.normalised.as_ref().map(|one| one.change))),
            Column::Verdict => {
                let (symbol, word) = words::verdict(row.verdict);
                let cell = Cell::new(format!("{symbol} {word}"));
                match row.verdict {
                    Verdict::Worse if colour => cell.fg(Color::Red),
                    Verdict::Better if colour => cell.fg(Color::Green),
                    Verdict::Changed if colour => cell.fg(Color::Yellow),
                    _ => cell,
                }
            }
        }
    }
}

/// Why values have no verdict, each reason once, and how many rows are not shown.
fn remarks(comparison: &Comparison, width: u16) -> String {
    let mut out = String::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in comparison
        .rows
        .iter()
        .filter(|row| words::shown(row) && !row.remark.is_empty())
    {
        *counts.entry(&row.remark).or_default() += 1;
    }
    for (remark, count) in counts {
        let what = if count == 1 {
            "1 value".to_owned()
        } else {
            format!("{count} values")
        };
        out += &wrap(&format!("? {what}: {remark}"), width, "  ");
    }
    let hidden = comparison.rows.iter().filter(|row| !words::shown(row)).count();
    if hidden > 0 {
        let text = format!(
            "- {hidden} more rows are unchanged or restate another metric; --format csv and html list all"
        );
        out += &wrap(&text, width, "  ");
    }
    out
}

/// Groups without a counterpart, different circumstances, and warnings.
fn notes(comparison: &Comparison, width: u16) -> String {
    let mut out = String::new();
    for text in lone(comparison) {
        out += &wrap(&format!("! {text}"), width, "  ");
    }
    for warning in &comparison.warnings {
        out += &wrap(&format!("! {warning}"), width, "  ");
    }
    for run in 1..comparison.runs.len() {
        let mut by_kind: BTreeMap<&str, Vec<&Difference>> = BTreeMap::new();
        for difference in comparison.differences.iter().filter(|one| one.run == run) {
            by_kind.entry(difference.kind).or_default().push(difference);
        }
        for (kind, list) in by_kind {
            let named: Vec<String> = list
                .iter()
                .take(LISTED)
                .map(|one| format!("{} {} \u{2192} {}", one.name, one.baseline, one.other))
                .collect();
            let more = match list.len().saturating_sub(LISTED) {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            let letter = &comparison.runs[run].letter;
            out += &wrap(
                &format!("! {letter} differs in {kind}: {}{more}", named.join("; ")),
                width,
                "  ",
            );
        }
    }
    out
}

/// Groups and metrics without a counterpart, a line each: whole groups first.
pub(super) fn lone(comparison: &Comparison) -> Vec<String> {
    let name = |run: usize| &comparison.runs[run].letter;
    let mut lines = Vec::new();
    let mut metrics: BTreeMap<(usize, usize, &str), Vec<&str>> = BTreeMap::new();
    for lone in &comparison.lone {
        let because = match lone.reason.is_empty() {
            true => String::new(),
            false => format!(" ({})", lone.reason),
        };
        match &lone.metric {
            None => lines.push(format!(
                "{} is in {} alone, {} lacks it{because}: not compared",
                lone.group,
                name(lone.present),
                name(lone.absent)
            )),
            Some(metric) => metrics
                .entry((lone.present, lone.absent, &lone.group))
                .or_default()
                .push(metric),
        }
    }
    for ((present, absent, group), list) in metrics {
        lines.push(format!(
            "{}: {} of {} in {} alone, {} lacks it: not compared",
            group,
            list.join(", "),
            list.len(),
            name(present),
            name(absent)
        ));
    }
    lines
}
