//! A recording and its results as a page.

use std::ops::Range;

use super::{Mark, MemoryUse, Page, Series, Timeline};
use crate::analysis::groups::{Dot, Group, Measured};
use crate::analysis::statistics::summarise;
use crate::analysis::timeline::{Line, Series as Wanted, timeline};
use crate::analysis::{compression, groups};
use crate::recording::Recording;
use crate::recording::model::{EventKind, Phase, Results, Trial, TrialStatus};
use crate::report::verdict;
use crate::sample::columns::col;
use crate::sample::{CATEGORIES, Row, categories};

/// Points of the timeline of the whole run: about two a pixel of a wide screen.
const OVERVIEW_POINTS: usize = 2000;
/// Points that all trials share, so that a page stays under 5 MB however many there are.
const TRIAL_POINTS: usize = 14_000;
/// Fewest and most points of one trial.
const POINTS_PER_TRIAL: Range<usize> = 40..800;
/// Seconds shown before and after a trial.
const MARGIN_NS: u64 = 300_000_000;
/// Slots for swap devices in the samples.
const SWAP_SLOTS: usize = 4;

/// A line that is asked of analysis: where it goes, how it is called, and what a unit of its column is worth.
struct Wish {
    panel: Panel,
    key: &'static str,
    label: &'static str,
    column: &'static str,
    factor: Factor,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Panel {
    Io,
    Faults,
    Pressure,
    Cpu,
}

#[derive(Clone, Copy)]
enum Factor {
    /// The column's unit is shown as it is.
    One,
    /// Pages are shown as bytes.
    Page,
    /// Microseconds a second of one clock are shown as percent.
    Percent,
    /// Microseconds a second of all CPUs are shown as percent of them.
    PercentOfCpus,
}

const fn wish(
    panel: Panel,
    key: &'static str,
    label: &'static str,
    column: &'static str,
    factor: Factor,
) -> Wish {
    Wish {
        panel,
        key,
        label,
        column,
        factor,
    }
}

const WISHES: &[Wish] = &[
    wish(Panel::Io, "swap-in", "swap in", "pswpin", Factor::Page),
    wish(Panel::Io, "swap-out", "swap out", "pswpout", Factor::Page),
    wish(Panel::Io, "disk-in", "block in", "pgpgin", Factor::One),
    wish(Panel::Io, "disk-out", "block out", "pgpgout", Factor::One),
    wish(Panel::Faults, "minor", "all", "pgfault", Factor::One),
    wish(Panel::Faults, "major", "major", "pgmajfault", Factor::One),
    wish(
        Panel::Faults,
        "refault",
        "anon refault",
        "workingset_refault_anon",
        Factor::One,
    ),
    wish(
        Panel::Pressure,
        "memory-some",
        "memory some",
        "psi_memory_some_us",
        Factor::Percent,
    ),
    wish(
        Panel::Pressure,
        "memory-full",
        "memory full",
        "psi_memory_full_us",
        Factor::Percent,
    ),
    wish(
        Panel::Pressure,
        "io-some",
        "I/O some",
        "psi_io_some_us",
        Factor::Percent,
    ),
    wish(
        Panel::Pressure,
        "cpu-some",
        "CPU some",
        "psi_cpu_some_us",
        Factor::Percent,
    ),
    wish(Panel::Cpu, "user", "user", "cpu_user_us", Factor::PercentOfCpus),
    wish(Panel::Cpu, "nice", "nice", "cpu_nice_us", Factor::PercentOfCpus),
    wish(
        Panel::Cpu,
        "system",
        "system",
        "cpu_system_us",
        Factor::PercentOfCpus,
    ),
    wish(
        Panel::Cpu,
        "interrupts",
        "interrupts",
        "cpu_softirq_us",
        Factor::PercentOfCpus,
    ),
    wish(
        Panel::Cpu,
        "iowait",
        "I/O wait",
        "cpu_iowait_us",
        Factor::PercentOfCpus,
    ),
    wish(
        Panel::Cpu,
        "steal",
        "steal",
        "cpu_steal_us",
        Factor::PercentOfCpus,
    ),
];

/// The page of a run.
pub fn build(recording: &Recording, results: &Results) -> Page {
    let groups = groups(&results.trials);
    let mut results = results.clone();
    for warning in &recording.warnings {
        if !results.warnings.contains(warning) {
            results.warnings.push(warning.clone());
        }
    }
    let points = TRIAL_POINTS / results.trials.len().max(1);
    let points = points.clamp(POINTS_PER_TRIAL.start, POINTS_PER_TRIAL.end);
    let trials = results.trials.iter().map(|trial| {
        let span = trial.span_ns.0.saturating_sub(MARGIN_NS)..trial.span_ns.1.saturating_add(MARGIN_NS);
        stretch(recording, Some(trial.id.clone()), span, points)
    });
    Page {
        verdict: verdict::sentence(&results, &groups),
        manifest: recording.manifest.clone(),
        memory: groups
            .iter()
            .map(|group| memory_use(recording, group, &results.trials))
            .collect(),
        overview: stretch(recording, None, 0..u64::MAX, OVERVIEW_POINTS),
        trials: trials.filter(|timeline| !timeline.t.is_empty()).collect(),
        marks: marks(recording),
        groups,
        results,
    }
}

fn marks(recording: &Recording) -> Vec<Mark> {
    let starts = recording
        .events
        .iter()
        .filter(|event| event.kind == EventKind::PhaseStart);
    let mut marks: Vec<Mark> = starts
        .filter_map(|event| {
            Some(Mark {
                t: event.t_ns as f64 / 1e9,
                number: event.number?,
                label: event.phase.clone().unwrap_or_else(|| event.text.clone()),
                trial: event.trial.clone(),
            })
        })
        .collect();
    marks.sort_by(|a, b| a.t.total_cmp(&b.t));
    marks
}

fn stretch(recording: &Recording, trial: Option<String>, span: Range<u64>, points: usize) -> Timeline {
    let manifest = &recording.manifest;
    let slots = swap_slots(recording);
    let mut wanted: Vec<Wanted> = WISHES
        .iter()
        .map(|wish| Wanted::Rate(wish.column.to_owned()))
        .collect();
    wanted.extend(
        slots
            .iter()
            .map(|(slot, _)| Wanted::Level(format!("swap{slot}_used"))),
    );
    let found = timeline(&recording.samples, manifest.sampler.hz, span, points, &wanted);
    let thinned = found.samples.iter().any(|&samples| samples > 1);
    let (rates, levels) = found.lines.split_at(WISHES.len());
    let panel = |panel: Panel| -> Vec<Series> {
        let mine = WISHES.iter().zip(rates).filter(|(wish, _)| wish.panel == panel);
        mine.map(|(wish, line)| rate(wish, line, thinned, recording))
            // What this kernel does not count, or this version did not record, is not shown as a gap.
            .filter(|series| series.values.iter().any(Option::is_some))
            .collect()
    };
    let swap = slots.iter().zip(levels).map(|((slot, device), line)| Series {
        key: format!("device{slot}"),
        label: device.clone(),
        // A device that is not there holds nothing; where nothing was sampled is a gap.
        values: line
            .mean
            .iter()
            .zip(&found.samples)
            .map(|(value, &samples)| (samples > 0).then(|| value.unwrap_or(0.0)))
            .collect(),
        peaks: Vec::new(),
    });
    let layers = CATEGORIES
        .iter()
        .zip(&found.layers)
        .map(|(category, values)| Series {
            key: category.name.to_owned(),
            label: category.title.to_owned(),
            values: values
                .iter()
                .map(|value| value.map(|bytes| bytes as f64))
                .collect(),
            peaks: Vec::new(),
        });
    Timeline {
        trial,
        t: found.t_ns.iter().map(|&t| t as f64 / 1e9).collect(),
        layers: layers.collect(),
        swap: swap.collect(),
        io: panel(Panel::Io),
        faults: panel(Panel::Faults),
        pressure: panel(Panel::Pressure),
        cpu: panel(Panel::Cpu),
    }
}

/// What to call a slot: its devices without their folders. Swap files of a run have a long name each and are one.
fn slot_name(devices: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for device in devices.split(", ") {
        let name = match device.rsplit('/').next().unwrap_or(device) {
            file if file.ends_with(".swap") => "swap file",
            other => other,
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

/// Slots in which a device was seen, with its name; slot 0 always, so that the panel is there at 0 as well.
fn swap_slots(recording: &Recording) -> Vec<(usize, String)> {
    let names = &recording.manifest.swap_slots;
    let named = names
        .iter()
        .enumerate()
        .take(SWAP_SLOTS)
        .filter(|(_, name)| !name.is_empty());
    let mut slots: Vec<(usize, String)> = named.map(|(slot, name)| (slot, slot_name(name))).collect();
    for slot in 0..SWAP_SLOTS {
        let column = recording.samples.column(&format!("swap{slot}_used"));
        let seen = column.is_some_and(|column| column.iter().any(|value| value.is_some()));
        if seen && slots.iter().all(|(known, _)| *known != slot) {
            slots.push((slot, format!("swap device {slot}")));
        }
    }
    if slots.is_empty() {
        slots.push((0, "no swap device".to_owned()));
    }
    slots.sort();
    slots
}

fn rate(wish: &Wish, line: &Line, thinned: bool, recording: &Recording) -> Series {
    let host = &recording.manifest.host;
    let factor = match wish.factor {
        Factor::One => 1.0,
        Factor::Page => host.page_size as f64,
        Factor::Percent => 1e-4,
        Factor::PercentOfCpus => 1e-4 / f64::from(host.cpus.max(1)),
    };
    // Counters of CPU time move in clock ticks, so that a short interval can seem to hold more than its time.
    let ceiling = match wish.factor {
        Factor::One | Factor::Page => f64::INFINITY,
        Factor::Percent | Factor::PercentOfCpus => 100.0,
    };
    let scaled = |values: &[Option<f64>]| -> Vec<Option<f64>> {
        values
            .iter()
            .map(|value| value.map(|value| (value * factor).min(ceiling)))
            .collect()
    };
    Series {
        key: wish.key.to_owned(),
        label: wish.label.to_owned(),
        values: scaled(&line.mean),
        peaks: if thinned && wish.panel != Panel::Cpu {
            scaled(&line.max)
        } else {
            Vec::new()
        },
    }
}

fn memory_use(recording: &Recording, group: &Group, trials: &[Trial]) -> MemoryUse {
    let usable: Vec<&Trial> = trials
        .iter()
        .filter(|trial| trial.status != TrialStatus::Failed && group.trials.contains(&trial.id))
        .collect();
    let measure = |figure: &dyn Fn(&Phase) -> [Option<f64>; 2]| -> [Option<Measured>; 2] {
        [0, 1].map(|side| {
            let dots = usable.iter().filter_map(|trial| {
                let trim = trial.phases.iter().find(|phase| phase.name == "trim")?;
                Some(Dot {
                    trial: trial.id.clone(),
                    value: figure(trim)[side]?,
                    status: trial.status,
                })
            });
            measured(dots.collect())
        })
    };
    let around = |phase: &Phase, value: &dyn Fn(&Row) -> Option<i64>| -> [Option<f64>; 2] {
        let rows = compression::rows_around(&recording.samples, phase);
        let bytes = |row: Option<&Row>| Some(value(row?)? as f64);
        [
            bytes(rows.as_ref().map(|rows| &rows.before)),
            bytes(rows.as_ref().map(|rows| &rows.after)),
        ]
    };
    let category =
        |name: &'static str| move |row: &Row| categories(row).and_then(|categories| categories.get(name));
    let swap_used = |row: &Row| row.get(col::SWAP_TOTAL)?.checked_sub(row.get(col::SWAP_FREE)?);
    MemoryUse {
        working_set: measure(&|phase| around(phase, &|row| row.get(col::TARGET_RESIDENT))),
        compressed: measure(&|phase| around(phase, &category("compressed"))),
        swap_used: measure(&|phase| around(phase, &swap_used)),
    }
}

/// The figure summed up as analysis does: of the trials that are ok or, where none is, of all.
fn measured(dots: Vec<Dot>) -> Option<Measured> {
    let any_ok = dots.iter().any(|dot| dot.status == TrialStatus::Ok);
    let values: Vec<f64> = dots
        .iter()
        .filter(|dot| !any_ok || dot.status == TrialStatus::Ok)
        .map(|dot| dot.value)
        .collect();
    let summary = summarise(&values, values.len() as u64)?;
    Some(Measured { dots, summary })
}
