//! The loadline section: useful work over load, and its cost.

use crate::analysis::{Group, MetricUnit};
use crate::contents::Page;
use crate::drawing::values;
use crate::drawing::xy::{Axis, Chart, Line};
use crate::workloads::loadline::conditions::{share_of, target};
use crate::workloads::loadline::points::{self, is_fixed};
use crate::workloads::loadline::{KNEE, NEEDED, Spread, curve, curve_over, measured};
use crate::workloads::section::{Drawing, Section};
use plimsoll_model::latency::Latencies;
use plimsoll_model::quantity::{self, significant};
use plimsoll_model::recording::model::{Phase, Trial};
use plimsoll_model::scenario::workloads::loadline::finding::{
    CPU_SYSTEM, FILE_IN_RAM, FILE_REFAULTS, HARD_FAULTS, LIMIT, LOAD, P99, PSI_SOME, READ_P99, SWAP_IN,
    SWAP_OUT, SWAPPED, VISITS, WRITE_P99,
};

/// Loads with a drawn latency distribution: every trial measures them first.
const SHOWN_LOADS: [f64; 5] = [0.5, 1.0, 1.5, 2.0, 3.0];
/// Percentiles are drawn at one visit in this many, in steps of a third of a decade.
const RAREST: [f64; 14] = [
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 1e5,
];
/// Values drawn over the load besides useful work: name, title, meaning, logarithmic axis.
const DRAWN: [(&str, &str, &str, bool); 7] = [
    (
        "p50_s",
        "Median latency over load",
        "Median of all due visits, including those that queue behind a slow one",
        true,
    ),
    (
        P99,
        "p99 latency over load",
        "99th percentile of all due visits, including those that queue behind a slow one",
        true,
    ),
    (
        "p999_s",
        "p99.9 latency over load",
        "99.9th percentile of all due visits, including those that queue behind a slow one",
        true,
    ),
    ("max_s", "Maximum latency over load", "The slowest visit", true),
    (
        HARD_FAULTS,
        "Major faults over load",
        "Faults that decompress a page or read it from a device",
        false,
    ),
    (
        CPU_SYSTEM,
        "CPU time in the kernel over load",
        "Percent of one CPU: page faults and direct reclaim of the worker",
        false,
    ),
    (
        PSI_SOME,
        "Pressure over load",
        "Share of time in which a task waits for memory (PSI some): of the cgroup with cgroup v2, otherwise of the whole machine",
        false,
    ),
];

/// The same where some visits only read.
const DRAWN_OF_READS: [(&str, &str, &str, bool); 3] = [
    (
        READ_P99,
        "p99 latency of reads over load",
        "99th percentile of the visits that only read their page",
        true,
    ),
    (
        WRITE_P99,
        "p99 latency of writes over load",
        "99th percentile of the visits that write to their page",
        true,
    ),
    (
        SWAP_OUT,
        "Pages written to swap over load",
        "Pages that the machine writes to swap devices: a page that was only read since it came back may still have its copy there",
        false,
    ),
];
/// The same where some pages are those of a file.
const DRAWN_OF_FILES: [(&str, &str, &str, bool); 4] = [
    (
        SWAP_IN,
        "Pages read from swap over load",
        "Pages that the machine reads from swap devices, read-ahead included",
        false,
    ),
    (
        FILE_REFAULTS,
        "File pages read again over load",
        "Pages of the file that the kernel reclaimed and read again, read-ahead included",
        false,
    ),
    (
        SWAPPED,
        "Swap over load",
        "Anonymous memory of the worker that is in swap after the stretch",
        false,
    ),
    (
        FILE_IN_RAM,
        "File pages in RAM over load",
        "Pages of the file that are in RAM after the stretch, mapped or in the page cache alone",
        false,
    ),
];
/// Loads of a scenario's own list with a drawn latency distribution, at most.
const MOST_SHOWN: usize = 5;

pub(crate) fn section(page: &Page, groups: &[&Group]) -> Option<Section> {
    let groups: Vec<(&Group, Vec<&Trial>)> = groups
        .iter()
        .map(|group| (*group, group.counted(&page.results.trials)))
        .collect();
    let mut drawings: Vec<Drawing> = useful_work(&groups).into_iter().collect();
    drawings.extend(over_limit(&groups));
    let has_reads = groups
        .iter()
        .any(|(group, _)| group.params.contains_key("write-percent"));
    let of_reads = DRAWN_OF_READS.into_iter().filter(|_| has_reads);
    let has_file = groups
        .iter()
        .any(|(group, _)| group.params.contains_key("file-percent"));
    let of_files = DRAWN_OF_FILES.into_iter().filter(|_| has_file);
    for (metric, title, meaning, log) in DRAWN.into_iter().chain(of_reads).chain(of_files) {
        drawings.extend(over_load(&groups, metric, title, meaning, log));
    }
    drawings.extend(
        groups
            .iter()
            .filter_map(|(group, trials)| percentiles(group, trials)),
    );
    Some(Section {
        id: "loadline",
        title: "Load line",
        drawings,
        tables: vec![points::table(page, &groups)],
        ..Section::default()
    })
}

/// One line of a value over the load.
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

fn lines(groups: &[(&Group, Vec<&Trial>)], metric: &str) -> Vec<Line> {
    let of_group = |(ink, (group, trials)): (usize, &(&Group, Vec<&Trial>))| {
        line(&group.label, ink, &curve(trials, metric))
    };
    groups.iter().enumerate().map(of_group).collect()
}

/// The line with its values in percent.
fn in_percent(line: Line) -> Line {
    let percent = |value: f64| 100.0 * value;
    let points = |points: Vec<(f64, Option<f64>)>| -> Vec<(f64, Option<f64>)> {
        points.into_iter().map(|(x, y)| (x, y.map(percent))).collect()
    };
    Line {
        points: points(line.points),
        behind: line.behind.into_iter().map(points).collect(),
        band: line
            .band
            .into_iter()
            .map(|(x, low, high)| (x, percent(low), percent(high)))
            .collect(),
        ..line
    }
}

fn load_axis() -> Axis {
    Axis::linear("load, size over limit", MetricUnit::Ratio)
}

/// The vertical axis of useful work, and the level at which a load is no longer carried.
fn work_axis(groups: &[(&Group, Vec<&Trial>)]) -> (Axis, Vec<(f64, String)>) {
    let mut shares: Vec<(f64, String)> = Vec::new();
    let mut of_rate = false;
    for (group, _) in groups {
        let share = share_of(group);
        of_rate |= share.of_rate;
        let level = (100.0 * share.share, share.words());
        if !shares.contains(&level) {
            shares.push(level);
        }
    }
    let base = if of_rate {
        "the rate"
    } else {
        "that at the lowest load"
    };
    let axis = Axis::linear(format!("useful work, percent of {base}"), MetricUnit::Percent);
    (axis, shares)
}

fn useful_work(groups: &[(&Group, Vec<&Trial>)]) -> Option<Drawing> {
    let mark = |(group, _): &(&Group, Vec<&Trial>)| {
        let knee = group.metrics.get(KNEE)?.summary.median;
        Some((knee, format!("{} {}\u{d7}", group.label, significant(knee))))
    };
    let (y, levels) = work_axis(groups);
    let chart = Chart {
        title: "Useful work over load".to_owned(),
        x: load_axis(),
        y,
        lines: lines(groups, VISITS).into_iter().map(in_percent).collect(),
        marks: groups.iter().filter_map(mark).collect(),
        levels,
    };
    Some(Drawing {
        id: "work-over-load",
        caption: "Useful work over load".to_owned(),
        hint: "Visits of pages a second, without the time that the worker waited for a CPU that others used, as a share of \
               those at the lowest load, or of the rate at which visits are due. Where a line falls under the level is its \
               load line. A line that ends at 0 ends with a kill. Bands show the spread of the repeats."
            .to_owned(),
        svg: values::draw(&chart)?,
    })
}

/// Useful work over the limit, of the groups whose working set is the same at every load.
fn over_limit(groups: &[(&Group, Vec<&Trial>)]) -> Option<Drawing> {
    let lines: Vec<Line> = groups
        .iter()
        .enumerate()
        .filter(|(_, (_, trials))| is_fixed(trials))
        .map(|(ink, (group, trials))| {
            let spread = curve_over(trials, LIMIT, VISITS);
            in_percent(line(&group.label, ink, &spread))
        })
        .collect();
    let mark = |(group, _): &(&Group, Vec<&Trial>)| {
        let needed = group.metrics.get(NEEDED)?.summary.median;
        Some((needed, format!("{} {}", group.label, quantity::bytes(needed))))
    };
    let (y, levels) = work_axis(groups);
    let chart = Chart {
        title: "Useful work over limit".to_owned(),
        x: Axis::linear("limit of the cgroup", MetricUnit::Bytes),
        y,
        lines,
        marks: groups.iter().filter_map(mark).collect(),
        levels,
    };
    Some(Drawing {
        id: "work-over-limit",
        caption: "Useful work over limit".to_owned(),
        hint: "The same over the limit of the worker's cgroup: its working set is the same under every limit. Where a line \
               falls under the level, the program needs at least that limit."
            .to_owned(),
        svg: values::draw(&chart)?,
    })
}

fn over_load(
    groups: &[(&Group, Vec<&Trial>)],
    metric: &'static str,
    title: &str,
    meaning: &str,
    log: bool,
) -> Option<Drawing> {
    let chart = Chart {
        title: title.to_owned(),
        x: load_axis(),
        y: Axis {
            log,
            ..Axis::linear(title.trim_end_matches(" over load"), MetricUnit::of_name(metric))
        },
        lines: lines(groups, metric),
        marks: Vec::new(),
        levels: match metric {
            P99 => targets(groups),
            _ => Vec::new(),
        },
    };
    Some(Drawing {
        id: metric,
        caption: title.to_owned(),
        hint: format!("{meaning}. Bands show the spread of the repeats."),
        svg: values::draw(&chart)?,
    })
}

/// The targets of p99, each once.
fn targets(groups: &[(&Group, Vec<&Trial>)]) -> Vec<(f64, String)> {
    let mut targets: Vec<f64> = groups.iter().filter_map(|(group, _)| target(group)).collect();
    targets.sort_by(f64::total_cmp);
    targets.dedup();
    let level = |target: f64| (target, format!("target {}", quantity::seconds(target)));
    targets.into_iter().map(level).collect()
}

/// The loads whose latencies are drawn, with their names: of a scenario's own list some over its whole length.
fn shown_loads(group: &Group, trials: &[&Trial]) -> Vec<(f64, String)> {
    if !["loads", "limits"]
        .iter()
        .any(|name| group.params.contains_key(*name))
    {
        return SHOWN_LOADS.map(|load| (load, format!("load {load}"))).into();
    }
    let mut loads: Vec<(f64, String)> = Vec::new();
    for phase in trials.iter().flat_map(|trial| measured(trial)) {
        if let Some(&load) = phase.values.get(LOAD)
            && !loads.iter().any(|(known, _)| *known == load)
        {
            loads.push((load, phase.name.clone()));
        }
    }
    loads.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (count, shown) = (loads.len(), loads.len().min(MOST_SHOWN));
    let places = (0..shown).map(|place| place * (count - 1) / (shown - 1).max(1));
    places.map(|place| loads[place].clone()).collect()
}

/// Latency over how rare it is, at some loads, over all repeats of a group.
fn percentiles(group: &Group, trials: &[&Trial]) -> Option<Drawing> {
    let line = |(ink, (load, label)): (usize, (f64, String))| {
        let mut all = Latencies::new();
        let of_load = |phase: &&Phase| phase.values.get(LOAD) == Some(&load);
        for text in trials
            .iter()
            .filter_map(|trial| measured(trial).into_iter().find(of_load))
            .filter_map(|phase| phase.latency.as_deref())
        {
            // A histogram that cannot be read is one fewer.
            if let Ok(one) = Latencies::from_text(text) {
                all.merge(&one);
            }
        }
        let point = |one_in: f64| {
            let ns = all.percentile(100.0 * (1.0 - 1.0 / one_in))?;
            // Of fewer visits than that, the rarest is not known.
            (all.count() as f64 >= one_in).then_some((one_in, Some(ns as f64 / 1e9)))
        };
        Line {
            label,
            ink,
            points: RAREST.into_iter().filter_map(point).collect(),
            ..Line::default()
        }
    };
    let chart = Chart {
        title: format!("Latencies of {}", group.label),
        x: Axis::logarithmic("one visit in N takes longer", MetricUnit::Count),
        y: Axis::logarithmic("latency of a visit", MetricUnit::Seconds),
        lines: shown_loads(group, trials)
            .into_iter()
            .enumerate()
            .map(line)
            .collect(),
        marks: Vec::new(),
        levels: Vec::new(),
    };
    Some(Drawing {
        id: "latencies",
        caption: format!("Latency distribution of {}", group.label),
        hint:
            "100 on the horizontal axis is p99, 1000 is p99.9: of all due visits, including those that queue \
               behind a slow one."
                .to_owned(),
        svg: values::draw(&chart)?,
    })
}
