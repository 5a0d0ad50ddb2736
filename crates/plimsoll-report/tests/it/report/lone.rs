//! Recordings of commands without trials: `watch`, `size --cgroup`, `hold`.

use plimsoll_model::columns::Row;
use plimsoll_model::recording::model::{Event, EventKind};
use plimsoll_model::recording::{Recording, Samples};

use super::recorded;
use super::simulation::QUICK;

pub(super) const MIB: i64 = 1 << 20;
/// The name that a stranger may give a cgroup or a process, or the text of a note.
pub(super) const HOSTILE: &str = "/</script><img src=x onerror=alert(1)>\u{1b}[2J\n| x | **y** \u{202e}";

/// A recording of `scenario` with the samples of the synthetic machine.
pub(super) fn recording(scenario: &str, title: &str, events: Vec<Event>) -> Recording {
    let mut recording = recorded::recording(QUICK, 10);
    recording.manifest.plan.scenario = scenario.to_owned();
    recording.manifest.plan.title = title.to_owned();
    recording.manifest.plan.trials.clear();
    recording.manifest.calibration = None;
    recording.trials.clear();
    recording.results = None;
    recording.events = events;
    recording
}

/// An event; `phase` is a phase with its number.
pub(super) fn event(second: u64, kind: EventKind, phase: Option<(&str, u32)>, text: &str) -> Event {
    let number = phase.map(|(_, number)| number);
    Event {
        phase: phase.map(|(name, _)| name.to_owned()),
        number: number.filter(|_| kind == EventKind::PhaseStart),
        ..Event::new(second * 1_000_000_000, kind, text)
    }
}

/// Samples at 10 Hz.
pub(super) fn samples(ticks: i64, row: impl Fn(i64, &mut Row)) -> Samples {
    let rows = (0..ticks).map(|tick| {
        let mut sample = Row::empty(tick as u64 * 100_000_000);
        row(tick, &mut sample);
        sample
    });
    Samples::from_rows(&rows.collect::<Vec<Row>>())
}

/// The samples of a recording, each changed.
pub(super) fn changed(samples: &Samples, change: impl Fn(usize, Row) -> Row) -> Samples {
    let rows = (0..samples.len()).map(|index| change(index, samples.row(index)));
    Samples::from_rows(&rows.collect::<Vec<Row>>())
}

/// The values of an attribute of HTML, in their order.
pub(super) fn attributes<'h>(html: &'h str, name: &str) -> impl Iterator<Item = &'h str> {
    let values = html.split(&format!(" {name}=\"")).skip(1).collect::<Vec<&str>>();
    values.into_iter().filter_map(|rest| rest.split('"').next())
}

/// The charts of the sections of a report, or of one of them.
pub(super) fn charts(html: &str) -> Vec<&str> {
    attributes(html, "data-chart")
        .filter(|chart| *chart != "overview")
        .collect()
}

/// A sample with these columns alone.
pub(super) fn only(row: &Row, columns: &[usize]) -> Row {
    let mut other = Row::empty(row.t_ns);
    for column in columns {
        if let Some(value) = row.get(*column) {
            other.set(*column, value);
        }
    }
    other
}
