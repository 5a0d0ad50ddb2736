//! The contents of a report, as plain values.

use std::collections::HashMap;

use serde::Serialize;

use crate::analysis::Group;
use crate::analysis::gauges::Panel;
use crate::analysis::groups::Measured;
use crate::analysis::thinning::{mean_and_max, stride};
use plimsoll_model::recording::hold::HoldGoal;
use plimsoll_model::recording::model::{Headline, Manifest, Results, Trial};

/// Everything that the page shows of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Its head ([`crate::headlines::of`]).
    pub headline: Headline,
    pub manifest: Manifest,
    pub results: Results,
    /// The trials that differ in nothing but the repeat, together.
    pub groups: Vec<Group>,
    /// Where the memory was before and after the trim, for each of `groups`.
    pub memory: Vec<MemoryUse>,
    pub overview: Timeline,
    /// One per trial that has samples, in the order in which they ran.
    pub trials: Vec<Timeline>,
    /// The events that are marked, by time.
    pub marks: Vec<Mark>,
    /// The sized service; `None` in other recordings.
    pub service: Option<ServiceCurves>,
    /// The held level; `None` in other recordings.
    pub hold: Option<HoldCurves>,
}

/// A held level over time. All vectors are as long as `t`; levels and goals are in bytes or, of a pressure, in
/// percent of the time.
#[derive(Debug, Clone, PartialEq)]
pub struct HoldCurves {
    /// The goal at the end.
    pub kind: HoldGoal,
    /// Seconds since the start of the recording.
    pub t: Vec<f64>,
    pub level: Vec<Option<f64>>,
    pub goal: Vec<Option<f64>>,
    /// Bytes that are held; `None` of a pressure.
    pub held: Vec<Option<f64>>,
    /// Bytes available to other programs.
    pub available: Vec<Option<f64>>,
    /// Time at which the level was first within its tolerance.
    pub reached: Option<f64>,
    /// Time of the end.
    pub released: Option<f64>,
}

/// The memory of a sized service over time. All vectors except `phases` are as long as `t`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServiceCurves {
    /// Seconds since the start of the recording.
    pub t: Vec<f64>,
    /// Bytes of memory.
    pub usage: Vec<Option<f64>>,
    /// Bytes of the cap; `None` without one.
    pub cap: Vec<Option<f64>>,
    /// Pressure stall of the cgroup, percent of time.
    pub pressure: Vec<Option<f64>>,
    /// Pages a second that were reclaimed and came back.
    pub refaults: Vec<Option<f64>>,
    /// Starts of the phases in seconds, with their names.
    pub phases: Vec<(f64, String)>,
}

/// Bytes before and after the trim, over the repeats of a group; `None` where no trial has the value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemoryUse {
    pub working_set: [Option<Measured>; 2],
    pub compressed: [Option<Measured>; 2],
    pub swap_used: [Option<Measured>; 2],
    /// Page cache of the trial's cgroup; of file memory alone, which has neither a compressed store nor swap.
    pub page_cache: [Option<Measured>; 2],
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    /// The trial it shows; `None` for the whole run.
    pub trial: Option<String>,
    /// Seconds since the start of the recording, of each bucket.
    pub t: Vec<f64>,
    /// Bytes in each category, mean of the bucket, bottom to top: in every bucket they sum to MemTotal.
    pub layers: Vec<Series>,
    /// The series of each panel of gauges, in the units of the gauges: of swap a series for each device.
    pub panels: Vec<(Panel, Vec<Series>)>,
}

impl Timeline {
    /// The series of a panel of gauges; empty if nothing was recorded for it.
    pub fn of(&self, panel: Panel) -> &[Series] {
        let mut panels = self.panels.iter();
        let found = panels.find(|(of, _)| *of == panel);
        found.map_or(&[], |(_, series)| series.as_slice())
    }

    /// Downsamples to at most `points` points, each the mean of the known values, or a gap. Drops peaks.
    pub(crate) fn thinned(&self, points: usize) -> Timeline {
        let stride = stride(self.t.len(), points);
        let mean = |values: &[Option<f64>]| mean_and_max(values.iter().flatten().copied()).0;
        let thin = |list: &[Series]| -> Vec<Series> {
            let thin = |series: &Series| Series {
                key: series.key.clone(),
                label: series.label.clone(),
                values: series.values.chunks(stride).map(mean).collect(),
                peaks: Vec::new(),
            };
            list.iter().map(thin).collect()
        };
        Timeline {
            trial: self.trial.clone(),
            t: self.t.iter().copied().step_by(stride).collect(),
            layers: thin(&self.layers),
            panels: self
                .panels
                .iter()
                .map(|(panel, series)| (*panel, thin(series)))
                .collect(),
        }
    }
}

/// One quantity over the buckets of a [`Timeline`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    pub key: String,
    pub label: String,
    /// The mean of each bucket; `None` where no sample was taken: a gap, never interpolated.
    pub values: Vec<Option<f64>>,
    /// The greatest of each bucket; empty where a bucket is one sample.
    pub peaks: Vec<Option<f64>>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mark {
    /// Seconds since the start of the recording.
    pub t: f64,
    /// The label of the line: the number of a phase (1 fill, 2 trim, 3 restore, 4 release) or the letter of an event of
    /// the monitor.
    pub label: String,
    /// The phase, or the text of the event.
    pub name: String,
    pub trial: Option<String>,
}

impl Page {
    /// The parts of the page by trial, for loops over many trials.
    pub(crate) fn index(&self) -> Index<'_> {
        let mut index = Index {
            trials: HashMap::new(),
            timelines: HashMap::new(),
            marks: HashMap::new(),
        };
        for trial in &self.results.trials {
            index.trials.entry(&trial.id).or_insert(trial);
        }
        for timeline in &self.trials {
            if let Some(trial) = &timeline.trial {
                index.timelines.entry(trial).or_insert(timeline);
            }
        }
        for mark in &self.marks {
            if let Some(trial) = &mark.trial {
                index.marks.entry(trial).or_default().push(mark);
            }
        }
        index
    }
}

/// The parts of a page, by the id of their trial.
pub(crate) struct Index<'a> {
    trials: HashMap<&'a str, &'a Trial>,
    timelines: HashMap<&'a str, &'a Timeline>,
    marks: HashMap<&'a str, Vec<&'a Mark>>,
}

impl<'a> Index<'a> {
    pub(crate) fn trial(&self, id: &str) -> Option<&'a Trial> {
        self.trials.get(id).copied()
    }

    pub(crate) fn timeline(&self, id: &str) -> Option<&'a Timeline> {
        self.timelines.get(id).copied()
    }

    /// The marks of one trial, by time.
    pub(crate) fn marks(&self, id: &str) -> &[&'a Mark] {
        self.marks.get(id).map_or(&[], Vec::as_slice)
    }

    /// The trial that stands for its group, with its timeline: the one whose phases together took the median time.
    pub(crate) fn representative(&self, group: &Group) -> Option<(&'a Trial, &'a Timeline)> {
        let drawn = group.trials.iter().filter_map(|id| {
            let (trial, timeline) = (self.trial(id)?, self.timeline(id)?);
            let seconds: f64 = trial.phases.iter().map(|phase| phase.seconds).sum();
            Some((seconds, trial, timeline))
        });
        let mut drawn: Vec<(f64, &Trial, &Timeline)> = drawn.collect();
        drawn.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (_, trial, timeline) = *drawn.get(drawn.len().checked_sub(1)? / 2)?;
        Some((trial, timeline))
    }
}
