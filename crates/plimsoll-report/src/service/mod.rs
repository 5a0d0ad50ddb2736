//! The size of a running service, from the recording of `plimsoll size --cgroup`: the working set over time, its percentiles
//! and the settings that they support.

mod advice;
pub(crate) mod headline;
pub(crate) mod section;

use std::ops::Range;

use crate::analysis::thinning::{CURVE_POINTS, stride};
use crate::contents::ServiceCurves;
use plimsoll_model::recording::model::{Event, EventKind};
use plimsoll_model::recording::service::{
    HOLD, SERVICE_SCHEMA, ServiceBound, ServiceSettings, ServiceSize, WorkingSet,
};
use plimsoll_model::recording::{ColumnView, Recording};
use plimsoll_model::sanitize::sanitize;

pub use advice::advice;

/// Time over which a rate is taken.
const RATE_NS: u64 = 1_000_000_000;

/// The size of the service of a recording; `None` for another recording, or one that lacks its settings or samples.
pub fn size(recording: &Recording) -> Option<ServiceSize> {
    if !recording.manifest.is_service() {
        return None;
    }
    let settings = settings(recording)?;
    let columns = Columns::of(recording);
    let t_ns = recording.samples.t_ns();
    let (first, last) = (*t_ns.first()?, *t_ns.last()?);
    let phases = phases(recording);
    let bound = phases.last().map_or(ServiceBound::None, |phase| phase.bound);
    let held: Vec<Range<usize>> = phases
        .iter()
        .filter(|phase| phase.bound == bound && bound != ServiceBound::None)
        .map(|phase| rows(t_ns, &phase.span))
        .collect();
    let sets = held
        .iter()
        .flat_map(|rows| rows.clone().filter_map(|row| columns.set(row)));
    let working_set = percentiles(sets.collect());
    let settled = phases
        .iter()
        .find(|phase| phase.bound == bound && bound != ServiceBound::None);
    let greatest = |value: &dyn Fn(usize) -> Option<u64>| (0..t_ns.len()).filter_map(value).max();
    let anonymous_bytes = greatest(&|row| columns.anonymous(row));
    let seconds: f64 = held.iter().map(|rows| length_s(t_ns, rows)).sum();
    let growth = |column: Option<ColumnView<'_>>| {
        let column = column?;
        let grown = held
            .iter()
            .filter_map(|rows| column.growth(rows.start, rows.end.checked_sub(1)?));
        (seconds > 0.0).then(|| grown.fold(0, i64::saturating_add) as f64 / seconds)
    };
    let has_pressure = columns
        .pressure
        .is_some_and(|column| column.iter().any(|value| value.is_some()));
    let per_second = |column| growth(column).unwrap_or(0.0);
    Some(ServiceSize {
        schema: SERVICE_SCHEMA,
        settings,
        seconds: (last - first) as f64 / 1e9,
        bound,
        settled_s: settled.map(|phase| phase.span.start as f64 / 1e9),
        working_set,
        last_bytes: columns
            .usage
            .and_then(|usage| usage.iter().flatten().last())
            .map_or(0, i64::unsigned_abs),
        peak_bytes: greatest(&|row| level(columns.usage, row)).unwrap_or(0),
        peak_file_bytes: greatest(&|row| level(columns.file, row)),
        anonymous_bytes,
        least_cap_bytes: (0..t_ns.len()).filter_map(|row| level(columns.cap, row)).min(),
        pressure_percent: growth(columns.pressure.filter(|_| has_pressure)).map(|us| us / 1e4),
        refaults_per_s: (seconds > 0.0).then(|| columns.refaults.map(per_second).iter().sum()),
        advice: working_set.map_or(Vec::new(), |set| advice(&set, anonymous_bytes)),
    })
}

/// The curves of the service of a recording; `None` as in [`size`].
pub(crate) fn curves(recording: &Recording) -> Option<ServiceCurves> {
    if !recording.manifest.is_service() {
        return None;
    }
    let columns = Columns::of(recording);
    let t_ns = recording.samples.t_ns();
    let stride = stride(t_ns.len(), CURVE_POINTS);
    let rows: Vec<usize> = (0..t_ns.len()).step_by(stride).collect();
    let level_of = |column: Option<ColumnView<'_>>| -> Vec<Option<f64>> {
        rows.iter()
            .map(|row| level(column, *row).map(|bytes| bytes as f64))
            .collect()
    };
    let rate = |column: Option<ColumnView<'_>>, row: usize| {
        let from = t_ns.partition_point(|t| {
            t.saturating_add(RATE_NS.max(t_ns[row] - t_ns[row.saturating_sub(stride)])) < t_ns[row]
        });
        let seconds = (t_ns[row] - t_ns[from]) as f64 / 1e9;
        let grown = column?.growth(from, row)?;
        (seconds > 0.0).then(|| grown.max(0) as f64 / seconds)
    };
    let refaults = |row: &usize| {
        let [anonymous, file] = columns.refaults.map(|column| rate(column, *row));
        anonymous.or(file)?;
        Some(anonymous.unwrap_or(0.0) + file.unwrap_or(0.0))
    };
    let phases = recording
        .events
        .iter()
        .filter(|event| event.kind == EventKind::PhaseStart);
    Some(ServiceCurves {
        t: rows.iter().map(|row| t_ns[*row] as f64 / 1e9).collect(),
        usage: level_of(columns.usage),
        cap: level_of(columns.cap),
        pressure: rows
            .iter()
            .map(|row| rate(columns.pressure, *row).map(|us| us / 1e4))
            .collect(),
        refaults: rows.iter().map(refaults).collect(),
        phases: phases
            .map(|event| {
                (
                    event.t_ns as f64 / 1e9,
                    sanitize(event.phase.as_deref().unwrap_or_default()).into_owned(),
                )
            })
            .collect(),
    })
}

/// The settings of the sizing, as its recording has them.
fn settings(recording: &Recording) -> Option<ServiceSettings> {
    let mut events = recording.events.iter();
    let event = events.find(|event| event.kind == EventKind::Environment)?;
    let mut settings: ServiceSettings = serde_json::from_str(&event.text).ok()?;
    for text in [
        &mut settings.cgroup,
        &mut settings.cap_file,
        &mut settings.cap_before,
    ] {
        *text = sanitize(text).into_owned();
    }
    Some(settings)
}

/// A stretch of time, and the condition that held the cap in it.
#[derive(Debug, PartialEq)]
struct Phase {
    span: Range<u64>,
    bound: ServiceBound,
}

fn phases(recording: &Recording) -> Vec<Phase> {
    let is_start = |event: &&Event| event.kind == EventKind::PhaseStart;
    let starts: Vec<&Event> = recording.events.iter().filter(is_start).collect();
    let ends = recording
        .events
        .iter()
        .filter(|event| matches!(event.kind, EventKind::Stopped | EventKind::RunEnd));
    let end = ends.map(|event| event.t_ns).min().unwrap_or(u64::MAX);
    let bound = |event: &Event| match event.phase.as_deref() {
        Some(HOLD) => serde_json::from_value(event.text.clone().into()).unwrap_or_default(),
        _ => ServiceBound::None,
    };
    let phase = |(index, event): (usize, &&Event)| Phase {
        span: event.t_ns..starts.get(index + 1).map_or(end, |next| next.t_ns),
        bound: bound(event),
    };
    let phases: Vec<Phase> = starts.iter().enumerate().map(phase).collect();
    // A descent after the working set was found is an attempt to find a smaller one.
    let last = phases.iter().rposition(|phase| phase.bound != ServiceBound::None);
    phases.into_iter().take(last.map_or(0, |last| last + 1)).collect()
}

fn rows(t_ns: &[u64], span: &Range<u64>) -> Range<usize> {
    let first = t_ns.partition_point(|t| *t < span.start);
    first..t_ns.partition_point(|t| *t < span.end).max(first)
}

fn length_s(t_ns: &[u64], rows: &Range<usize>) -> f64 {
    match rows.is_empty() {
        true => 0.0,
        false => (t_ns[rows.end - 1] - t_ns[rows.start]) as f64 / 1e9,
    }
}

struct Columns<'a> {
    usage: Option<ColumnView<'a>>,
    cap: Option<ColumnView<'a>>,
    anon: Option<ColumnView<'a>>,
    file: Option<ColumnView<'a>>,
    swap: Option<ColumnView<'a>>,
    swap_cached: Option<ColumnView<'a>>,
    pressure: Option<ColumnView<'a>>,
    refaults: [Option<ColumnView<'a>>; 2],
    /// Whether `swap` includes pages that are also in RAM.
    swap_has_cached: bool,
}

impl<'a> Columns<'a> {
    fn of(recording: &'a Recording) -> Columns<'a> {
        let column = |name: &str| recording.samples.column(name);
        Columns {
            usage: column("cgroup_usage"),
            cap: column("cgroup_cap"),
            anon: column("cgroup_anon"),
            file: column("cgroup_file"),
            swap: column("cgroup_swap"),
            swap_cached: column("cgroup_swap_cached"),
            pressure: column("cgroup_psi_some_us"),
            refaults: ["cgroup_refault_anon", "cgroup_refault_file"].map(column),
            swap_has_cached: recording.manifest.host.cgroup == "v2",
        }
    }

    /// The memory under the cap: while pressure holds the cap, the working set.
    fn set(&self, row: usize) -> Option<u64> {
        let usage = level(self.usage, row)?;
        Some(level(self.cap, row).map_or(usage, |cap| usage.min(cap)))
    }

    /// Anonymous memory in RAM and in swap.
    fn anonymous(&self, row: usize) -> Option<u64> {
        let swap = level(self.swap, row).unwrap_or(0);
        let twice = match self.swap_has_cached {
            true => level(self.swap_cached, row).unwrap_or(0),
            false => 0,
        };
        Some(level(self.anon, row)?.saturating_add(swap.saturating_sub(twice)))
    }
}

fn level(column: Option<ColumnView<'_>>, row: usize) -> Option<u64> {
    column?.get(row).and_then(|value| u64::try_from(value).ok())
}

/// The percentiles of values; `None` without any.
fn percentiles(mut values: Vec<u64>) -> Option<WorkingSet> {
    values.sort_unstable();
    let max_bytes = *values.last()?;
    // The smallest value that is at least as large as so many percent of them.
    let at = |percent: usize| values[(values.len() * percent).div_ceil(100).saturating_sub(1)];
    Some(WorkingSet {
        p50_bytes: at(50),
        p90_bytes: at(90),
        p99_bytes: at(99),
        max_bytes,
    })
}

#[cfg(test)]
mod tests;
