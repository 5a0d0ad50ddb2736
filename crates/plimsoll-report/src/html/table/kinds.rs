//! The tables of a kind of work that is described by its metrics: a column for each headline one.

use super::{Cell, Column, Rows, Table, columns, heading};
use crate::analysis::Group;
use crate::analysis::groups::Measured;
use crate::headline_metrics::main_metrics;
use crate::workloads::column::MainMetric;
use plimsoll_model::quantity;
use plimsoll_model::recording::model::Trial;
use plimsoll_model::scenario::WorkloadKind;

/// A row a group: the median of each headline metric, with the lowest and the highest run.
pub(super) fn summary<'a>(kind: WorkloadKind, groups: &[&'a Group]) -> Table<'a> {
    let metrics = main_metrics(kind, groups);
    let columns = with_metrics(
        &[("Group", false), ("Runs", true)],
        &metrics,
        &[("Remarks", false)],
    );
    let row = move |group: &&Group| {
        let runs = group.trials.len();
        let mut row = vec![
            Cell::text(&group.label),
            Cell::number(runs as f64, runs.to_string()),
        ];
        let cell = |metric: &MainMetric| match group.metrics.get(&metric.name) {
            Some(measured) => spread(&metric.name, measured),
            None => Cell::missing(),
        };
        row.extend(metrics.iter().map(cell));
        row.push(match group.failed {
            0 => Cell::text(""),
            failed => Cell::text(format!("{failed} failed")),
        });
        row
    };
    Table {
        id: "summary",
        title: "Summary",
        rows: Rows::of(groups.to_vec(), row),
        columns,
    }
}

/// The median, and in brackets the lowest and the highest run where they look different.
fn spread(name: &str, measured: &Measured) -> Cell {
    let summary = &measured.summary;
    let [median, low, high] =
        [summary.median, summary.min, summary.max].map(|value| quantity::metric(name, value));
    let text = match low == high {
        true => median,
        false => format!("{median} ({low} to {high})"),
    };
    Cell::number(summary.median, text).doubtful(measured.untrustworthy())
}

/// A row a trial: its status and its headline metrics.
pub(super) fn trials<'a>(kind: WorkloadKind, groups: &[&Group], trials: &[&'a Trial]) -> Table<'a> {
    let metrics = main_metrics(kind, groups);
    let columns = with_metrics(
        &[("Trial", false), ("Status", false), ("Verified", false)],
        &metrics,
        &[("Reasons", false)],
    );
    let row = move |trial: &&Trial| {
        let mut row = vec![Cell::text(&trial.id), Cell::status(trial), Cell::verified(trial)];
        let value = |metric: &MainMetric| Cell::metric_of(trial, &metric.name);
        row.extend(metrics.iter().map(value));
        row.push(Cell::reasons(trial));
        row
    };
    Table {
        id: "trials",
        title: "Trials",
        rows: Rows::of(trials.to_vec(), row),
        columns,
    }
}

/// Columns with one for each metric between the first and the last ones.
fn with_metrics(
    first: &[(&'static str, bool)],
    metrics: &[MainMetric],
    last: &[(&'static str, bool)],
) -> Vec<Column> {
    let titles = metrics
        .iter()
        .map(|metric| Column::new(heading(&metric.title), true));
    columns(first)
        .into_iter()
        .chain(titles)
        .chain(columns(last))
        .collect()
}
