//! The tables of the compression experiment.

use super::{Cell, Rows, Table, columns, metric_cell, reasons_cell, status_cell, verified_cell};
use crate::analysis::Group;
use crate::analysis::groups::Measured;
use crate::workloads::compression::{
    COMPRESSION, FILL_SPEED, RESTORE_READ, RESTORE_SPEED, STORED, STORED_RATIO, TRIM_MEMCPY, TRIM_SPEED,
    WRITEBACK_SPEED,
};
use plimsoll_model::recording::model::{Trial, TrialStatus};

/// The metrics of the summary with their heads.
const SUMMARY: [(&str, &str); 9] = [
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

/// A row per group: speeds, stored bytes, and speeds relative to plain memory.
pub(super) fn summary<'a>(groups: &[&'a Group]) -> Table<'a> {
    let median = |group: &Group, metric: &str| {
        let measured = group.metrics.get(metric);
        let cell = Cell::metric(metric, measured.map(|one| one.summary.median));
        cell.doubtful(measured.is_some_and(Measured::untrustworthy))
    };
    let has_writeback = groups
        .iter()
        .any(|group| group.metrics.contains_key(WRITEBACK_SPEED));
    let shown: Vec<&(&str, &str)> = SUMMARY
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
        columns: columns(&heads),
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
        let mut row = vec![Cell::text(&trial.id), status_cell(trial), verified_cell(trial)];
        row.extend(timed.iter().map(|(name, _)| seconds(name)));
        row.extend([STORED, COMPRESSION].map(|name| metric_cell(trial, name)));
        row.push(reasons_cell(trial));
        row
    };
    Table {
        id: "trials",
        title: "Trials",
        columns: columns(&heads),
        rows: Rows::of(trials.to_vec(), row),
    }
}
