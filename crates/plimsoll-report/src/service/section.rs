//! The section of a sized service: memory and cap over time, pressure over time, and the working set.

use crate::analysis::MetricUnit;
use crate::contents::{Page, ServiceCurves};
use crate::drawing::table::{Cell, Rows, Table, columns};
use crate::drawing::values;
use crate::drawing::xy::{Axis, Chart, Line};
use crate::workloads::section::{Drawing, Section};
use plimsoll_model::quantity::bytes;
use plimsoll_model::recording::service::{DESCENT, HOLD, ServiceSize};

/// The section; `None` for another recording.
pub(crate) fn section(page: &Page) -> Option<Section> {
    let curves = page.service.as_ref()?;
    let pressure = match curves.pressure.iter().any(Option::is_some) {
        true => over_time(
            curves,
            ("pressure", "Pressure on the service"),
            "Share of the time in which at least one of its tasks waited for memory (PSI some). The cap follows it.",
            ("stalled", MetricUnit::Percent),
            vec![("pressure", &curves.pressure)],
        ),
        false => over_time(
            curves,
            ("refaults", "Refaults of the service"),
            "Pages that were reclaimed and came back. The cap follows them: cgroup v1 has no pressure of its own.",
            ("refaults", MetricUnit::PerSecond),
            vec![("refaults", &curves.refaults)],
        ),
    };
    let memory = over_time(
        curves,
        ("memory", "Memory of the service and its cap"),
        "The cap sinks until pressure reaches the target; the memory under it is then the working set. A spike lifts the cap.",
        ("memory", MetricUnit::Bytes),
        vec![("memory", &curves.usage), ("cap", &curves.cap)],
    );
    Some(Section {
        id: "service",
        title: "The working set of the service",
        drawings: [memory, pressure].into_iter().flatten().collect(),
        tables: page.results.service.iter().map(table).collect(),
        ..Section::default()
    })
}

fn over_time(
    curves: &ServiceCurves,
    (id, caption): (&'static str, &str),
    hint: &str,
    (title, unit): (&str, MetricUnit),
    lines: Vec<(&str, &Vec<Option<f64>>)>,
) -> Option<Drawing> {
    let line = |(ink, (label, values)): (usize, (&str, &Vec<Option<f64>>))| Line {
        label: label.to_owned(),
        ink,
        points: curves.t.iter().copied().zip(values.iter().copied()).collect(),
        ..Line::default()
    };
    let changes = curves
        .phases
        .iter()
        .filter(|(_, name)| name == HOLD || name == DESCENT);
    let chart = Chart {
        title: caption.to_owned(),
        x: Axis::linear("time", MetricUnit::Seconds),
        y: Axis::linear(title, unit),
        lines: lines.into_iter().enumerate().map(line).collect(),
        marks: changes.map(|(t, name)| (*t, name.clone())).collect(),
        levels: Vec::new(),
    };
    Some(Drawing {
        id,
        caption: caption.to_owned(),
        hint: hint.to_owned(),
        svg: values::draw(&chart)?,
    })
}

fn table(size: &ServiceSize) -> Table<'static> {
    let amount =
        |name: &str, value: u64| vec![Cell::text(name), Cell::number(value as f64, bytes(value as f64))];
    let mut rows = Vec::new();
    if let Some(set) = &size.working_set {
        rows.push(amount("working set, p50", set.p50_bytes));
        rows.push(amount("working set, p90", set.p90_bytes));
        rows.push(amount("working set, p99", set.p99_bytes));
        rows.push(amount("working set, greatest", set.max_bytes));
    }
    rows.push(amount("greatest memory", size.peak_bytes));
    rows.extend(
        size.peak_file_bytes
            .map(|value| amount("greatest page cache", value)),
    );
    rows.extend(
        size.anonymous_bytes
            .map(|value| amount("anonymous, in RAM and in swap", value)),
    );
    rows.extend(size.least_cap_bytes.map(|value| amount("lowest cap", value)));
    Table {
        id: "sizes",
        title: "Sizes",
        columns: columns(&[("size", false), ("bytes", true)]),
        rows: Rows::Made(rows),
    }
}
