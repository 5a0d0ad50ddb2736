//! The section of a program's runs: slowdown, faults and pressure over the limit.

use std::collections::HashSet;

use crate::analysis::lines::{Spread, across};
use crate::analysis::{Group, MetricUnit};
use crate::contents::Page;
use crate::drawing::table::{Cell, Table, columns};
use crate::drawing::values;
use crate::drawing::xy::{Axis, Chart, Line};
use crate::workloads::command::{KNEE, phase_of, points};
use crate::workloads::section::{Drawing, Section};
use plimsoll_model::quantity;
use plimsoll_model::recording::model::{Phase, Trial};
use plimsoll_model::recording::size::{EngineSize, ProgramSize};
use plimsoll_model::scenario::workloads::command::finding::{
    ANON_PEAK, CPU_SYSTEM, CPU_USER, EARLY_KILLS, EXIT_CODE, FILE_PEAK, LEFT, LIMIT, LIMIT_HITS,
    MAJOR_FAULTS, METRIC, PEAK, PSI_FULL, PSI_SOME, REFAULT_ANON, REFAULT_FILE, SLOWDOWN, STATUS, SWAP_PEAK,
    WALL,
};
use plimsoll_model::scenario::workloads::command::{Point, Status, curve};

/// Findings drawn over the limit besides the slowdown: name, title, meaning.
const DRAWN: [(&str, &str, &str); 2] = [
    (
        MAJOR_FAULTS,
        "Major faults over limit",
        "Page faults of one run that read from swap or a file",
    ),
    (
        PSI_SOME,
        "Pressure over limit",
        "Share of time in which a task waits for memory (PSI some): of the cgroup with cgroup v2, otherwise of the whole machine",
    ),
];

type GroupTrials<'a> = (&'a Group, Vec<&'a Trial>);

pub(crate) fn section(page: &Page, groups: &[&Group]) -> Option<Section> {
    let groups: Vec<GroupTrials<'_>> = groups
        .iter()
        .map(|group| (*group, group.counted(&page.results.trials)))
        .collect();
    let mut drawings: Vec<Drawing> = slowdown(&groups, page.results.size.as_ref())
        .into_iter()
        .collect();
    for (metric, title, meaning) in DRAWN {
        drawings.extend(over_limit(&groups, metric, title, meaning));
    }
    Some(Section {
        id: "command",
        title: "Memory that the program needs",
        drawings,
        tables: vec![table(page, &groups)],
        holds_size: true,
        ..Section::default()
    })
}

/// A value of the points of a trial over their limit, ascending; of a limit that was measured twice the better run.
fn line_of(trial: &Trial, value: impl Fn(&Point) -> Option<f64>) -> Vec<(f64, f64)> {
    let mut curve = curve(&points(trial));
    curve.reverse();
    let place = |point: &Point| Some((point.limit as f64, value(point)?));
    curve.iter().filter_map(place).collect()
}

/// Whether the points of a trial differ in their limit.
fn is_curve(groups: &[GroupTrials<'_>]) -> bool {
    let mut trials = groups.iter().flat_map(|(_, trials)| trials);
    trials.any(|trial| curve(&points(trial)).len() > 1)
}

fn line(label: &str, ink: usize, spread: &[Spread]) -> Line {
    Line {
        label: label.to_owned(),
        ink,
        points: spread.iter().map(|at| (at.x, Some(at.median))).collect(),
        dots: true,
        band: spread.iter().map(|at| (at.x, at.min, at.max)).collect(),
        behind: Vec::new(),
    }
}

fn limit_axis() -> Axis {
    Axis::logarithmic("limit of the cgroup", MetricUnit::Bytes)
}

/// The time over that of the base.
fn slowdown(groups: &[GroupTrials<'_>], size: Option<&ProgramSize>) -> Option<Drawing> {
    let times = |point: &Point| {
        let known = point.status == Status::Done && point.slowdown.is_finite();
        known.then_some(1.0 + point.slowdown)
    };
    let of_group = |(ink, (group, trials)): (usize, &GroupTrials<'_>)| {
        let lines: Vec<Vec<(f64, f64)>> = trials.iter().map(|trial| line_of(trial, times)).collect();
        line(&group.label, ink, &across(&lines))
    };
    let mark = |(group, _): &GroupTrials<'_>| {
        let knee = group.median(KNEE)?;
        Some((knee, format!("{} knee {}", group.label, quantity::bytes(knee))))
    };
    let needs = size.map(needs).unwrap_or_default();
    let marks = groups.iter().filter_map(mark).chain(needs);
    let levels = size
        .into_iter()
        .map(|size| (1.0 + size.tolerance, "tolerated".to_owned()));
    if !is_curve(groups) {
        return None;
    }
    let chart = Chart {
        title: "Slowdown over limit".to_owned(),
        x: limit_axis(),
        y: Axis::logarithmic("time of a run over that at the base", MetricUnit::Ratio),
        lines: groups.iter().enumerate().map(of_group).collect(),
        marks: marks.collect(),
        levels: levels.collect(),
    };
    Some(Drawing {
        id: SLOWDOWN,
        caption: "Slowdown over limit".to_owned(),
        hint: "Time of a run, or the program's own metric, over that under the largest limit. Marks are the knees and the RAM that the program needs. A line ends \
               at the least limit under which the program succeeded. Bands show the spread of the repeats."
            .to_owned(),
        svg: values::draw(&chart)?,
    })
}

/// The RAM that the program needs on each engine, as places on the axis of the limit.
fn needs(size: &ProgramSize) -> Vec<(f64, String)> {
    let mark = |engine: &EngineSize| {
        let needed = engine.recommended_bytes? as f64;
        Some((
            needed,
            format!("{} needs {}", engine.engine, quantity::bytes(needed)),
        ))
    };
    size.engines.iter().filter_map(mark).collect()
}

fn over_limit(
    groups: &[GroupTrials<'_>],
    metric: &'static str,
    title: &str,
    meaning: &str,
) -> Option<Drawing> {
    if !is_curve(groups) {
        return None;
    }
    let of_group = |(ink, (group, trials)): (usize, &GroupTrials<'_>)| {
        let of_trial =
            |trial: &&Trial| line_of(trial, |point| phase_of(trial, point)?.values.get(metric).copied());
        let lines: Vec<Vec<(f64, f64)>> = trials.iter().map(of_trial).collect();
        line(&group.label, ink, &across(&lines))
    };
    let chart = Chart {
        title: title.to_owned(),
        x: limit_axis(),
        y: Axis::linear(title.trim_end_matches(" over limit"), MetricUnit::of_name(metric)),
        lines: groups.iter().enumerate().map(of_group).collect(),
        marks: Vec::new(),
        levels: Vec::new(),
    };
    Some(Drawing {
        id: metric,
        caption: title.to_owned(),
        hint: format!("{meaning}. Bands show the spread of the repeats."),
        svg: values::draw(&chart)?,
    })
}

/// Columns of every table of points.
const COLUMNS: [(&str, &str); 15] = [
    ("Time", WALL),
    ("User CPU", CPU_USER),
    ("Kernel CPU", CPU_SYSTEM),
    ("Limit hits", LIMIT_HITS),
    ("Hard faults", MAJOR_FAULTS),
    ("Refaults, anonymous", REFAULT_ANON),
    ("Refaults, file", REFAULT_FILE),
    ("PSI some", PSI_SOME),
    ("PSI full", PSI_FULL),
    ("Peak", PEAK),
    ("Anonymous", ANON_PEAK),
    ("Page cache", FILE_PEAK),
    ("Swapped", SWAP_PEAK),
    ("Exit code", EXIT_CODE),
    ("Left", LEFT),
];
/// Columns of the points that have a value for them.
const MORE_COLUMNS: [(&str, &str); 2] = [("Metric", METRIC), ("Early kills", EARLY_KILLS)];

/// A row for each point of each trial, the largest limit first.
fn table(page: &Page, groups: &[GroupTrials<'_>]) -> Table<'static> {
    let of_groups = groups.iter().flat_map(|(group, _)| &group.trials);
    let ids: HashSet<&str> = of_groups.map(AsRef::as_ref).collect();
    let trials = page.results.trials.iter();
    let mut all: Vec<(&Trial, &Phase)> = trials
        .filter(|trial| ids.contains(trial.id.as_str()))
        .flat_map(|trial| trial.phases.iter().map(move |phase| (trial, phase)))
        .filter(|(_, phase)| phase.values.contains_key(LIMIT))
        .collect();
    // A search jumps: its next limit depends on the last one. Readers compare trials under one limit.
    let limit = |phase: &Phase| phase.values.get(LIMIT).copied().unwrap_or(0.0);
    all.sort_by(|a, b| limit(b.1).total_cmp(&limit(a.1)));
    let has = |name: &str| all.iter().any(|(_, phase)| phase.values.contains_key(name));
    let more = MORE_COLUMNS.into_iter().filter(|(_, name)| has(name));
    let shown: Vec<(&str, &str)> = COLUMNS.into_iter().chain(more).collect();
    let row = |trial: &Trial, phase: &Phase| {
        let value = |name: &str| phase.values.get(name).copied();
        let slowdown = match value(SLOWDOWN) {
            Some(slowdown) => Cell::number(slowdown, format!("{:.1}%", 100.0 * slowdown)),
            None => Cell::missing(),
        };
        let status = value(STATUS).and_then(Status::of_number);
        let mut row = vec![
            Cell::text(&trial.id),
            Cell::metric(LIMIT, value(LIMIT)),
            slowdown,
            Cell::text(status.map_or("", Status::name)),
        ];
        row.extend(shown.iter().map(|(_, name)| Cell::metric(name, value(name))));
        row
    };
    let mut titles = vec![
        ("Trial", false),
        ("Limit", true),
        ("Slowdown", true),
        ("End", false),
    ];
    titles.extend(shown.iter().map(|(title, _)| (*title, true)));
    Table {
        id: "limits",
        title: "Every run of the program",
        rows: all.iter().map(|(trial, phase)| row(trial, phase)).collect(),
        columns: columns(&titles),
    }
}
