//! The table of phases: the common values, then those of these phases.

use std::collections::BTreeSet;

use super::{Cell, Column, Rows, Table, columns, heading};
use crate::headline_metrics::words;
use plimsoll_model::quantity;
use plimsoll_model::recording::model::{Phase, Trial};
use plimsoll_model::sanitize::sanitize;

/// Functions of a profile that a cell names.
const PROFILE_NAMES: usize = 3;

/// A value of every phase; the table omits its column if all are 0.
type Known = (&'static str, fn(&Phase) -> f64, fn(f64) -> String);

const KNOWN: [Known; 8] = [
    ("Time", |phase| phase.seconds, quantity::seconds),
    ("Bytes", |phase| phase.bytes as f64, quantity::bytes),
    (
        "Speed",
        |phase| phase.gb_per_s,
        |value| quantity::metric("phase_gb_per_s", value),
    ),
    ("CPU user", |phase| phase.cpu_user_s, quantity::seconds),
    ("CPU system", |phase| phase.cpu_system_s, quantity::seconds),
    (
        "CPU kernel threads",
        |phase| phase.cpu_kernel_threads_s,
        quantity::seconds,
    ),
    (
        "Minor faults",
        |phase| phase.minor_faults as f64,
        |value| quantity::count(value as u64),
    ),
    (
        "Major faults",
        |phase| phase.major_faults as f64,
        |value| quantity::count(value as u64),
    ),
];

/// A row a phase, over these trials.
pub(super) fn table<'a>(trials: &[&'a Trial]) -> Table<'a> {
    let phases = || trials.iter().flat_map(|&trial| trial.phases.iter());
    let known: Vec<&Known> = KNOWN
        .iter()
        .filter(|(title, value, _)| {
            *title == "Time" || trials.is_empty() || phases().any(|phase| value(phase) != 0.0)
        })
        .collect();
    let names: BTreeSet<&'a String> = phases().flat_map(|phase| phase.values.keys()).collect();
    let profiled = phases().any(|phase| !phase.profile.is_empty());
    let mut heads = columns(&[("Trial", false), ("Phase", false)]);
    heads.extend(known.iter().map(|(title, _, _)| Column::new(*title, true)));
    heads.extend(names.iter().map(|name| Column::new(heading(&words(name)), true)));
    if profiled {
        heads.extend(columns(&[("Where CPU time went", false)]));
    }
    let row = move |&(trial, phase): &(&Trial, &Phase)| {
        let mut row = vec![Cell::text(&trial.id), Cell::text(sanitize(&phase.name))];
        row.extend(known.iter().map(|(_, value, text)| {
            let value = value(phase);
            Cell::number(value, text(value))
        }));
        let cell = |name: &&String| Cell::metric(name, phase.values.get(*name).copied());
        row.extend(names.iter().map(cell));
        if profiled {
            row.push(Cell {
                class: "reasons",
                ..Cell::text(profile(phase))
            });
        }
        row
    };
    let all = trials
        .iter()
        .flat_map(|&trial| trial.phases.iter().map(move |phase| (trial, phase)));
    Table {
        id: "phases",
        title: "Phases",
        columns: heads,
        rows: Rows::of(all.collect(), row),
    }
}

/// The functions that took most of the CPU time.
fn profile(phase: &Phase) -> String {
    let named = phase.profile.iter().take(PROFILE_NAMES);
    let text = named.map(|(name, share)| {
        format!(
            "{} {}",
            sanitize(name),
            quantity::metric("share_percent", share * 100.0)
        )
    });
    text.collect::<Vec<_>>().join(", ")
}
