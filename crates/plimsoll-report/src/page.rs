//! Builds the contents of a report from a recording and its results.

use std::collections::HashSet;
use std::ops::Range;

use crate::analysis;
use crate::analysis::frame::Machine;
use crate::analysis::gauges::{GAUGES, Panel, gauge, gauges_of};
use crate::analysis::groups;
use crate::analysis::groups::{Dot, Group, Measured, measured};
use crate::analysis::timeline::{Line, timeline};
use crate::contents::{Mark, MemoryUse, Page, Series, Timeline};
use crate::drawing::panel;
use crate::headlines;
use crate::hold;
use crate::service;
use crate::workloads::compression::{CACHED, STORED, SWAPPED, TRIMMED};
use crate::workloads::memory_of;
use plimsoll_model::categories::{CATEGORIES, categories};
use plimsoll_model::columns::Row;
use plimsoll_model::columns::col;
use plimsoll_model::recording::model::{Event, EventKind, Manifest, Results, Trial};
use plimsoll_model::recording::{PhaseRows, Recording};
use plimsoll_model::sanitize::sanitize;

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

/// The contents of the report of a recording with these results.
pub fn build(recording: &Recording, results: &Results) -> Page {
    let groups = groups(&results.trials);
    contents(recording, results.clone(), groups)(recording.manifest.clone())
}

/// As [`build`], of a recording that is not needed any more, with the groups of its results: the contents of a report of
/// many trials are in memory once.
pub fn build_from(recording: Recording, results: Results, groups: Vec<Group>) -> Page {
    let with = contents(&recording, results, groups);
    with(recording.manifest)
}

/// The contents of a report without the manifest, which the returned function adds.
fn contents(
    recording: &Recording,
    mut results: Results,
    groups: Vec<Group>,
) -> impl FnOnce(Manifest) -> Page + use<> {
    for warning in &recording.warnings {
        if !results.warnings.contains(warning) {
            results.warnings.push(warning.clone());
        }
    }
    for warning in &mut results.warnings {
        warning.text = sanitize(&warning.text).into_owned();
    }
    let points = TRIAL_POINTS / results.trials.len().max(1);
    let points = points.clamp(POINTS_PER_TRIAL.start, POINTS_PER_TRIAL.end);
    let lines = Lines::of(recording);
    let trials = drawn(&groups, &results.trials).into_iter().map(|trial| {
        let span = trial.span_ns.0.saturating_sub(MARGIN_NS)..trial.span_ns.1.saturating_add(MARGIN_NS);
        lines.stretch(Some(trial.id.clone()), span, points)
    });
    let trials: Vec<Timeline> = trials.filter(|timeline| !timeline.t.is_empty()).collect();
    let headline = headlines::of(recording, &results, &groups);
    let memory: Vec<MemoryUse> = groups
        .iter()
        .map(|group| memory_use(recording, group, &results.trials))
        .collect();
    let overview = lines.stretch(None, 0..u64::MAX, OVERVIEW_POINTS);
    let marks = marks(recording);
    let service = service::curves(recording);
    let hold = hold::curves(recording);
    move |mut manifest| {
        manifest.plan.title = sanitize(&manifest.plan.title).into_owned();
        Page {
            headline,
            manifest,
            results,
            groups,
            memory,
            overview,
            trials,
            marks,
            service,
            hold,
        }
    }
}

fn marks(recording: &Recording) -> Vec<Mark> {
    let watched = recording.manifest.is_watch();
    let mark = |event: &Event| {
        let name = event.phase.as_ref().unwrap_or(&event.text);
        Some(Mark {
            t: event.t_ns as f64 / 1e9,
            label: label(event, watched)?,
            name: sanitize(name).into_owned(),
            trial: event.trial.clone(),
        })
    };
    // The phases of a service alternate; a phase of a trial that starts again replaces the one before.
    let events: Vec<&Event> = match recording.manifest.has_lone_phases() {
        true => recording.events.iter().collect(),
        false => recording.current_events(),
    };
    let mut marks: Vec<Mark> = events.into_iter().filter_map(mark).collect();
    marks.sort_by(|a, b| a.t.total_cmp(&b.t));
    marks
}

/// The label of an event, as the monitor shows it; `None` for events without a mark. Warnings of a run are in its list.
fn label(event: &Event, watched: bool) -> Option<String> {
    let label = match event.kind {
        EventKind::PhaseStart | EventKind::Mark if event.number.is_some() => {
            return event.number.map(|number| number.to_string());
        }
        EventKind::Mark => "m",
        EventKind::Trim => "T",
        EventKind::Release => "E",
        EventKind::Target => "*",
        EventKind::PageFlags => "k",
        EventKind::Warning if watched => "!",
        _ => return None,
    };
    Some(label.to_owned())
}

/// The trials with a timeline of their own: all or, of more than [`TRIAL_POINTS`] allows, the first of each group, as
/// many as it allows.
fn drawn<'a>(groups: &[Group], trials: &'a [Trial]) -> Vec<&'a Trial> {
    const MOST: usize = TRIAL_POINTS / POINTS_PER_TRIAL.start;
    if trials.len() <= MOST {
        return trials.iter().collect();
    }
    let firsts = groups.iter().filter_map(|group| group.trials.first());
    let firsts: HashSet<&str> = firsts.take(MOST).map(AsRef::as_ref).collect();
    trials
        .iter()
        .filter(|trial| firsts.contains(trial.id.as_str()))
        .collect()
}

/// The lines of the timelines of a recording.
struct Lines<'a> {
    recording: &'a Recording,
    machine: Machine,
    /// Slots of swap devices, each with its name.
    slots: Vec<(usize, String)>,
    /// The gauges to draw; those of the slots last.
    wanted: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(recording: &'a Recording) -> Self {
        let host = &recording.manifest.host;
        let slots = swap_slots(recording);
        // The lines of swap have the names of their devices.
        let of_panels = panel::drawn_gauges().filter(|panel| *panel != Panel::Swap);
        let of_panels = of_panels.flat_map(gauges_of).map(|(index, _)| index);
        let of_slots = slots.iter().map(|(slot, _)| gauge::SWAP0 + slot);
        Lines {
            recording,
            machine: Machine {
                page_size: host.page_size,
                cpus: host.cpus,
            },
            wanted: of_panels.chain(of_slots).collect(),
            slots,
        }
    }

    fn stretch(&self, trial: Option<String>, span: Range<u64>, points: usize) -> Timeline {
        let found = timeline(
            &self.recording.samples,
            self.machine,
            self.recording.manifest.sampler.hz,
            span,
            points,
            &self.wanted,
        );
        stretch(trial, &found, &self.slots)
    }
}

fn stretch(trial: Option<String>, found: &analysis::Timeline, slots: &[(usize, String)]) -> Timeline {
    let thinned = found.samples.iter().any(|&samples| samples > 1);
    let (rates, levels) = found.lines.split_at(found.lines.len() - slots.len());
    let device = |((_, device), line): (&(usize, String), &Line)| Series {
        key: GAUGES[line.gauge].key.to_owned(),
        label: device.clone(),
        // A device that is not there holds nothing; where nothing was sampled is a gap.
        values: line
            .mean
            .iter()
            .zip(&found.samples)
            .map(|(value, &samples)| (samples > 0).then(|| value.unwrap_or(0.0)))
            .collect(),
        peaks: Vec::new(),
    };
    let panel = |panel: Panel| -> Vec<Series> {
        if panel == Panel::Swap {
            return slots.iter().zip(levels).map(device).collect();
        }
        let mine = rates.iter().filter(|line| GAUGES[line.gauge].panel == panel);
        mine.map(|line| series(line, thinned))
            // What this kernel does not count, or this version did not record, is not shown as a gap.
            .filter(|series| series.values.iter().any(Option::is_some))
            .collect()
    };
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
        panels: panel::drawn_gauges().map(|of| (of, panel(of))).collect(),
    }
}

/// The name of a slot: its devices without their folders; all swap files of a run are one.
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

fn series(line: &Line, thinned: bool) -> Series {
    let gauge = &GAUGES[line.gauge];
    Series {
        key: gauge.key.to_owned(),
        label: gauge.title.to_owned(),
        values: line.mean.clone(),
        peaks: match thinned && gauge.panel != Panel::Cpu {
            true => line.max.clone(),
            false => Vec::new(),
        },
    }
}

fn memory_use(recording: &Recording, group: &Group, trials: &[Trial]) -> MemoryUse {
    // Each trial with a trim, and the samples around that.
    let trims = group.usable(trials).into_iter().filter_map(|trial| {
        let trim = trial.phases.iter().find(|phase| phase.name == "trim")?;
        let rows = plimsoll_model::recording::rows_around(&recording.samples, trim)?;
        Some((trial, rows))
    });
    let trims: Vec<(&Trial, PhaseRows)> = trims.collect();
    let measure = |metric: &str, bytes: &dyn Fn(&Row) -> Option<i64>| -> [Option<Measured>; 2] {
        let side = |row: fn(&PhaseRows) -> &Row| {
            let dots = trims.iter().filter_map(|(trial, rows)| {
                Some(Dot {
                    trial: trial.id.as_str().into(),
                    value: bytes(row(rows))? as f64,
                    status: trial.status_of(metric),
                })
            });
            // The seed of the interval's resampling: the same for the same number of values.
            let dots: Vec<Dot> = dots.collect();
            let seed = dots.len() as u64;
            measured(dots, || seed)
        };
        [side(|rows| &rows.before), side(|rows| &rows.after)]
    };
    let category = |name: &'static str| move |row: &Row| categories(row)?.get(name);
    let swap_used = |row: &Row| row.get(col::SWAP_TOTAL)?.checked_sub(row.get(col::SWAP_FREE)?);
    let working_set = measure(TRIMMED, &|row| row.get(col::TARGET_RESIDENT));
    if !memory_of(&group.params).goes_to_swap() {
        return MemoryUse {
            working_set,
            page_cache: measure(CACHED, &|row| row.get(col::CGROUP_FILE)),
            ..MemoryUse::default()
        };
    }
    MemoryUse {
        working_set,
        page_cache: [None, None],
        compressed: measure(STORED, &category("compressed")),
        swap_used: measure(SWAPPED, &swap_used),
    }
}
