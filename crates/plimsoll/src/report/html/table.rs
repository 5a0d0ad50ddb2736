//! The sortable tables of the page.

use std::collections::BTreeSet;

use super::palette;
use crate::analysis::Group;
use crate::analysis::compression::{
    COMPRESSION, FILL_SPEED, RESTORE_READ, RESTORE_SPEED, STORED, STORED_RATIO, TRIM_MEMCPY, TRIM_SPEED,
};
use crate::analysis::groups::Measured;
use crate::analysis::metric;
use crate::analysis::statistics::IntervalKind;
use crate::quantity;
use crate::recording::model::{Trial, TrialStatus};
use crate::report::page::{Mark, Page};

/// A table as the template prints it.
pub(in crate::report) struct Table {
    pub(in crate::report) id: &'static str,
    pub(in crate::report) title: &'static str,
    pub(in crate::report) columns: Vec<Column>,
    pub(in crate::report) rows: Vec<Vec<Cell>>,
}

/// Head of a column.
pub(in crate::report) struct Column {
    pub(in crate::report) title: &'static str,
    pub(in crate::report) numeric: bool,
}

/// A cell: its text, and the value that it is sorted by.
pub(in crate::report) struct Cell {
    pub(in crate::report) text: String,
    pub(in crate::report) sort: String,
    pub(in crate::report) class: &'static str,
}

impl Cell {
    pub(in crate::report) fn text(text: impl Into<String>) -> Cell {
        let text = text.into();
        Cell {
            sort: text.clone(),
            text,
            class: "",
        }
    }

    pub(in crate::report) fn number(value: f64, text: String) -> Cell {
        Cell {
            text,
            sort: value.to_string(),
            class: "number",
        }
    }

    pub(in crate::report) fn missing() -> Cell {
        Cell {
            text: "\u{2013}".to_owned(),
            sort: String::new(),
            class: "number",
        }
    }

    fn metric(name: &str, value: Option<f64>) -> Cell {
        value.map_or_else(Cell::missing, |value| {
            Cell::number(value, quantity::metric(name, value))
        })
    }
}

pub(in crate::report) fn columns(titles: &[(&'static str, bool)]) -> Vec<Column> {
    titles
        .iter()
        .map(|&(title, numeric)| Column { title, numeric })
        .collect()
}

/// All tables, in the order of their tabs.
pub(super) fn all(page: &Page) -> Vec<Table> {
    if page.manifest.is_watch() {
        return vec![events(&page.marks)];
    }
    vec![
        summary(&page.groups),
        trials(&page.results.trials),
        phases(&page.results.trials),
        metrics(&page.groups),
    ]
}

/// What was marked while somebody watched: the lines in the drawings have no room for words.
fn events(marks: &[Mark]) -> Table {
    let row = |mark: &Mark| {
        vec![
            Cell::number(mark.t, format!("{:.2} s", mark.t)),
            Cell::text(&mark.sign),
            Cell::text(&mark.label),
        ]
    };
    Table {
        id: "events",
        title: "Events",
        columns: columns(&[("Time", true), ("Sign", false), ("What happened", false)]),
        rows: marks.iter().map(row).collect(),
    }
}

fn summary(groups: &[Group]) -> Table {
    let median = |group: &Group, metric: &str| {
        Cell::metric(metric, group.metrics.get(metric).map(|one| one.summary.median))
    };
    let rows = groups
        .iter()
        .map(|group| {
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
        })
        .collect();
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
        rows,
    }
}

/// Status with a sign of its own, so that colour is not all that tells it.
pub(super) fn status(status: TrialStatus) -> (&'static str, &'static str) {
    match status {
        TrialStatus::Ok => ("\u{2713} ok", "ok"),
        TrialStatus::Failed => ("\u{2717} failed", "failed"),
        TrialStatus::Untrustworthy => ("! untrustworthy", "untrustworthy"),
    }
}

fn trials(trials: &[Trial]) -> Table {
    let rows = trials
        .iter()
        .map(|trial| {
            let (words, class) = status(trial.status);
            let seconds = |name: &str| {
                let phase = trial.phases.iter().find(|phase| phase.name == name);
                Cell::metric("phase_s", phase.map(|phase| phase.seconds))
            };
            let metric = |name: &str| Cell::metric(name, trial.metrics.get(name).copied());
            let mut text_of_status = Cell::text(words);
            text_of_status.class = class;
            vec![
                Cell::text(&trial.id),
                text_of_status,
                Cell::text(if trial.verified { "yes" } else { "no" }),
                seconds("fill"),
                seconds("trim"),
                seconds("restore"),
                seconds("release"),
                metric(STORED),
                metric(COMPRESSION),
                Cell {
                    class: "reasons",
                    ..Cell::text(trial.reasons.join("; "))
                },
            ]
        })
        .collect();
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
        rows,
    }
}

fn phases(trials: &[Trial]) -> Table {
    let whole = |value: u64| Cell::number(value as f64, quantity::count(value));
    let seconds = |value: f64| Cell::number(value, quantity::seconds(value));
    let rows = trials
        .iter()
        .flat_map(|trial| trial.phases.iter().map(move |phase| (trial, phase)))
        .map(|(trial, phase)| {
            vec![
                Cell::text(&trial.id),
                Cell::text(&phase.name),
                seconds(phase.seconds),
                Cell::number(phase.bytes as f64, quantity::bytes(phase.bytes as f64)),
                Cell::metric("phase_gb_per_s", Some(phase.gb_per_s)),
                seconds(phase.cpu_user_s),
                seconds(phase.cpu_system_s),
                seconds(phase.cpu_kernel_threads_s),
                whole(phase.minor_faults),
                whole(phase.major_faults),
            ]
        })
        .collect();
    Table {
        id: "phases",
        title: "Phases",
        columns: columns(&[
            ("Trial", false),
            ("Phase", false),
            ("Time", true),
            ("Bytes", true),
            ("Speed", true),
            ("CPU user", true),
            ("CPU system", true),
            ("CPU kernel threads", true),
            ("Minor faults", true),
            ("Major faults", true),
        ]),
        rows,
    }
}

fn metrics(groups: &[Group]) -> Table {
    let row = |group: &Group, name: &str, measured: &Measured| {
        let summary = &measured.summary;
        let number = |value: f64| Cell::metric(name, Some(value));
        let title = metric::find(name).map_or(name, |metric| metric.title);
        vec![
            Cell::text(&group.label),
            Cell::text(title),
            number(summary.median),
            number(summary.interval.low),
            number(summary.interval.high),
            Cell::text(match summary.interval.kind {
                IntervalKind::Range => "min to max",
                IntervalKind::Bootstrap95 => "95% bootstrap",
            }),
            number(summary.min),
            number(summary.max),
            Cell::number(summary.n as f64, summary.n.to_string()),
        ]
    };
    let rows = groups
        .iter()
        .flat_map(|group| {
            group
                .metrics
                .iter()
                .map(move |(name, measured)| row(group, name, measured))
        })
        .collect();
    Table {
        id: "metrics",
        title: "Metrics",
        columns: columns(&[
            ("Subject and class", false),
            ("Metric", false),
            ("Median", true),
            ("Interval low", true),
            ("Interval high", true),
            ("Interval is", false),
            ("Lowest", true),
            ("Highest", true),
            ("Runs", true),
        ]),
        rows,
    }
}

/// Where the memory of a trial was before the first event and after each.
pub(super) struct States {
    pub(super) heads: Vec<Head>,
    pub(super) rows: Vec<StateRow>,
}

/// Head of a column of [`States`].
pub(super) struct Head {
    pub(super) number: Option<usize>,
    pub(super) words: String,
}

/// A category of [`States`].
pub(super) struct StateRow {
    pub(super) key: &'static str,
    pub(super) label: String,
    /// Level and change since the column before; the change is empty where there is none to speak of.
    pub(super) cells: Vec<(String, String)>,
}

/// A change below this share of all that the trial worked on is noise of other programs, and not printed.
const TELLING_SHARE: f64 = 0.01;

/// The states of a trial; `None` where its phases carry none.
pub(super) fn states(trial: &Trial) -> Option<States> {
    let first = trial.phases.first()?;
    let keys: BTreeSet<&String> = trial.phases.iter().flat_map(|phase| phase.after.keys()).collect();
    if keys.is_empty() {
        return None;
    }
    let heads = std::iter::once(Head {
        number: None,
        words: format!("before {}", first.name),
    })
    .chain(trial.phases.iter().enumerate().map(|(index, phase)| Head {
        number: Some(index + 1),
        words: format!("after {}", phase.name),
    }))
    .collect();
    let telling = first.bytes as f64 * TELLING_SHARE;
    let place = |key: &str| palette::LAYERS.iter().position(|paint| paint.key == key);
    let mut keys: Vec<&String> = keys.into_iter().collect();
    keys.sort_by_key(|key| {
        let place = place(key);
        (
            place.is_none_or(|place| !palette::LAYERS[place].moves),
            place.is_some(),
            place,
        )
    });
    let rows = keys
        .into_iter()
        .map(|key| {
            let levels = std::iter::once(first.before.get(key))
                .chain(trial.phases.iter().map(|phase| phase.after.get(key)));
            let mut last: Option<f64> = None;
            let cells = levels
                .map(|level| {
                    let Some(level) = level.map(|level| *level as f64) else {
                        return ("\u{2013}".to_owned(), String::new());
                    };
                    let change = last.map_or(0.0, |last| level - last);
                    last = Some(level);
                    let change = if change.abs() > telling {
                        quantity::change_of_bytes(change)
                    } else {
                        String::new()
                    };
                    (quantity::bytes(level), change)
                })
                .collect();
            let paint = place(key).map(|place| &palette::LAYERS[place]);
            StateRow {
                key: paint.map_or("", |paint| paint.key),
                label: paint.map_or_else(|| key.replace('_', " "), |paint| paint.label.to_owned()),
                cells,
            }
        })
        .collect();
    Some(States { heads, rows })
}
