//! The heap section: CPU time and memory of each allocator, over threads if swept.

use crate::analysis::{Group, MetricUnit};
use crate::contents::Page;
use crate::drawing::bars::{self, Bar, Bars};
use crate::drawing::palette;
use crate::drawing::table::{Cell, Table, columns};
use crate::drawing::values;
use crate::drawing::xy::{Axis, Chart, Line};
use crate::workloads::heap::heap_subjects;
use crate::workloads::heap::{
    AGGRESSIVE, IDLE_THREAD, LAST_LIVE_SHARE, LEFT, LIVE, LIVE_SHARE, OPERATION_CPU, OPERATIONS, PEAK,
    REALLOC_CPU, RESIDENT, Test, tests,
};
use crate::workloads::section::{Drawing, Section};

/// Drawn metrics: name, title, reading hint, logarithmic axis.
const DRAWN: [(&str, &str, &str, bool); 7] = [
    (
        OPERATION_CPU,
        "CPU time of an allocation and a free",
        "Less is better. CPU time of the whole process, including the allocator's threads and the load.",
        true,
    ),
    (
        OPERATIONS,
        "Operations per second",
        "More is better. An operation is an allocation and a free. The ideal is the single-threaded \
         rate of the fastest allocator times the number of threads, at most the number of CPUs.",
        true,
    ),
    (
        LIVE_SHARE,
        "Memory efficiency: live bytes over bytes taken",
        "More is better: at 100% all RAM holds live bytes. For the fragmentation load, the minimum.",
        false,
    ),
    (
        AGGRESSIVE,
        "Time of all allocations and frees",
        "Less is better. Each thread allocates as much as a single one.",
        true,
    ),
    (
        LEFT,
        "Resident memory left after all frees",
        "Less is better. Growth of resident memory from before the load to after the rest.",
        false,
    ),
    (
        REALLOC_CPU,
        "CPU time of a realloc",
        "Less is better. Blocks grow from 64 bytes to 4 MiB, by half of their size at a time.",
        true,
    ),
    (
        IDLE_THREAD,
        "Resident memory of an idle thread",
        "Less is better. Includes its stack.",
        false,
    ),
];

pub(crate) fn section(page: &Page, groups: &[&Group]) -> Option<Section> {
    let tests = tests(groups);
    let subjects = heap_subjects(groups);
    let mut drawings = Vec::new();
    for drawn in DRAWN {
        drawings.extend(bars_of(&alone(&tests), &subjects, drawn));
        for panel in swept(&tests) {
            drawings.extend(curves(panel, &subjects, drawn, page.manifest.host.cpus));
        }
    }
    Some(Section {
        id: "heap",
        title: "Allocators under load",
        drawings,
        tables: vec![table(&tests)],
        ..Section::default()
    })
}

fn panels<'t, 'g>(tests: &'t [Test<'g>]) -> Vec<&'t [Test<'g>]> {
    tests.chunk_by(|a, b| a.panel == b.panel).collect()
}

/// Tests whose panel has one number of threads.
fn alone<'t, 'g>(tests: &'t [Test<'g>]) -> Vec<&'t Test<'g>> {
    let panels = panels(tests).into_iter().filter(|panel| panel.len() == 1);
    panels.flatten().collect()
}

fn swept<'t, 'g>(tests: &'t [Test<'g>]) -> Vec<&'t [Test<'g>]> {
    panels(tests)
        .into_iter()
        .filter(|panel| panel.len() > 1)
        .collect()
}

fn bars_of(
    tests: &[&Test<'_>],
    subjects: &[&str],
    (metric, title, hint, _): (&'static str, &str, &str, bool),
) -> Option<Drawing> {
    let bar = |test: &Test<'_>, (ink, subject): (usize, &&str)| {
        let group = test.groups.iter().find(|group| group.subject == **subject)?;
        let (colour, _) = palette::line(ink);
        Some(Bar::of((*subject).to_owned(), colour, group.metrics.get(metric)?))
    };
    let rows: Vec<Bars> = tests
        .iter()
        .map(|test| Bars {
            name: test.name(),
            bars: subjects
                .iter()
                .enumerate()
                .filter_map(|subject| bar(test, subject))
                .collect(),
        })
        .collect();
    Some(Drawing {
        id: metric,
        svg: bars::chart(title, MetricUnit::of_name(metric), &rows)?,
        caption: title.to_owned(),
        hint: hint.to_owned(),
    })
}

fn curves(
    panel: &[Test<'_>],
    subjects: &[&str],
    (metric, title, hint, log): (&'static str, &str, &str, bool),
    cpus: u32,
) -> Option<Drawing> {
    let line = |(ink, subject): (usize, &&str)| {
        let measured = |test: &Test<'_>| {
            let group = test.groups.iter().find(|group| group.subject == **subject)?;
            Some((f64::from(test.threads), group.metrics.get(metric)?.summary))
        };
        let measured: Vec<_> = panel.iter().filter_map(measured).collect();
        Line {
            label: (*subject).to_owned(),
            ink,
            points: measured
                .iter()
                .map(|(x, summary)| (*x, Some(summary.median)))
                .collect(),
            dots: true,
            band: measured
                .iter()
                .map(|(x, summary)| (*x, summary.min, summary.max))
                .collect(),
            behind: Vec::new(),
        }
    };
    let mut lines: Vec<Line> = subjects.iter().enumerate().map(line).collect();
    if metric == OPERATIONS {
        lines.extend(ideal(panel, subjects.len(), cpus));
    }
    lines.retain(|line| !line.points.is_empty());
    let caption = match panel.first().map_or("", |test| test.panel.as_str()) {
        "" => title.to_owned(),
        panel => format!("{title}: {panel}"),
    };
    let chart = Chart {
        title: caption.clone(),
        x: Axis::logarithmic("threads", MetricUnit::Count),
        y: Axis {
            log,
            ..Axis::linear(title, MetricUnit::of_name(metric))
        },
        lines,
        marks: Vec::new(),
        levels: Vec::new(),
    };
    Some(Drawing {
        id: metric,
        svg: values::draw(&chart)?,
        hint: format!("{hint} Bands show the spread of the repeats."),
        caption,
    })
}

/// The single-threaded rate of the fastest allocator times the threads, up to the number of CPUs.
fn ideal(panel: &[Test<'_>], ink: usize, cpus: u32) -> Option<Line> {
    let one = panel.iter().find(|test| test.threads == 1)?;
    let rates = one
        .groups
        .iter()
        .filter_map(|group| group.metrics.get(OPERATIONS));
    let fastest = rates.map(|measured| measured.summary.median).reduce(f64::max)?;
    let point = |test: &Test<'_>| {
        let running = test.threads.min(cpus.max(1));
        (f64::from(test.threads), Some(fastest * f64::from(running)))
    };
    Some(Line {
        label: "Ideal".to_owned(),
        ink,
        points: panel.iter().map(point).collect(),
        ..Line::default()
    })
}

fn table(tests: &[Test<'_>]) -> Table<'static> {
    const COLUMNS: [(&str, &str); 11] = [
        ("CPU an operation", OPERATION_CPU),
        ("Operations", OPERATIONS),
        ("Live", LIVE),
        ("Taken", RESIDENT),
        ("At most", PEAK),
        ("Live of RSS", LIVE_SHARE),
        ("At the end", LAST_LIVE_SHARE),
        ("Aggressive load", AGGRESSIVE),
        ("Realloc", REALLOC_CPU),
        ("Idle thread", IDLE_THREAD),
        ("Left", LEFT),
    ];
    let row = |test: &Test<'_>, group: &Group| {
        let library = group.params.get("library").map_or("", String::as_str);
        let mut cells = vec![
            Cell::text(test.name()),
            Cell::text(&group.subject),
            Cell::text(library),
        ];
        let median = |name: &str| group.metrics.get(name).map(|measured| measured.summary.median);
        cells.extend(COLUMNS.iter().map(|(_, name)| Cell::metric(name, median(name))));
        cells
    };
    let rows = tests
        .iter()
        .flat_map(|test| test.groups.iter().map(|group| row(test, group)));
    let mut titles = vec![("Test", false), ("Allocator", false), ("Library", false)];
    titles.extend(COLUMNS.map(|(title, _)| (title, true)));
    Table {
        id: "allocators",
        title: "Allocators",
        rows: rows.collect(),
        columns: columns(&titles),
    }
}
