//! The HTML report: one self-contained file that works without network and without scripts.
//!
//! Static drawings (SVG) are the base. With scripts, `page.js` replaces the timelines by interactive panels, and
//! `sortable.js` makes tables sortable.
//!
//! Invariant: text from outside reaches the report only through askama's escaping, `svg::escape` or `data::json`; a
//! content policy allows no script but the report's own. Checked by `hostile_texts_stay_texts`.

mod code;
mod cost;
pub(super) mod data;
pub mod document;
pub mod parts;
mod sections;
mod size;
mod standalone;
pub(super) mod table;
pub(super) mod timeline;

use std::collections::BTreeMap;
use std::io;

use askama::Template;

use crate::advice::{self, Shown};
use crate::analysis::Group;
use crate::contents::{Index, Mark, Page};
pub use crate::drawing::{palette, panel};
use crate::headlines;
use crate::size::{Block, blocks};
use crate::workloads::section::Section;
use crate::workloads::{self, TimedPhases};
use cost::Cost;
pub use data::script_safe;
use parts::Shell;
use plimsoll_model::quantity;
use plimsoll_model::recording::model::{Calibration, Confounder, RunStatus};
pub use standalone::{NoChart, svg as chart};
use table::{States, Tab};

const SCRIPT: &str = include_str!("../../assets/report/page.js");

#[derive(Template)]
#[template(path = "report.html")]
struct View<'a> {
    page: &'a Page,
    shell: Shell,
    license: &'static str,
    data: data::Document<'a>,
    status: (&'static str, &'static str),
    facts: Vec<(&'static str, String)>,
    calibration: Vec<(&'static str, String)>,
    confounders: Vec<&'a Confounder>,
    legend: &'static [palette::Paint],
    /// Meaning of the numbers at the events.
    numbers: Vec<(String, String)>,
    /// The whole run without script: its title, and the drawing.
    overview: (&'static str, String),
    event_tables: Vec<EventTable>,
    sections: Vec<Section>,
    recommendations: Vec<Shown<'a>>,
    /// The settings of `size`, in its section.
    settings_of_size: Vec<Block>,
    /// The section on time and memory, if it has one.
    cost: Option<Cost>,
    tables: Vec<Tab<'a>>,
    /// Whether it is a recording of `watch`, which has no trials.
    watched: bool,
    settings: &'a BTreeMap<String, String>,
}

/// Memory at the events of a group's trial.
struct EventTable {
    trial: String,
    group: String,
    states: States,
}

pub fn render(page: &Page) -> String {
    parts::rendered(&view(page))
}

/// Writes the report. Rows of tables and data of charts are made while they are written, so that a report of many trials
/// takes no memory for its own text.
///
/// # Errors
/// Those of `output`.
pub fn write(page: &Page, output: &mut impl io::Write) -> io::Result<()> {
    view(page).write_into(output)
}

fn view(page: &Page) -> View<'_> {
    let script = parts::script(&format!("{}\n{SCRIPT}", parts::SORTABLE));
    let mut confounders: Vec<&Confounder> = page.results.confounders.iter().collect();
    confounders.sort_by_key(|confounder| confounder.spoils.is_empty());
    let index = page.index();
    View {
        page,
        shell: Shell::new(parts::style(""), script),
        license: parts::LICENSE.trim(),
        data: data::Document::new(page, &index),
        status: status(page.results.status),
        facts: facts(page),
        calibration: page
            .results
            .calibration
            .as_ref()
            .map(calibration)
            .unwrap_or_default(),
        confounders,
        legend: palette::LAYERS,
        numbers: numbers(page),
        overview: overview(page),
        event_tables: event_tables(page, &index),
        sections: sections::all(page),
        recommendations: advice::shown(&page.results),
        settings_of_size: page.results.size.as_ref().map(blocks).unwrap_or_default(),
        cost: cost::section(page),
        tables: table::all(page),
        watched: page.manifest.is_watch(),
        settings: &page.manifest.host.settings,
    }
}

/// The CSS class of a status, which is the name of its colour, and its text.
fn status(status: RunStatus) -> (&'static str, &'static str) {
    match status {
        RunStatus::Ok => ("good", "\u{2713} ok"),
        RunStatus::Failed => ("bad", "\u{2717} failed"),
        RunStatus::Untrustworthy => ("doubt", "! untrustworthy"),
        RunStatus::Interrupted => ("doubt", "! interrupted"),
        RunStatus::Incomplete => ("doubt", "! incomplete"),
    }
}

fn facts(page: &Page) -> Vec<(&'static str, String)> {
    let host = &page.manifest.host;
    let sampler = &page.results.sampler;
    let swap = if host.swap_before.is_empty() {
        "none".to_owned()
    } else {
        let device = |(name, size): &(String, u64)| format!("{name} {}", quantity::bytes(*size as f64));
        host.swap_before.iter().map(device).collect::<Vec<_>>().join(", ")
    };
    let mut rows = vec![
        ("Host", host.hostname.clone()),
        ("Kernel", host.kernel.clone()),
        ("CPU", format!("{} \u{d7} {}", host.cpus, host.cpu)),
        ("RAM", quantity::bytes(host.mem_total as f64)),
        ("Swap before", swap),
        ("Memory cgroup", host.cgroup.clone()),
        ("Virtualization", host.virtualization.clone()),
        ("Started", page.manifest.started.clone()),
        (
            "Sampler",
            format!(
                "{} Hz, {} samples, {} late, {} missed, {}% of a core",
                sampler.hz,
                quantity::count(sampler.samples),
                sampler.late,
                sampler.missed,
                quantity::significant(sampler.cpu_percent)
            ),
        ),
        ("Command", page.manifest.command.join(" ")),
        ("Seed", page.manifest.plan.seed.to_string()),
        ("Version", format!("plimsoll {}", page.manifest.tool_version)),
    ];
    let backgrounds = page.manifest.plan.backgrounds();
    if !backgrounds.is_empty() {
        rows.push(("Background", backgrounds));
    }
    rows
}

fn calibration(values: &Calibration) -> Vec<(&'static str, String)> {
    let speed = |value: f64| format!("{} GB/s", quantity::significant(value));
    let time = |value: f64| format!("{} ns", quantity::significant(value));
    vec![
        ("memset, resident", speed(values.memset_gb_per_s)),
        ("memcpy, resident", speed(values.memcpy_gb_per_s)),
        ("read with checksum", speed(values.read_gb_per_s)),
        ("memset, first touch", speed(values.first_touch_gb_per_s)),
        ("fault of a 4 KiB page", time(values.fault_ns)),
        ("random access", time(values.random_access_ns)),
        ("reading the clock", time(values.timer_ns)),
    ]
}

/// Most numbers of events in the legend; in a run with more, each event has its own title.
const MOST_NUMBERS: usize = 9;
/// Names that the legend gives to one number.
const MOST_NAMES: usize = 3;

/// The numbers that stand at phases, each with the names of the phases that have it.
fn numbers(page: &Page) -> Vec<(String, String)> {
    let kinds = headlines::kinds(&page.groups).into_iter();
    let timed: Vec<&TimedPhases> = kinds
        .filter_map(|kind| workloads::of(kind).timed_phases)
        .collect();
    let words = |name: &str| match timed.iter().any(|timed| timed.verifying == name) {
        true => format!("{name} and verify"),
        false => name.replace('_', " "),
    };
    let mut found: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let is_phase = |mark: &&Mark| mark.trial.is_some() || page.manifest.has_lone_phases();
    for mark in page.marks.iter().filter(is_phase) {
        let Ok(number) = mark.label.parse() else { continue };
        let names = found.entry(number).or_default();
        // One more than are named shows that there are more.
        if names.len() <= MOST_NAMES {
            let name = words(&mark.name);
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    if found.len() > MOST_NUMBERS {
        return Vec::new();
    }
    let entry = |(number, mut names): (u32, Vec<String>)| {
        if names.len() > MOST_NAMES {
            names.truncate(MOST_NAMES);
            names.push("\u{2026}".to_owned());
        }
        (number.to_string(), names.join(", "))
    };
    found.into_iter().map(entry).collect()
}

/// The whole run as a static drawing.
fn overview(page: &Page) -> (&'static str, String) {
    let marks: Vec<&Mark> = page.marks.iter().collect();
    let title = match page.manifest.observes() {
        true => "The whole recording",
        false => "The whole run",
    };
    let mem_total = page.manifest.host.mem_total as f64;
    (
        title,
        timeline::overview(&page.overview, &marks, mem_total, title),
    )
}

/// For each group the memory at the events of one trial, if it has events.
fn event_tables(page: &Page, index: &Index<'_>) -> Vec<EventTable> {
    let of_group = |group: &Group| {
        let (trial, _) = index.representative(group)?;
        Some(EventTable {
            trial: trial.id.clone(),
            group: group.label.clone(),
            states: table::states(trial, index.marks(&trial.id))?,
        })
    };
    page.groups.iter().filter_map(of_group).collect()
}
