//! The tables of the compression experiment.

use super::{Cell, Rows, Table, columns, metric_cell, reasons_cell, status_cell, verified_cell};
use crate::analysis::Group;
use crate::analysis::groups::Measured;
use crate::workloads::compression::{
    COMPRESSION, FILL_SPEED, RESTORE_READ, RESTORE_SPEED, STORED, STORED_RATIO, TRIM_MEMCPY, TRIM_SPEED,
};
use plimsoll_model::recording::model::{Trial, TrialStatus};

/// A row per group: speeds, stored bytes, and speeds relative to plain memory.
pub(super) fn summary<'a>(groups: &[&'a Group]) -> Table<'a> {
    let median = |group: &Group, metric: &str| {
        let measured = group.metrics.get(metric);
        let cell = Cell::metric(metric, measured.map(|one| one.summary.median));
        cell.doubtful(measured.is_some_and(Measured::untrustworthy))
    };
    let row = move |group: &&Group| {
        vec![
            Cell::text(&group.label),
            Cell::number(group.trials.len() as f64, group.trials.len().to_string()),
            median(group, FILL_SPEED),
            median(group, TRIM_SPEED),
            median(group, RESTORE_SPEED),
            median(group, STORED),
            median(group, COMPRESSION),
            median(group, STORED_RATIO),
            median(group, TRIM_MEMCPY),
            median(group, RESTORE_READ),
        ]
    };
    Table {
        id: "summary",
        title: "Summary",
        columns: columns(&[
            ("Subject and class", false),
            ("Runs", true),
            ("Fill", true),
            ("Trim", true),
            ("Restore", true),
            ("Stored", true),
            ("Compression", true),
            ("Saving", true),
            ("Trim / memcpy", true),
            ("Restore / read", true),
        ]),
        rows: Rows::of(groups.to_vec(), row),
    }
}

/// A row per trial: times of its phases and stored bytes.
pub(super) fn trials<'a>(trials: &[&'a Trial]) -> Table<'a> {
    let row = |trial: &&Trial| {
        let seconds = |name: &str| {
            let phase = trial.phases.iter().find(|phase| phase.name == name);
            let status = trial.status_of(&format!("{name}.seconds"));
            Cell::metric("phase_s", phase.map(|phase| phase.seconds))
                .doubtful(phase.is_some() && status == TrialStatus::Untrustworthy)
        };
        let metric = |name: &str| metric_cell(trial, name);
        vec![
            Cell::text(&trial.id),
            status_cell(trial),
            verified_cell(trial),
            seconds("fill"),
            seconds("trim"),
            seconds("restore"),
            seconds("release"),
            metric(STORED),
            metric(COMPRESSION),
            reasons_cell(trial),
        ]
    };
    Table {
        id: "trials",
        title: "Trials",
        columns: columns(&[
            ("Trial", false),
            ("Status", false),
            ("Verified", false),
            ("Fill", true),
            ("Trim", true),
            ("Restore", true),
            ("Release", true),
            ("Stored", true),
            ("Compression", true),
            ("Reasons", false),
        ]),
        rows: Rows::of(trials.to_vec(), row),
    }
}
