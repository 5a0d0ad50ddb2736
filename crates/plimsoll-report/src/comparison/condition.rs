//! Conditions that a comparison must meet: `[GROUP/]METRIC OP LIMIT`, as `--fail-on` takes them.
//!
//! - `GROUP` is a pattern of group identities with `*` and `?`; without it, every group is meant.
//! - `METRIC` is a metric as the comparison names it: `restore.seconds`, `compression_ratio`.
//! - `OP` is `>` or `<`, and must point the way in which the metric gets worse.
//! - `LIMIT` is a change of the median in percent (`10%`), or a value of the run's own median with its unit (`0.5s`,
//!   `64MiB`, `2GB/s`, `1.5`).
//!
//! A limit in percent is broken when the change of the medians is beyond it and the interval excludes 0; with too few
//! repeats for an interval, by the medians alone. A value is compared with the run's median alone.

use std::collections::HashSet;
use std::ops::Range;

use super::metrics::nature;
use super::model::{Comparison, Outcome, Row, State};
use crate::analysis::metric::{Direction, MetricUnit};
use crate::workloads::all_metrics;
use plimsoll_model::scenario::{Marked, Mistake, near};

#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    pub text: String,
    pub group: Option<String>,
    pub metric: String,
    /// Which side of the limit is wrong.
    pub operator: Operator,
    pub limit: Limit,
    metric_at: Range<usize>,
}

/// Which side of a limit is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Above,
    Below,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// Of the change of the median, as a share.
    Change(f64),
    /// Of the run's own median, in the metric's unit.
    Value(f64),
}

#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ConditionError {
    pub fault: Fault,
    message: Box<str>,
    help: Box<str>,
    text: Box<str>,
    at: Range<usize>,
    label: Box<str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It has no `>` and no `<`.
    NoOperator,
    NoMetric,
    /// The limit does not parse in the unit of the metric.
    NoLimit,
    Improvement,
    UnknownMetric {
        /// The nearest names, best first; at most five.
        nearest: Vec<String>,
    },
    UnknownGroup,
}

impl ConditionError {
    /// The error as it is shown with its place.
    pub fn mistake(&self) -> Mistake {
        Mistake {
            code: "compare::fail-on",
            message: self.to_string(),
            marked: Some(Marked {
                name: None,
                text: (&*self.text).into(),
                places: vec![(self.at.clone(), self.label.to_string())],
            }),
            help: Some(self.help.to_string()),
        }
    }
}

const GRAMMAR: &str = "a condition is `[GROUP/]METRIC>LIMIT` or `...<LIMIT`, for instance `restore.seconds>10%`, \
    `zram/*/random/trim.gb_per_s<-5%` or `restore.seconds>0.5s`";

impl std::str::FromStr for Condition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |fault, message: String, at: Range<usize>, label: &str| ConditionError {
            fault,
            message: message.into(),
            help: GRAMMAR.into(),
            text: text.into(),
            at,
            label: label.into(),
        };
        let Some(place) = text.rfind(['>', '<']) else {
            return Err(error(
                Fault::NoOperator,
                format!("`{text}` has no `>` and no `<`"),
                0..text.len(),
                "no limit",
            ));
        };
        let (left, right) = (&text[..place], &text[place + 1..]);
        let operator = match text.as_bytes()[place] {
            b'>' => Operator::Above,
            _ => Operator::Below,
        };
        let (group, metric) = match left.rsplit_once('/') {
            Some((group, metric)) => (Some(group.trim().to_owned()), metric),
            None => (None, left),
        };
        let metric_start = left.len() - metric.trim_start().len();
        let metric = metric.trim();
        let metric_at = metric_start..metric_start + metric.len();
        if metric.is_empty() {
            return Err(error(
                Fault::NoMetric,
                format!("`{text}` names no metric"),
                0..place,
                "here",
            ));
        }
        let nature = nature(metric);
        let limit = limit(right.trim(), nature.unit).map_err(|label| {
            error(
                Fault::NoLimit,
                format!("`{}` is not a limit of {metric}", right.trim()),
                place + 1..text.len(),
                &label.to_string(),
            )
        })?;
        let condition = Condition {
            text: text.to_owned(),
            group,
            metric: metric.to_owned(),
            operator,
            limit,
            metric_at,
        };
        condition.check_direction(place)?;
        Ok(condition)
    }
}

impl Condition {
    /// Rejects a limit that only an improvement can exceed: it would let every regression pass.
    fn check_direction(&self, place: usize) -> Result<(), ConditionError> {
        let (way, sign, example) = match (nature(&self.metric).direction, self.operator) {
            (Direction::Less, Operator::Below) => ("less", '>', "10%"),
            (Direction::More, Operator::Above) => ("more", '<', "-10%"),
            _ => return Ok(()),
        };
        Err(ConditionError {
            fault: Fault::Improvement,
            message: format!("`{}` fails on an improvement: {way} is better", self.text).into(),
            help: format!(
                "write `{sign}`: `{}{sign}{example}` fails when the metric gets worse by more than 10%",
                self.metric
            )
            .into(),
            text: self.text.as_str().into(),
            at: place..place + 1,
            label: format!("{way} {} is better", self.metric).into(),
        })
    }

    /// Whether `value` is on the wrong side of `limit`.
    fn beyond(&self, value: f64, limit: f64) -> bool {
        match self.operator {
            Operator::Above => value > limit,
            Operator::Below => value < limit,
        }
    }

    fn means(&self, group: &str) -> bool {
        self.group
            .as_deref()
            .is_none_or(|pattern| matches(pattern, group))
    }
}

#[derive(Debug, thiserror::Error)]
enum LimitError {
    #[error("not a number")]
    NotANumber,
    #[error("its unit must be one of: {}", .0.join(", "))]
    Unit(Vec<&'static str>),
}

/// `10%`, or a number with a unit that fits the metric's.
fn limit(text: &str, unit: MetricUnit) -> Result<Limit, LimitError> {
    let digits = text
        .find(|letter: char| letter.is_ascii_alphabetic() || letter == '%')
        .unwrap_or(text.len());
    let (number, suffix) = (text[..digits].trim(), &text[digits..]);
    let number: f64 = number
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite())
        .ok_or(LimitError::NotANumber)?;
    if suffix == "%" {
        return Ok(Limit::Change(number / 100.0));
    }
    let factors: &[(&str, f64)] = match unit {
        MetricUnit::Seconds => &[("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("min", 60.0)],
        MetricUnit::GbPerS => &[("GB/s", 1.0), ("MB/s", 1e-3)],
        MetricUnit::Bytes => &[
            ("B", 1.0),
            ("KiB", 1024.0),
            ("MiB", 1048576.0),
            ("GiB", 1073741824.0),
        ],
        MetricUnit::Percent => &[("points", 1.0)],
        MetricUnit::PerSecond => &[("/s", 1.0)],
        MetricUnit::Ratio | MetricUnit::Count => &[("", 1.0)],
    };
    match factors.iter().find(|(name, _)| *name == suffix) {
        Some((_, factor)) => Ok(Limit::Value(number * factor)),
        None => {
            let names = factors.iter().map(|(name, _)| *name);
            let units = names.filter(|name| !name.is_empty()).chain(["%"]);
            Err(LimitError::Unit(units.collect()))
        }
    }
}

/// Names of all metrics that a condition can mean here: those of the rows, and those that a run may have.
pub fn known(comparison: &Comparison) -> Vec<String> {
    let rows = comparison.rows.iter().map(|row| row.metric.clone());
    let lone = comparison.lone.iter().filter_map(|lone| lone.metric.clone());
    let phases = ["fill", "trim", "restore", "release"];
    let of_phases = phases
        .iter()
        .flat_map(|phase| [format!("{phase}.seconds"), format!("{phase}.gb_per_s")]);
    let of_trials = all_metrics().map(|metric| metric.name.to_owned());
    let of_trials = of_trials.filter(|name| !super::metrics::is_speed_of_phase(name));
    let mut seen = HashSet::new();
    let all = rows.chain(lone).chain(of_phases).chain(of_trials);
    all.filter(|name| seen.insert(name.clone())).collect()
}

/// Most names to offer for an unknown one.
const MOST_NEAR: usize = 5;

/// How a condition stands: an outcome for every run and group that it means, at least one a run.
///
/// # Errors
/// The metric does not exist; the pattern means no group of any run.
pub fn check(condition: &Condition, comparison: &Comparison) -> Result<Vec<Outcome>, ConditionError> {
    let known = known(comparison);
    if !known.contains(&condition.metric) {
        return Err(unknown_metric(condition, &known));
    }
    let groups = groups_of(comparison);
    if !groups.iter().any(|group| condition.means(group)) {
        return Err(unknown_group(condition, &groups));
    }
    let mut outcomes = Vec::new();
    for run in 1..comparison.runs.len() {
        let before = outcomes.len();
        for (index, row) in comparison.rows.iter().enumerate() {
            if row.run == run && row.metric == condition.metric && condition.means(&row.group) {
                let (state, reason) = state_of(condition, row);
                outcomes.push(outcome(condition, run, &row.group, state, Some(index), reason));
            }
        }
        for lone in &comparison.lone {
            let concerns = [lone.present, lone.absent].contains(&run)
                && condition.means(&lone.group)
                && lone
                    .metric
                    .as_ref()
                    .is_none_or(|metric| *metric == condition.metric);
            if concerns {
                let absent = &comparison.runs[lone.absent];
                let because = match lone.reason.is_empty() {
                    true => String::new(),
                    false => format!(": {}", lone.reason),
                };
                let reason = format!("{} ({}) lacks the metric{because}", absent.letter, absent.name);
                outcomes.push(outcome(condition, run, &lone.group, State::Unknown, None, reason));
            }
        }
        // What failed on both sides has no row and no counterpart that lacks it.
        let known: HashSet<String> = outcomes[before..].iter().map(|one| one.group.clone()).collect();
        for subject in comparison
            .subjects
            .iter()
            .filter(|one| condition.means(&one.group))
        {
            let failed = subject.failed.iter().any(|one| [0, run].contains(one));
            if failed && !known.contains(&subject.group) {
                let reason = "its trials failed".to_owned();
                outcomes.push(outcome(
                    condition,
                    run,
                    &subject.group,
                    State::Unknown,
                    None,
                    reason,
                ));
            }
        }
        if outcomes.len() == before {
            let reason = "no group has this metric in both runs".to_owned();
            outcomes.push(outcome(condition, run, "", State::Unknown, None, reason));
        }
    }
    Ok(outcomes)
}

fn outcome(
    condition: &Condition,
    run: usize,
    group: &str,
    state: State,
    row: Option<usize>,
    reason: String,
) -> Outcome {
    Outcome {
        condition: condition.text.clone(),
        run,
        group: group.to_owned(),
        state,
        row,
        of_value: matches!(condition.limit, Limit::Value(_)),
        reason,
    }
}

fn state_of(condition: &Condition, row: &Row) -> (State, String) {
    if row.other.untrustworthy || row.baseline.untrustworthy {
        return (
            State::Unknown,
            "the metric is untrustworthy in all trials of one run".to_owned(),
        );
    }
    let limit = match condition.limit {
        Limit::Change(limit) => limit,
        Limit::Value(limit) => {
            let state = match condition.beyond(row.other.median, limit) {
                true => State::Failed,
                false => State::Passed,
            };
            return (state, "by the run's median".to_owned());
        }
    };
    let Some(change) = row.change else {
        return (
            State::Unknown,
            "a median is 0 or less: there is no change in percent".to_owned(),
        );
    };
    let beyond = condition.beyond(change, limit);
    match row.interval {
        _ if !beyond => (State::Passed, "within the limit".to_owned()),
        Some((low, high)) if low <= 0.0 && high >= 0.0 => (
            State::Passed,
            "beyond the limit, but not significant: the interval contains 0".to_owned(),
        ),
        Some(_) => (State::Failed, "beyond the limit, and significant".to_owned()),
        None => (
            State::Failed,
            "beyond the limit, by the medians alone: too few values for an interval".to_owned(),
        ),
    }
}

fn groups_of(comparison: &Comparison) -> Vec<&str> {
    let rows = comparison.subjects.iter().map(|subject| subject.group.as_str());
    let lone = comparison.lone.iter().map(|lone| lone.group.as_str());
    let mut seen = HashSet::new();
    rows.chain(lone).filter(|group| seen.insert(*group)).collect()
}

fn unknown_metric(condition: &Condition, known: &[String]) -> ConditionError {
    let nearest = near(&condition.metric, known.iter().map(String::as_str));
    let nearest: Vec<String> = nearest.into_iter().take(MOST_NEAR).map(str::to_owned).collect();
    let help = match nearest.as_slice() {
        [] => format!("the metrics are: {}", known.join(", ")),
        near => format!("the nearest metrics are: {}", near.join(", ")),
    };
    ConditionError {
        message: format!("there is no metric `{}`", condition.metric).into(),
        help: help.into(),
        text: condition.text.as_str().into(),
        at: condition.metric_at.clone(),
        label: match nearest.first() {
            Some(name) => format!("did you mean `{name}`?"),
            None => "unknown metric".to_owned(),
        }
        .into(),
        fault: Fault::UnknownMetric { nearest },
    }
}

fn unknown_group(condition: &Condition, groups: &[&str]) -> ConditionError {
    let pattern = condition.group.as_deref().unwrap_or("*");
    ConditionError {
        fault: Fault::UnknownGroup,
        message: format!("no group is called `{pattern}`").into(),
        help: format!("the groups are: {}", groups.join(", ")).into(),
        text: condition.text.as_str().into(),
        at: 0..condition.metric_at.start.saturating_sub(1),
        label: "matches no group".into(),
    }
}

/// Whether the pattern matches: `*` matches any characters, slashes included, `?` one.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut read) = (0, 0);
    // Where to go on from when a star took too little: the place after it, and what it has taken up to.
    let mut star: Option<(usize, usize)> = None;
    while read < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at + 1, read));
                at += 1;
            }
            Some(&letter) if letter == '?' || letter == text[read] => {
                at += 1;
                read += 1;
            }
            _ => match &mut star {
                Some((after, taken)) => {
                    *taken += 1;
                    (at, read) = (*after, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|letter| *letter == '*')
}
