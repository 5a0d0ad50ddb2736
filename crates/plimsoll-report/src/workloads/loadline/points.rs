//! The table of every point that a run measured.

use std::collections::HashSet;

use crate::analysis::Group;
use crate::contents::Page;
use crate::drawing::table::{Cell, Table, columns};
use plimsoll_model::quantity::significant;
use plimsoll_model::recording::model::{Phase, Trial};
use plimsoll_model::scenario::workloads::finding::OVER_BUDGET;
use plimsoll_model::scenario::workloads::loadline::finding::{
    ACHIEVED, CPU_SYSTEM, CPU_WAIT, EARLY_KILLS, FILE_IN_RAM, FILE_REFAULTS, HARD_FAULTS, KILLED, LIMIT,
    LOAD, NET, P99, PSI_SOME, RAM_LOAD, READ_P99, RESIDENT, STORE, SWAP_IN, SWAPPED, VISITS, WRITE_P99,
};

/// Whether the points of a trial differ in their limit.
pub(super) fn is_fixed(trials: &[&Trial]) -> bool {
    let limits = |trial: &&Trial| -> Vec<f64> {
        let phases = trial.phases.iter();
        phases
            .filter_map(|phase| phase.values.get(LIMIT).copied())
            .collect()
    };
    let differ = |limits: Vec<f64>| limits.windows(2).any(|two| two[0] != two[1]);
    trials.iter().map(limits).any(differ)
}

/// Columns of every table of points, and those of the points that have a value for them.
const COLUMNS: [(&str, &str); 14] = [
    ("Visits", VISITS),
    ("p50", "p50_s"),
    ("p99", P99),
    ("p99.9", "p999_s"),
    ("Max", "max_s"),
    ("Net visit", NET),
    ("Hard faults", HARD_FAULTS),
    ("Kernel CPU", CPU_SYSTEM),
    ("PSI some", PSI_SOME),
    ("Resident", RESIDENT),
    ("Swapped", SWAPPED),
    ("Store", STORE),
    ("CPU wait", CPU_WAIT),
    ("Early kills", EARLY_KILLS),
];
const MORE_COLUMNS: [(&str, &str); 6] = [
    ("Achieved", ACHIEVED),
    ("p99 of reads", READ_P99),
    ("p99 of writes", WRITE_P99),
    ("Swap-ins", SWAP_IN),
    ("File refaults", FILE_REFAULTS),
    ("File in RAM", FILE_IN_RAM),
];

pub(super) fn table(page: &Page, groups: &[(&Group, Vec<&Trial>)]) -> Table<'static> {
    let of_groups = groups.iter().flat_map(|(group, _)| &group.trials);
    let ids: HashSet<&str> = of_groups.map(AsRef::as_ref).collect();
    let trials = page.results.trials.iter();
    let trials = trials.filter(|trial| ids.contains(trial.id.as_str()));
    let mut points: Vec<(&Trial, &Phase)> = trials
        .flat_map(|trial| {
            let phases = trial.phases.iter();
            phases.map(move |phase| (trial, phase))
        })
        .filter(|(_, phase)| phase.values.contains_key(LOAD))
        .collect();
    // The ladder jumps: its next load depends on the last one. Readers compare trials at one load.
    let load = |phase: &Phase| phase.values.get(LOAD).copied().unwrap_or(0.0);
    points.sort_by(|a, b| load(a.1).total_cmp(&load(b.1)));
    let fixed = groups.iter().any(|(_, trials)| is_fixed(trials));
    let limit = [("Limit", LIMIT)].into_iter().filter(|_| fixed);
    let has = |name: &str| points.iter().any(|(_, phase)| phase.values.contains_key(name));
    let more = MORE_COLUMNS.into_iter().filter(|(_, name)| has(name));
    let shown: Vec<(&str, &str)> = limit.chain(COLUMNS).chain(more).collect();
    let row = |trial: &Trial, phase: &Phase| {
        let value = |name: &str| phase.values.get(name).copied();
        let number = |value: Option<f64>| match value {
            Some(value) => Cell::number(value, significant(value)),
            None => Cell::missing(),
        };
        let mut row = vec![
            Cell::text(&trial.id),
            number(value(LOAD)),
            number(value(RAM_LOAD)),
        ];
        row.extend(shown.iter().map(|(_, name)| Cell::metric(name, value(name))));
        row.push(Cell::text(match (value(OVER_BUDGET), value(KILLED)) {
            (Some(_), _) => "over budget",
            (None, Some(killed)) if killed > 0.0 => "killed",
            _ => "",
        }));
        row
    };
    let rows = points.iter().map(|(trial, phase)| row(trial, phase));
    let mut titles = vec![("Trial", false), ("Load", true), ("Load by RAM", true)];
    titles.extend(shown.iter().map(|(title, _)| (*title, true)));
    titles.push(("End", false));
    Table {
        id: "points",
        title: "Every point",
        rows: rows.collect(),
        columns: columns(&titles),
    }
}
