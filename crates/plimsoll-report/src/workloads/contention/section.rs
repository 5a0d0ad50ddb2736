//! The contention section: the memory of both programs after each request.

use crate::analysis::statistics;
use crate::analysis::{Group, MetricUnit};
use crate::contents::Page;
use crate::drawing::table::{Cell, Table, columns};
use crate::drawing::values;
use crate::drawing::xy::{Axis, Chart, Line};
use crate::workloads::contention::{TRIM_START, asks};
use crate::workloads::section::{Drawing, Section};
use plimsoll_model::quantity;
use plimsoll_model::recording::model::Trial;

/// The curves of both programs, each with its colour number.
const HELD: [(&str, &str, usize); 4] = [
    ("holder_resident_bytes", "the first, in RAM", 0),
    ("asker_resident_bytes", "the second, in RAM", 1),
    ("holder_swapped_bytes", "the first, in swap or saved", 2),
    ("asker_swapped_bytes", "the second, in swap or saved", 3),
];

pub(crate) fn section(page: &Page, groups: &[&Group]) -> Option<Section> {
    let asked: Vec<(&Group, Asks<'_>)> = groups
        .iter()
        .map(|group| (*group, Asks(group.counted(&page.results.trials))))
        .collect();
    let held = asked.iter().filter_map(|(group, asks)| held(group, asks));
    let drawings: Vec<Drawing> = held.chain(times(&asked)).collect();
    if drawings.is_empty() {
        return None;
    }
    Some(Section {
        id: "contention",
        title: "Two programs compete for memory",
        drawings,
        tables: vec![table(&asked)],
        ..Section::default()
    })
}

/// The trials of a group that count.
struct Asks<'a>(Vec<&'a Trial>);

impl Asks<'_> {
    /// The largest number of requests of a trial.
    fn count(&self) -> usize {
        self.0.iter().map(|trial| asks(trial).len()).max().unwrap_or(0)
    }

    /// Median of a value of one request over the repeats.
    fn median(&self, ask: usize, metric: &str) -> Option<f64> {
        let value = |trial: &&Trial| asks(trial).get(ask)?.values.get(metric).copied();
        let values: Vec<f64> = self.0.iter().filter_map(value).collect();
        statistics::median(&values)
    }

    /// A value over the requested bytes.
    fn points(&self, metric: &str) -> Vec<(f64, Option<f64>)> {
        (0..self.count())
            .filter_map(|ask| Some((self.median(ask, "asked_bytes")?, self.median(ask, metric))))
            .collect()
    }
}

fn held(group: &Group, asks: &Asks<'_>) -> Option<Drawing> {
    let line = |(metric, label, ink): (&str, &str, usize)| Line {
        label: label.to_owned(),
        ink,
        points: asks.points(metric),
        dots: true,
        ..Line::default()
    };
    let start = group.metrics.get(TRIM_START).map(|start| start.summary.median);
    let caption = format!("Resident and swapped memory: {}", group.label);
    let svg = values::draw(&Chart {
        title: caption.clone(),
        x: Axis::linear("requested by the second program", MetricUnit::Bytes),
        y: Axis::linear("memory of the programs", MetricUnit::Bytes),
        lines: HELD.into_iter().map(line).collect(),
        marks: start
            .map(|at| (at, "trimming starts".to_owned()))
            .into_iter()
            .collect(),
        levels: Vec::new(),
    })?;
    Some(Drawing {
        id: "memory",
        caption,
        hint: "Medians over the repeats, after each request. The first program loses memory to the second where its line falls."
            .to_owned(),
        svg,
    })
}

fn times(asked: &[(&Group, Asks<'_>)]) -> Option<Drawing> {
    let line = |(ink, (group, asks)): (usize, &(&Group, Asks<'_>))| Line {
        label: group.label.clone(),
        ink,
        points: asks.points("ask_s"),
        dots: true,
        ..Line::default()
    };
    let caption = "Time of a request".to_owned();
    let svg = values::draw(&Chart {
        title: caption.clone(),
        x: Axis::linear("requested by the second program", MetricUnit::Bytes),
        y: Axis::linear("time of the request", MetricUnit::Seconds),
        lines: asked.iter().enumerate().map(line).collect(),
        marks: Vec::new(),
        levels: Vec::new(),
    })?;
    Some(Drawing {
        id: "ask_s",
        caption,
        hint: "All requests have the same size: the time beyond that of the first ones is spent waiting for reclaim."
            .to_owned(),
        svg,
    })
}

/// A row for each request of each group.
fn table(asked: &[(&Group, Asks<'_>)]) -> Table<'static> {
    const COLUMNS: [&str; 7] = [
        "asked_bytes",
        "demand_percent",
        "holder_resident_bytes",
        "holder_swapped_bytes",
        "asker_resident_bytes",
        "asker_swapped_bytes",
        "ask_s",
    ];
    let row = |group: &Group, asks: &Asks<'_>, ask: usize| {
        let cell = |metric: &str| {
            let shown = |value| Cell::number(value, quantity::metric(metric, value));
            asks.median(ask, metric).map_or_else(Cell::missing, shown)
        };
        let mut cells = vec![
            Cell::text(&group.label),
            Cell::number((ask + 1) as f64, (ask + 1).to_string()),
        ];
        cells.extend(COLUMNS.map(cell));
        cells
    };
    let rows = asked
        .iter()
        .flat_map(|(group, asks)| (0..asks.count()).map(move |ask| row(group, asks, ask)));
    Table {
        id: "asks",
        title: "Requests",
        rows: rows.collect(),
        columns: columns(&[
            ("Group", false),
            ("Request", true),
            ("Requested", true),
            ("Both, of the limit", true),
            ("First in RAM", true),
            ("First in swap or saved", true),
            ("Second in RAM", true),
            ("Second in swap or saved", true),
            ("Took", true),
        ]),
    }
}
