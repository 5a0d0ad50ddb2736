//! The comparison on a terminal: a table a group, as wide as the terminal allows.

use std::collections::BTreeMap;
use std::fmt::Write;

use comfy_table::{Cell, CellAlignment, Table};

use super::columns::{self, Column, Content, paint};
use super::words;
use crate::comparison::{Comparison, Difference, Row, State};
use crate::terminal::{ruled, widest, wrap};
use plimsoll_model::quantity;
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
    for run in 1..comparison.runs.len() {
        for subject in &comparison.subjects {
            let Some(of_group) = rows.get(&(run, subject.group.as_str())) else {
                continue;
            };
            let title = match comparison.runs.len() {
                2 => subject.label.clone(),
                _ => format!("{}: {}", comparison.runs[run].letter, subject.label),
            };
            out += &wrap(&title, width, "  ");
            let shown: Vec<&Row> = of_group.iter().copied().filter(|row| words::shown(row)).collect();
            let _ = writeln!(out, "{}\n", table(comparison, &shown, run, width, colour));
        }
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

fn table(comparison: &Comparison, rows: &[&Row], run: usize, width: u16, colour: bool) -> Table {
    let all = columns::of_group();
    let letters = [0, run].map(|run| comparison.runs[run].letter.as_str());
    let draw = |kept: &dyn Fn(usize) -> bool| {
        let columns: Vec<&Column> = all.iter().filter(|column| kept(column.rank)).collect();
        let mut table = ruled(columns.iter().map(|column| column.head(letters)), colour);
        for row in rows {
            table.add_row(columns.iter().map(|column| cell(column, comparison, row, colour)));
        }
        table
    };
    widest(all.iter().map(|column| column.rank), width, draw).0
}

fn cell(column: &Column, comparison: &Comparison, row: &Row, colour: bool) -> Cell {
    let cell = Cell::new(sanitize(&column.text(comparison, row)));
    match (column.content, paint(row.verdict)) {
        (Content::Verdict, Some((_, tint))) if colour => cell.fg(tint),
        _ if column.numeric => cell.set_alignment(CellAlignment::Right),
        _ => cell,
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
        let what = quantity::counted(count, "value");
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
    for text in words::lone(comparison).iter().chain(&comparison.warnings) {
        out += &wrap(&format!("! {text}"), width, "  ");
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
