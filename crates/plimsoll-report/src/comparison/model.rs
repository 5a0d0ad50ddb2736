//! The nouns of a comparison. `--json` prints them as they stand here.

use std::collections::HashMap;

use serde::Serialize;

use crate::analysis::metric::{Direction, MetricUnit};
use plimsoll_model::recording::model::RunStatus;

pub const COMPARISON_SCHEMA: u32 = 2;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// [`COMPARISON_SCHEMA`].
    pub schema: u32,
    /// Version of the program that made it.
    pub version: String,
    /// Least change of a median that counts, in percent.
    pub threshold_percent: f64,
    pub basis: Basis,
    /// The runs; the first is the baseline.
    pub runs: Vec<Run>,
    /// Different circumstances of the runs.
    pub differences: Vec<Difference>,
    /// Doubts about the results.
    pub warnings: Vec<String>,
    pub lone: Vec<Lone>,
    /// The groups that are compared, in the baseline's order.
    pub subjects: Vec<Subject>,
    /// The place of each group in `subjects`, by identity.
    #[serde(skip)]
    pub(super) places: HashMap<String, usize>,
    pub rows: Vec<Row>,
    /// Outcomes of `--fail-on`: one per condition, group and run.
    pub conditions: Vec<Outcome>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The trials, repeats of the same thing together.
    Trials,
    /// Values of the whole timeline, if a recording has no trials: one per metric, so no verdict.
    Timelines,
    /// The hosts of fleets: one value per host.
    Hosts,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// `A` for the baseline, then `B` and so on.
    pub letter: String,
    pub name: String,
    pub folder: String,
    pub scenario: String,
    /// Start in UTC, RFC 3339.
    pub started: String,
    /// Verdict on the run; none where there are no trials to judge.
    pub status: Option<RunStatus>,
    pub trials: usize,
    /// Failed trials, excluded from all values.
    pub failed: usize,
    /// Untrustworthy trials; a value that a confounder spoils is excluded if the group has others.
    pub untrustworthy: usize,
}

/// Something that is not the same in a run as in the baseline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Index of the run.
    pub run: usize,
    /// `machine`, `kernel`, `tool`, `plan`, `settings`, `sampling` or `calibration`.
    pub kind: &'static str,
    /// A field, a key or a path.
    pub name: String,
    pub baseline: String,
    pub other: String,
}

/// A group or metric that only some of the runs have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lone {
    pub group: String,
    /// The metric; none when it is the whole group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Index of the run that has it.
    pub present: usize,
    /// Index of the run that lacks it.
    pub absent: usize,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Subject {
    /// Identity: a trial's id without its repeat.
    pub group: String,
    pub label: String,
    /// Indices of the runs in which trials of the group failed.
    pub failed: Vec<usize>,
}

/// One metric of one group, in a run and in the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Index of the run that is compared with the baseline.
    pub run: usize,
    pub group: String,
    /// Name of the metric: `PHASE.seconds`, `PHASE.gb_per_s`, or a trial's metric.
    pub metric: String,
    pub unit: MetricUnit,
    pub direction: Direction,
    /// The equivalent metric tested in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restates: Option<String>,
    pub baseline: Side,
    pub other: Side,
    /// Median over the baseline's, minus 1. None where no ratio can be made.
    pub change: Option<f64>,
    /// 95% bootstrap interval of `change`; none where the repeats are too few.
    pub interval: Option<(f64, f64)>,
    /// `change` with each side set against the calibration of its own run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub normalised: Option<Normalised>,
    /// Two-sided p of the Mann-Whitney test; none for a restated metric and for single values.
    pub p: Option<f64>,
    /// `p` after Holm's correction for all tests of the comparison.
    pub p_holm: Option<f64>,
    pub verdict: Verdict,
    /// The reason for no verdict, or a note; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remark: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    pub median: f64,
    /// Every repeat that counts, in the order in which they ran.
    pub values: Vec<f64>,
    /// Whether no trial has a trustworthy value: then the values are untrustworthy ones.
    pub untrustworthy: bool,
}

/// A change as it would be if both machines were equally fast.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Normalised {
    /// The calibration of each side: `calibration.memcpy`.
    pub by: &'static str,
    pub change: f64,
    /// Its interval, the calibration's own error not included.
    pub interval: Option<(f64, f64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// More than chance and more than the threshold, the wrong way.
    Worse,
    /// More than chance and more than the threshold, the right way.
    Better,
    /// More than chance and more than the threshold, of a metric that has no better way.
    Changed,
    /// The whole interval lies within the threshold.
    Same,
    /// None of these: too few repeats, or too much noise.
    Unclear,
}

/// The result of a condition for one group of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    pub condition: String,
    /// Index of the run.
    pub run: usize,
    /// Identity of the group; empty when no group has the metric.
    pub group: String,
    pub state: State,
    /// Index of the row that it was read from.
    pub row: Option<usize>,
    /// Whether the limit is of a value, not of a change.
    pub of_value: bool,
    pub reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    Passed,
    /// Broken: the run is worse than it may be.
    Failed,
    /// Values are missing or untrustworthy.
    Unknown,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub worse: usize,
    pub better: usize,
    pub changed: usize,
    pub same: usize,
    pub unclear: usize,
}

impl Comparison {
    /// How many rows have each verdict. Restated metrics do not count a second time.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for row in self.rows.iter().filter(|row| row.restates.is_none()) {
            *match row.verdict {
                Verdict::Worse => &mut tally.worse,
                Verdict::Better => &mut tally.better,
                Verdict::Changed => &mut tally.changed,
                Verdict::Same => &mut tally.same,
                Verdict::Unclear => &mut tally.unclear,
            } += 1;
        }
        tally
    }

    /// Failed if a condition failed; otherwise unknown if a condition is unknown; otherwise passed.
    pub fn state(&self) -> State {
        let any = |state| self.conditions.iter().any(|one| one.state == state);
        if any(State::Failed) {
            State::Failed
        } else if any(State::Unknown) {
            State::Unknown
        } else {
            State::Passed
        }
    }

    /// Name for people of the group with this identity.
    pub fn label<'a>(&'a self, group: &'a str) -> &'a str {
        let place = self.places.get(group);
        place.map_or(group, |place| &self.subjects[*place].label)
    }

    /// The rows of each run and group, in their order.
    pub(crate) fn rows_by_group(&self) -> HashMap<(usize, &str), Vec<&Row>> {
        let mut found: HashMap<(usize, &str), Vec<&Row>> = HashMap::new();
        for row in &self.rows {
            found.entry((row.run, &row.group)).or_default().push(row);
        }
        found
    }
}
