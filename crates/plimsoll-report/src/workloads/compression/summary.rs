//! The summaries of compression: the columns on a terminal, and the tables of the HTML report.

use super::{
    COMPRESSION, FILL_SPEED, RESTORE_READ, RESTORE_SPEED, STORED, STORED_RATIO, TRIM_MEMCPY, TRIM_SPEED,
    WRITEBACK_SPEED,
};
use crate::analysis::Group;
use crate::analysis::groups::Measured;
use crate::drawing::table::{self, Cell, Rows, Table};
use crate::workloads::column::Column;
use plimsoll_model::recording::model::{Trial, TrialStatus};

/// Columns on a terminal in their order, each with how soon it is left out when the terminal is narrow (0: never).
const COLUMNS: [(Column, usize); 13] = [
    (Column::Subject, 0),
    (Column::Rest("class"), 0),
    (Column::Runs, 4),
    (Column::Spread("fill GB/s", FILL_SPEED), 3),
    (Column::Spread("writeback GB/s", WRITEBACK_SPEED), 1),
    (Column::Spread("trim GB/s", TRIM_SPEED), 0),
    (Column::Spread("restore GB/s", RESTORE_SPEED), 0),
    (Column::Median("shrunk", COMPRESSION), 0),
    (Column::Median("stored", STORED), 2),
    (Column::Median("trim/memcpy", TRIM_MEMCPY), 1),
    (Column::Median("restore/read", RESTORE_READ), 1),
    (Column::Verified, 5),
    (Column::Status, 0),
];

/// The metrics of the table of groups with their heads.
const METRICS: [(&str, &str); 9] = [
    (FILL_SPEED, "Fill"),
    (WRITEBACK_SPEED, "Writeback"),
    (TRIM_SPEED, "Trim"),
    (RESTORE_SPEED, "Restore"),
    (STORED, "Stored"),
    (COMPRESSION, "Compression"),
    (STORED_RATIO, "Saving"),
    (TRIM_MEMCPY, "Trim / memcpy"),
    (RESTORE_READ, "Restore / read"),
];

pub(super) fn columns(groups: &[&Group]) -> Vec<(Column, usize)> {
    let has = |metric: &str| groups.iter().any(|group| group.metrics.contains_key(metric));
    let mut columns = COLUMNS.to_vec();
    columns
        .retain(|(column, _)| !matches!(column, Column::Spread(_, WRITEBACK_SPEED) if !has(WRITEBACK_SPEED)));
    columns
}

/// A row per group: speeds, stored bytes, and speeds relative to plain memory.
pub(super) fn groups<'a>(groups: &[&'a Group]) -> Table<'a> {
    let median = |group: &Group, metric: &str| {
        let measured = group.metrics.get(metric);
        let cell = Cell::metric(metric, measured.map(|one| one.summary.median));
        cell.doubtful(measured.is_some_and(Measured::untrustworthy))
    };
    let has_writeback = groups
        .iter()
        .any(|group| group.metrics.contains_key(WRITEBACK_SPEED));
    let shown: Vec<&(&str, &str)> = METRICS
        .iter()
        .filter(|(metric, _)| *metric != WRITEBACK_SPEED || has_writeback)
        .collect();
    let heads = [("Subject and class", false), ("Runs", true)].into_iter();
    let heads: Vec<(&str, bool)> = heads.chain(shown.iter().map(|(_, head)| (*head, true))).collect();
    let row = move |group: &&Group| {
        let head = [
            Cell::text(&group.label),
            Cell::number(group.trials.len() as f64, group.trials.len().to_string()),
        ];
        let medians = shown.iter().map(|(metric, _)| median(group, metric));
        head.into_iter().chain(medians).collect()
    };
    Table {
        id: "summary",
        title: "Summary",
        rows: Rows::of(groups.to_vec(), row),
        columns: table::columns(&heads),
    }
}

/// A row per trial: times of its phases and stored bytes.
pub(super) fn trials<'a>(trials: &[&'a Trial]) -> Table<'a> {
    let has_writeback = trials
        .iter()
        .any(|trial| trial.phases.iter().any(|phase| phase.name == "writeback"));
    let timed: Vec<(&str, &str)> = [
        ("fill", "Fill"),
        ("writeback", "Writeback"),
        ("trim", "Trim"),
        ("restore", "Restore"),
        ("release", "Release"),
    ]
    .into_iter()
    .filter(|(name, _)| *name != "writeback" || has_writeback)
    .collect();
    let mut heads = vec![("Trial", false), ("Status", false), ("Verified", false)];
    heads.extend(timed.iter().map(|(_, head)| (*head, true)));
    heads.extend([("Stored", true), ("Compression", true), ("Reasons", false)]);
    let row = move |trial: &&Trial| {
        let seconds = |name: &str| {
            let phase = trial.phases.iter().find(|phase| phase.name == name);
            let status = trial.status_of(&format!("{name}.seconds"));
            Cell::metric("phase_s", phase.map(|phase| phase.seconds))
                .doubtful(phase.is_some() && status == TrialStatus::Untrustworthy)
        };
        let mut row = vec![Cell::text(&trial.id), Cell::status(trial), Cell::verified(trial)];
        row.extend(timed.iter().map(|(name, _)| seconds(name)));
        row.extend([STORED, COMPRESSION].map(|name| Cell::metric_of(trial, name)));
        row.push(Cell::reasons(trial));
        row
    };
    Table {
        id: "trials",
        title: "Trials",
        columns: table::columns(&heads),
        rows: Rows::of(trials.to_vec(), row),
    }
}
