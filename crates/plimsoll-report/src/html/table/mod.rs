//! The sortable tables of the report: summary, trials and phases of each workload, then every metric.

mod kinds;
mod phases;
mod states;

use crate::analysis::Group;
use crate::analysis::groups::Measured;
use crate::analysis::statistics::IntervalKind;
use crate::contents::{Mark, Page};
use crate::drawing::table::{Cell, Column, Rows, Table, columns};
use crate::headlines;
use crate::workloads::{self, find_metric};
use plimsoll_model::recording::model::Trial;
use plimsoll_model::scenario::WorkloadKind;
pub(super) use states::{States, states};

pub(super) struct Tab<'a> {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) table: Table<'a>,
}

impl<'a> Tab<'a> {
    fn plain(table: Table<'a>) -> Tab<'a> {
        Tab {
            id: table.id.to_owned(),
            title: table.title.to_owned(),
            table,
        }
    }

    fn of_kind(table: Table<'a>, kind: WorkloadKind) -> Tab<'a> {
        Tab {
            id: format!("{}-{}", table.id, kind.name()),
            title: format!("{}: {}", kind.name(), table.title.to_lowercase()),
            table,
        }
    }
}

/// All tables, in the order of their tabs. Where several kinds of work ran, a tab has the name of its kind.
pub(super) fn all(page: &Page) -> Vec<Tab<'_>> {
    if page.manifest.observes() {
        return vec![Tab::plain(events(&page.marks))];
    }
    let kinds = headlines::kinds(&page.groups);
    let mut tabs = Vec::new();
    for &kind in &kinds {
        tabs.extend(of_kind(page, kind).map(|table| match kinds.len() {
            1 => Tab::plain(table),
            _ => Tab::of_kind(table, kind),
        }));
    }
    if kinds.is_empty() {
        tabs.extend(of_kind(page, WorkloadKind::default()).map(Tab::plain));
    }
    tabs.push(Tab::plain(metrics(&page.groups)));
    tabs
}

/// Summary, trials and phases of one kind of work.
fn of_kind(page: &Page, kind: WorkloadKind) -> [Table<'_>; 3] {
    let groups: Vec<&Group> = page
        .groups
        .iter()
        .filter(|group| group.workload == kind.name())
        .collect();
    let trials: Vec<&Trial> = page
        .results
        .trials
        .iter()
        .filter(|trial| trial.workload == kind.name())
        .collect();
    let phases = phases::table(&trials);
    match workloads::of(kind).timed_phases {
        Some(timed) => [(timed.summary)(&groups), (timed.trials)(&trials), phases],
        None => [
            kinds::summary(kind, &groups),
            kinds::trials(kind, &groups, &trials),
            phases,
        ],
    }
}

/// The events of a watch: the lines in the drawings have no room for text.
fn events(marks: &[Mark]) -> Table<'static> {
    let row = |mark: &Mark| {
        vec![
            Cell::number(mark.t, format!("{:.2} s", mark.t)),
            Cell::text(&mark.label),
            Cell::text(&mark.name),
        ]
    };
    Table {
        id: "events",
        title: "Events",
        columns: columns(&[("Time", true), ("Label", false), ("Event", false)]),
        rows: marks.iter().map(row).collect(),
    }
}

/// Words as the head of a column.
fn heading(words: &str) -> String {
    let mut letters = words.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

fn metrics(groups: &[Group]) -> Table<'_> {
    let row = |&(group, name, measured): &(&Group, &str, &Measured)| {
        let summary = &measured.summary;
        let number = |value: f64| Cell::metric(name, Some(value));
        let title = find_metric(name).map_or(name, |metric| metric.title);
        vec![
            Cell::text(&group.label),
            Cell::text(title),
            number(summary.median).doubtful(measured.untrustworthy()),
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
    let all = groups.iter().flat_map(|group| {
        let metrics = group.metrics.iter();
        metrics.map(move |(name, measured)| (group, name, measured))
    });
    Table {
        id: "metrics",
        title: "Metrics",
        columns: columns(&[
            ("Group", false),
            ("Metric", false),
            ("Median", true),
            ("Interval low", true),
            ("Interval high", true),
            ("Interval is", false),
            ("Lowest", true),
            ("Highest", true),
            ("Runs", true),
        ]),
        rows: Rows::of(all.collect(), row),
    }
}
