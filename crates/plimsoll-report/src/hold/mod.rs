//! The course of a level, from the recording of `plimsoll hold`: when it was reached, how close it stayed, its cost.

pub(crate) mod headline;
pub(crate) mod section;
mod words;

use std::ops::Range;

use crate::analysis::ratio;
use crate::analysis::thinning::{CURVE_POINTS, stride};
use crate::contents::HoldCurves;
use plimsoll_model::recording::hold::{
    APPROACH, HOLD, HOLD_SCHEMA, HeldLevel, HoldEnd, HoldGoal, HoldSettings, Spread,
};
use plimsoll_model::recording::model::{Event, EventKind};
use plimsoll_model::recording::{ColumnView, Recording};
use plimsoll_model::sanitize::sanitize;

pub use words::facts;

/// Millionths in a percent.
const PPM: f64 = 1e4;

/// The level that a recording held; `None` for another recording, or one that lacks its settings.
pub fn level(recording: &Recording) -> Option<HeldLevel> {
    if !recording.manifest.is_hold() {
        return None;
    }
    let settings = settings(recording)?;
    let columns = Columns::of(recording, settings.goal);
    let marks = Marks::of(recording);
    let t_ns = recording.samples.t_ns();
    let rows = marks
        .reached_ns
        .map_or(0..0, |reached| rows(t_ns, reached, marks.end_ns));
    let (mut held, mut off, mut stalled) = (Spread::default(), Spread::default(), Spread::default());
    let (mut looks, mut within) = (0_u32, 0_u32);
    for row in rows.clone() {
        let Some((level, goal)) = columns.level(row).zip(columns.goal(row)) else {
            continue;
        };
        looks += 1;
        within += u32::from(settings.goal.is_within(level, goal));
        if settings.goal.percent().is_some() {
            stalled.add(level, level);
            continue;
        }
        let distance = (level - goal).abs();
        off.add(distance as u64, distance);
        if let Some(bytes) = columns.held(row) {
            held.add(bytes, bytes as f64);
        }
    }
    let seconds_from = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e9;
    Some(HeldLevel {
        schema: HOLD_SCHEMA,
        ended: marks.ended,
        seconds: seconds_from(marks.start_ns, marks.end_ns),
        reached_s: marks
            .reached_ns
            .map(|reached| seconds_from(marks.start_ns, reached)),
        within: ratio(f64::from(within), f64::from(looks)),
        held_bytes: held.known(),
        off_bytes: off.known(),
        stalled_percent: stalled.known(),
        cpu_percent: columns.cpu_percent(t_ns, &rows),
        settings,
    })
}

/// The curves of the level of a recording; `None` as in [`level`].
pub(crate) fn curves(recording: &Recording) -> Option<HoldCurves> {
    if !recording.manifest.is_hold() {
        return None;
    }
    let goal = settings(recording)?.goal;
    let columns = Columns::of(recording, goal);
    let marks = Marks::of(recording);
    let t_ns = recording.samples.t_ns();
    // While the kernel frees the memory, samples have the last look.
    let count = rows(t_ns, 0, marks.end_ns).len();
    let rows: Vec<usize> = (0..count).step_by(stride(count, CURVE_POINTS)).collect();
    let bytes = |column: Option<ColumnView<'_>>| -> Vec<Option<f64>> {
        let value = |row: &usize| level_at(column, *row).map(|bytes| bytes as f64);
        rows.iter().map(value).collect()
    };
    let seconds = |t_ns: u64| t_ns as f64 / 1e9;
    Some(HoldCurves {
        kind: goal,
        t: rows.iter().map(|row| seconds(t_ns[*row])).collect(),
        level: rows.iter().map(|row| columns.level(*row)).collect(),
        goal: rows.iter().map(|row| columns.goal(*row)).collect(),
        held: bytes(columns.held),
        available: bytes(columns.available),
        reached: marks.reached_ns.map(seconds),
        released: marks.ended.map(|_| seconds(marks.end_ns)),
    })
}

/// The settings of the hold, as its recording has them.
fn settings(recording: &Recording) -> Option<HoldSettings> {
    let mut events = recording.events.iter();
    let event = events.find(|event| event.kind == EventKind::Environment)?;
    let mut settings: HoldSettings = serde_json::from_str(&event.text).ok()?;
    for text in [&mut settings.cgroup, &mut settings.class].into_iter().flatten() {
        *text = sanitize(text).into_owned();
    }
    Some(settings)
}

/// The times of a hold, in nanoseconds since the start of the recording.
struct Marks {
    start_ns: u64,
    reached_ns: Option<u64>,
    /// That of the last sample without an end.
    end_ns: u64,
    ended: Option<HoldEnd>,
}

impl Marks {
    fn of(recording: &Recording) -> Marks {
        let start = |name: &str| {
            let is_start =
                |event: &&Event| event.kind == EventKind::PhaseStart && event.phase.as_deref() == Some(name);
            recording.events.iter().find(is_start).map(|event| event.t_ns)
        };
        let mut events = recording.events.iter();
        let end = events.find(|event| event.kind == EventKind::PhaseEnd);
        let ended = end.map(|event| {
            let word = serde_json::from_value(event.text.clone().into());
            word.unwrap_or(HoldEnd::Other)
        });
        let last = recording.samples.t_ns().last().copied().unwrap_or(0);
        Marks {
            start_ns: start(APPROACH).unwrap_or(0),
            reached_ns: start(HOLD),
            end_ns: end.map_or(last, |event| event.t_ns),
            ended,
        }
    }
}

fn rows(t_ns: &[u64], from: u64, to: u64) -> Range<usize> {
    let first = t_ns.partition_point(|t| *t < from);
    first..t_ns.partition_point(|t| *t <= to).max(first)
}

struct Columns<'a> {
    kind: HoldGoal,
    held: Option<ColumnView<'a>>,
    available: Option<ColumnView<'a>>,
    goal: Option<ColumnView<'a>>,
    stalled: Option<ColumnView<'a>>,
    cpu: [Option<ColumnView<'a>>; 2],
}

impl<'a> Columns<'a> {
    fn of(recording: &'a Recording, kind: HoldGoal) -> Columns<'a> {
        let column = |name: &str| recording.samples.column(name);
        Columns {
            kind,
            held: column("hold_held"),
            available: column("hold_available"),
            goal: column("hold_goal"),
            stalled: column("hold_stalled_ppm"),
            cpu: ["runner_cpu_us", "target_cpu_us"].map(column),
        }
    }

    fn held(&self, row: usize) -> Option<u64> {
        level_at(self.held, row)
    }

    /// The level in bytes, or in percent of the time.
    fn level(&self, row: usize) -> Option<f64> {
        let (column, unit) = match self.kind {
            HoldGoal::AvailableBytes(_) => (self.available, 1.0),
            HoldGoal::HeldBytes(_) => (self.held, 1.0),
            HoldGoal::SomePercent(_) | HoldGoal::FullPercent(_) => (self.stalled, PPM),
        };
        level_at(column, row).map(|value| value as f64 / unit)
    }

    /// The goal in the same unit, at rows that have a level.
    fn goal(&self, row: usize) -> Option<f64> {
        match self.kind.percent() {
            Some(percent) => self.level(row).map(|_| percent),
            None => level_at(self.goal, row).map(|bytes| bytes as f64),
        }
    }

    /// CPU time of the command and of its worker, in percent of one CPU.
    fn cpu_percent(&self, t_ns: &[u64], rows: &Range<usize>) -> Option<f64> {
        // The worker has no CPU time after its end.
        let last = rows.clone().rev().find(|row| self.level(*row).is_some())?;
        let grown =
            |column: &Option<ColumnView<'_>>| column.and_then(|column| column.growth(rows.start, last));
        let us: i64 = self.cpu.iter().filter_map(grown).map(|us| us.max(0)).sum();
        ratio(
            100.0 * us as f64 / 1e6,
            (t_ns[last] - t_ns[rows.start]) as f64 / 1e9,
        )
    }
}

fn level_at(column: Option<ColumnView<'_>>, row: usize) -> Option<u64> {
    column?.get(row).and_then(|value| u64::try_from(value).ok())
}
