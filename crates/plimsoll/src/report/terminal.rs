//! The summary on a terminal: a table, the verdict of the page, and what a reader must know.

use std::collections::BTreeMap;
use std::fmt::Write;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table};

use super::verdict;
use crate::analysis::Group;
use crate::analysis::compression::{
    COMPRESSION, FILL_SPEED, RESTORE_READ, RESTORE_SPEED, STORED, TRIM_MEMCPY, TRIM_SPEED,
};
use crate::analysis::groups::Measured;
use crate::inert::inert;
use crate::quantity;
use crate::recording::Recording;
use crate::recording::model::{Results, Trial, TrialStatus};

/// What a recording of `plimsoll watch` shows, for a terminal of `width` columns. Ends with a line feed.
pub fn watched(recording: &Recording, results: &Results, width: u16) -> String {
    remarks(&verdict::of(recording, results, &[]), results, width)
}

/// The summary for a terminal of `width` columns, with colours only where `colour` says so. Ends with a line feed.
pub fn summary(results: &Results, groups: &[Group], width: u16, colour: bool) -> String {
    let mut out = String::new();
    if !groups.is_empty() {
        let _ = writeln!(out, "{}\n", table(results, groups, width, colour));
    }
    out + &remarks(&verdict::sentence(results, groups), results, width)
}

/// The verdict, and what a reader must know.
fn remarks(verdict: &str, results: &Results, width: u16) -> String {
    let mut out = wrap(verdict, width, "");
    for confounder in results
        .confounders
        .iter()
        .filter(|confounder| !confounder.spoils.is_empty())
    {
        let text = format!(
            "! {} spoils {} of {} trials: {}. {}",
            confounder.name,
            confounder.spoils.len(),
            results.trials.len(),
            confounder.evidence,
            confounder.advice
        );
        out.push_str(&wrap(text.trim_end(), width, "  "));
    }
    for confounder in results
        .confounders
        .iter()
        .filter(|confounder| confounder.spoils.is_empty())
    {
        out.push_str(&wrap(
            &format!("- known: {}: {}", confounder.name, confounder.evidence),
            width,
            "  ",
        ));
    }
    for warning in &results.warnings {
        out.push_str(&wrap(&format!("- warning: {warning}"), width, "  "));
    }
    out
}

/// What a column of the table shows of a group.
#[derive(Clone, Copy)]
enum Column {
    Subject,
    Class,
    Runs,
    /// Median with the lowest and highest run, of the named metric.
    Spread(&'static str, &'static str),
    /// Median of the named metric.
    Median(&'static str, &'static str),
    Verified,
    Status,
}

/// Columns in the order of the table, each with how soon it is left out when the terminal is narrow (0: never).
const COLUMNS: &[(Column, u8)] = &[
    (Column::Subject, 0),
    (Column::Class, 0),
    (Column::Runs, 4),
    (Column::Spread("fill GB/s", FILL_SPEED), 3),
    (Column::Spread("trim GB/s", TRIM_SPEED), 0),
    (Column::Spread("restore GB/s", RESTORE_SPEED), 0),
    (Column::Median("shrunk", COMPRESSION), 0),
    (Column::Median("stored", STORED), 2),
    (Column::Median("trim/memcpy", TRIM_MEMCPY), 1),
    (Column::Median("restore/read", RESTORE_READ), 1),
    (Column::Verified, 5),
    (Column::Status, 0),
];

/// The widest table that the terminal holds: columns go before lines break.
fn table(results: &Results, groups: &[Group], width: u16, colour: bool) -> Table {
    let last = COLUMNS.iter().map(|(_, rank)| *rank).max().unwrap_or(0);
    let mut fitting = table_without(0, results, groups, colour);
    for left_out in 1..=last {
        if fitting
            .lines()
            .next()
            .is_some_and(|line| line.chars().count() <= usize::from(width))
        {
            break;
        }
        fitting = table_without(left_out, results, groups, colour);
    }
    fitting
}

/// The table without the columns that are left out first, up to rank `left_out`.
fn table_without(left_out: u8, results: &Results, groups: &[Group], colour: bool) -> Table {
    let by_id: BTreeMap<&str, &Trial> = results
        .trials
        .iter()
        .map(|trial| (trial.id.as_str(), trial))
        .collect();
    let columns: Vec<Column> = COLUMNS
        .iter()
        .filter(|(_, rank)| *rank == 0 || *rank > left_out)
        .map(|(column, _)| *column)
        .collect();
    let mut table = Table::new();
    table
        .load_style(UTF8_HORIZONTAL_ONLY)
        .set_content_arrangement(ContentArrangement::Disabled);
    if colour {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table.set_header(columns.iter().map(|column| {
        let cell = Cell::new(column.head());
        if colour {
            cell.add_attribute(Attribute::Bold)
        } else {
            cell
        }
    }));
    for group in groups {
        let trials: Vec<&Trial> = group
            .trials
            .iter()
            .filter_map(|id| by_id.get(id.as_str()).copied())
            .collect();
        table.add_row(columns.iter().map(|column| column.cell(group, &trials, colour)));
    }
    table
}

impl Column {
    fn head(self) -> &'static str {
        match self {
            Column::Subject => "subject",
            Column::Class => "class",
            Column::Runs => "n",
            Column::Spread(head, _) | Column::Median(head, _) => head,
            Column::Verified => "verified",
            Column::Status => "status",
        }
    }

    fn cell(self, group: &Group, trials: &[&Trial], colour: bool) -> Cell {
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        match self {
            Column::Subject => Cell::new(inert(&group.subject)),
            // The class, and whatever else tells this group from the others.
            Column::Class => {
                let rest = group
                    .label
                    .strip_prefix(group.subject.as_str())
                    .unwrap_or(&group.label);
                Cell::new(inert(rest.trim_start()))
            }
            Column::Runs => right(trials.len().to_string()),
            Column::Spread(_, metric) => right(group.metrics.get(metric).map_or_else(missing, spread)),
            Column::Median(_, metric) => right(group.metrics.get(metric).map_or_else(missing, |measured| {
                quantity::metric(metric, measured.summary.median)
            })),
            Column::Verified => {
                let verified = trials.iter().filter(|trial| trial.verified).count();
                right(format!("{verified}/{}", trials.len()))
            }
            Column::Status => status(trials, colour),
        }
    }
}

/// The median, and below it the lowest and the highest run.
fn spread(measured: &Measured) -> String {
    let summary = &measured.summary;
    let median = quantity::significant(summary.median);
    if summary.n < 2 {
        return median;
    }
    format!(
        "{median}\n{}..{}",
        quantity::significant(summary.min),
        quantity::significant(summary.max)
    )
}

/// The worst status of the trials, with how many have it.
fn status(trials: &[&Trial], colour: bool) -> Cell {
    let count = |status| trials.iter().filter(|trial| trial.status == status).count();
    let (failed, doubtful) = (count(TrialStatus::Failed), count(TrialStatus::Untrustworthy));
    let (text, tint) = if failed > 0 {
        (format!("{failed} failed"), Color::Red)
    } else if doubtful > 0 {
        (format!("{doubtful} untrustworthy"), Color::Yellow)
    } else {
        ("ok".to_owned(), Color::Green)
    };
    let cell = Cell::new(text);
    if colour { cell.fg(tint) } else { cell }
}

fn missing() -> String {
    "\u{2013}".to_owned()
}

/// Words broken into lines of at most `width` columns, each after the first behind `indent`. Ends with a line feed.
pub(super) fn wrap(text: &str, width: u16, indent: &str) -> String {
    let width = usize::from(width.max(20));
    let mut out = String::new();
    let mut line = 0;
    for word in inert(text).split_whitespace() {
        let length = word.chars().count();
        if line > 0 && line + 1 + length > width {
            out.push('\n');
            out.push_str(indent);
            line = indent.len();
        } else if line > 0 {
            out.push(' ');
            line += 1;
        }
        out.push_str(word);
        line += length;
    }
    out.push('\n');
    out
}
