//! A comparison out of recordings and their results.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use xxhash_rust::xxh3::xxh3_64;

use super::circumstances::{differences, warnings};
use super::input::{Fleet, GroupValues, Input, letter};
use super::metrics::{calibration_of, is_speed_of_phase, nature, restated};
use super::model::{
    Basis, COMPARISON_SCHEMA, Comparison, Difference, Lone, Normalised, Row, Run, Side, Subject, Verdict,
};
use super::timelines;
use crate::analysis::groups::{Group, Measured, groups};
use crate::analysis::metric::Direction;
use crate::analysis::statistics::{can_tell, holm, mann_whitney, median_ratio};
use crate::workloads;
use plimsoll_model::quantity::counted;
use plimsoll_model::recording::model::{Calibration, TrialStatus};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    #[error("cannot compare one run; give at least two")]
    TooFew,
    /// Every trial of the baseline failed, or of every other run.
    #[error(
        "cannot compare the runs: every trial of {} failed; read the causes with `plimsoll report RUN --format text`, \
         remove them, and run the scenario again", .0.join(" and of ")
    )]
    AllFailed(Vec<String>),
    /// No group is in the baseline and in another run.
    #[error("cannot compare the runs: they share no group. {}; compare runs of the same scenario", .0.join(". "))]
    NothingInCommon(Vec<String>),
}

/// Compares every run with the first. `threshold` is the least change of a median that counts, as a share.
///
/// # Errors
/// [`CompareError::TooFew`]; [`CompareError::AllFailed`]; [`CompareError::NothingInCommon`], with the groups of each run.
pub fn compare(inputs: &[Input<'_>], threshold: f64) -> Result<Comparison, CompareError> {
    if inputs.len() < 2 {
        return Err(CompareError::TooFew);
    }
    let basis = match inputs.iter().all(|input| !input.results.trials.is_empty()) {
        true => Basis::Trials,
        false => Basis::Timelines,
    };
    let sides: Vec<Vec<GroupValues>> = inputs
        .iter()
        .map(|input| match basis {
            Basis::Trials => groups(&input.results.trials)
                .iter()
                .map(GroupValues::of)
                .collect(),
            Basis::Timelines | Basis::Hosts => vec![timelines::values(input.recording)],
        })
        .collect();
    let comparison = Comparison {
        differences: differences(inputs),
        warnings: warnings(inputs),
        runs: inputs
            .iter()
            .enumerate()
            .map(|(index, input)| run(index, input))
            .collect(),
        ..empty(basis, threshold)
    };
    let calibrations: Vec<_> = inputs.iter().map(|input| input.results.calibration).collect();
    of_sides(comparison, &sides, &calibrations, threshold)
}

/// Compares fleets with the first. The values of a group are those of its hosts. `threshold` is as in [`compare`].
///
/// # Errors
/// As [`compare`].
pub fn compare_fleets(
    fleets: &[Fleet],
    differences: Vec<Difference>,
    warnings: Vec<String>,
    threshold: f64,
) -> Result<Comparison, CompareError> {
    if fleets.len() < 2 {
        return Err(CompareError::TooFew);
    }
    let run = |(index, fleet): (usize, &Fleet)| Run {
        letter: letter(index),
        name: fleet.name.clone(),
        folder: fleet.folder.clone(),
        scenario: fleet.scenario.clone(),
        started: fleet.started.clone(),
        status: None,
        trials: fleet.tasks,
        failed: fleet.failed,
        untrustworthy: 0,
    };
    let comparison = Comparison {
        runs: fleets.iter().enumerate().map(run).collect(),
        differences,
        warnings,
        ..empty(Basis::Hosts, threshold)
    };
    let sides: Vec<Vec<GroupValues>> = fleets.iter().map(|fleet| fleet.groups.clone()).collect();
    of_sides(comparison, &sides, &vec![None; fleets.len()], threshold)
}

/// A comparison of no runs.
fn empty(basis: Basis, threshold: f64) -> Comparison {
    Comparison {
        schema: COMPARISON_SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        threshold_percent: threshold * 100.0,
        basis,
        runs: Vec::new(),
        differences: Vec::new(),
        warnings: Vec::new(),
        lone: Vec::new(),
        subjects: Vec::new(),
        places: HashMap::new(),
        rows: Vec::new(),
        conditions: Vec::new(),
    }
}

/// Adds the rows of `sides`, the groups of each run.
fn of_sides(
    mut comparison: Comparison,
    sides: &[Vec<GroupValues>],
    calibrations: &[Option<Calibration>],
    threshold: f64,
) -> Result<Comparison, CompareError> {
    let failed = |run: &&Run| run.trials > 0 && run.failed == run.trials;
    let named: Vec<&Run> = comparison.runs.iter().filter(failed).collect();
    if failed(&&comparison.runs[0]) || named.len() == comparison.runs.len() - 1 {
        let names = named.iter().map(|run| format!("{} ({})", run.letter, run.folder));
        return Err(CompareError::AllFailed(names.collect()));
    }
    for (index, side) in sides.iter().enumerate().skip(1) {
        let calibrations = [calibrations[0], calibrations[index]];
        pair(&mut comparison, &sides[0], side, index, calibrations, threshold);
    }
    if comparison.rows.is_empty() {
        return Err(CompareError::NothingInCommon(groups_of_each(
            &comparison.runs,
            sides,
        )));
    }
    correct(&mut comparison.rows);
    Ok(comparison)
}

impl GroupValues {
    fn of(group: &Group) -> GroupValues {
        let mut sides = Vec::new();
        let report = workloads::named(&group.workload);
        let timed = report.is_some_and(|report| report.timed_phases.is_some()) || group.metrics.is_empty();
        for phase in group.phases.iter().filter(|_| timed) {
            sides.push((format!("{}.seconds", phase.name), side(&phase.seconds)));
            if let Some(speed) = &phase.gb_per_s {
                sides.push((format!("{}.gb_per_s", phase.name), side(speed)));
            }
        }
        let metrics = group
            .metrics
            .iter()
            .filter(|(name, _)| !(timed && is_speed_of_phase(name)));
        sides.extend(metrics.map(|(name, measured)| (name.to_owned(), side(measured))));
        GroupValues {
            group: group.identity().to_owned(),
            label: group.label.clone(),
            note: match group.failed {
                0 => String::new(),
                failed => format!("{failed} of {} failed", counted(group.trials.len(), "trial")),
            },
            sides,
        }
    }

    /// The sides by metric, the first of each.
    fn by_metric(&self) -> HashMap<&str, &Side> {
        let mut found = HashMap::new();
        for (metric, side) in &self.sides {
            found.entry(metric.as_str()).or_insert(side);
        }
        found
    }
}

fn side(measured: &Measured) -> Side {
    Side {
        median: measured.summary.median,
        values: measured.values(),
        untrustworthy: measured.untrustworthy(),
    }
}

fn run(index: usize, input: &Input<'_>) -> Run {
    let trials = &input.results.trials;
    let count = |status| trials.iter().filter(|trial| trial.status == status).count();
    Run {
        letter: letter(index),
        name: input.results.run.clone(),
        folder: input.recording.folder.display().to_string(),
        scenario: input.results.scenario.clone(),
        started: input.recording.manifest.started.clone(),
        status: (!trials.is_empty()).then_some(input.results.status),
        trials: trials.len(),
        failed: count(TrialStatus::Failed),
        untrustworthy: count(TrialStatus::Untrustworthy),
    }
}

fn groups_of_each(runs: &[Run], sides: &[Vec<GroupValues>]) -> Vec<String> {
    const NAMED: usize = 5;
    let has = |(run, groups): (&Run, &Vec<GroupValues>)| {
        let mut names: Vec<&str> = groups.iter().map(|group| group.group.as_str()).collect();
        let more = names.len().saturating_sub(NAMED);
        names.truncate(NAMED);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        format!("{} ({}) has {}{more}", run.letter, run.name, names.join(", "))
    };
    runs.iter().zip(sides).map(has).collect()
}

fn pair(
    comparison: &mut Comparison,
    baseline: &[GroupValues],
    other: &[GroupValues],
    index: usize,
    calibrations: [Option<Calibration>; 2],
    threshold: f64,
) {
    let [of_baseline, of_other] = [baseline, other].map(by_group);
    let mut lone = |group: &GroupValues, metric: Option<&str>, present, absent, reason: &str| {
        comparison.lone.push(Lone {
            group: group.group.clone(),
            metric: metric.map(str::to_owned),
            present,
            absent,
            reason: reason.to_owned(),
        });
    };
    for group in baseline {
        let Some(&theirs) = of_other.get(group.group.as_str()) else {
            lone(group, None, 0, index, "");
            continue;
        };
        let [own_sides, their_sides] = [group, theirs].map(GroupValues::by_metric);
        for (metric, side) in &group.sides {
            match their_sides.get(metric.as_str()) {
                None => lone(group, Some(metric), 0, index, &theirs.note),
                Some(other) => {
                    let basis = comparison.basis;
                    let mut row = row(
                        &group.group,
                        metric,
                        [side, other],
                        calibrations,
                        (basis, threshold),
                    );
                    row.run = index;
                    comparison.rows.push(row);
                }
            }
        }
        for (metric, _) in &theirs.sides {
            if !own_sides.contains_key(metric.as_str()) {
                lone(group, Some(metric), index, 0, &group.note);
            }
        }
        let failed = (!theirs.note.is_empty()).then_some(index);
        match comparison.places.entry(group.group.clone()) {
            Entry::Occupied(place) => comparison.subjects[*place.get()].failed.extend(failed),
            Entry::Vacant(place) => {
                place.insert(comparison.subjects.len());
                comparison.subjects.push(Subject {
                    group: group.group.clone(),
                    label: group.label.clone(),
                    failed: (!group.note.is_empty())
                        .then_some(0)
                        .into_iter()
                        .chain(failed)
                        .collect(),
                });
            }
        }
    }
    for group in other
        .iter()
        .filter(|group| !of_baseline.contains_key(group.group.as_str()))
    {
        lone(group, None, index, 0, "");
    }
}

/// The values by group, the first of each.
fn by_group(list: &[GroupValues]) -> HashMap<&str, &GroupValues> {
    let mut found = HashMap::new();
    for values in list {
        found.entry(values.group.as_str()).or_insert(values);
    }
    found
}

fn row(
    group: &str,
    metric: &str,
    [baseline, other]: [&Side; 2],
    calibrations: [Option<Calibration>; 2],
    (basis, threshold): (Basis, f64),
) -> Row {
    let nature = nature(metric);
    let seed = xxh3_64(format!("{group}/{metric}").as_bytes());
    let ratio = median_ratio(&baseline.values, &other.values, seed);
    let change = match ratio {
        Some(ratio) => Some(ratio.ratio - 1.0),
        None => (baseline.median == other.median).then_some(0.0),
    };
    let interval = ratio
        .and_then(|ratio| ratio.interval)
        .map(|(low, high)| (low - 1.0, high - 1.0));
    let restates = restated(metric);
    let alone = baseline.values.len() < 2 || other.values.len() < 2;
    let p = (restates.is_none() && !alone)
        .then(|| mann_whitney(&baseline.values, &other.values))
        .flatten();
    let (verdict, remark) = judge(
        nature.direction,
        [baseline, other],
        change,
        interval,
        (basis, threshold),
    );
    Row {
        run: 0,
        group: group.to_owned(),
        metric: metric.to_owned(),
        unit: nature.unit,
        direction: nature.direction,
        restates,
        normalised: normalised(metric, nature.direction, change, interval, calibrations),
        baseline: baseline.clone(),
        other: other.clone(),
        change,
        interval,
        p,
        p_holm: None,
        verdict,
        remark,
    }
}

/// The verdict, with the reason if it is unclear.
fn judge(
    direction: Direction,
    [baseline, other]: [&Side; 2],
    change: Option<f64>,
    interval: Option<(f64, f64)>,
    (basis, threshold): (Basis, f64),
) -> (Verdict, String) {
    let noun = match basis {
        Basis::Hosts => "host",
        Basis::Trials | Basis::Timelines => "repeat",
    };
    let (n, m) = (baseline.values.len(), other.values.len());
    let unclear = |remark: String| (Verdict::Unclear, remark);
    if baseline.untrustworthy || other.untrustworthy {
        let which = match (baseline.untrustworthy, other.untrustworthy) {
            (true, true) => "both runs",
            (true, false) => "the baseline",
            _ => "the run",
        };
        return unclear(format!("untrustworthy in all trials of {which}: no verdict"));
    }
    if n == 1 && m == 1 {
        return unclear(format!("one {noun} each: no verdict"));
    }
    if !can_tell(n, m) {
        return unclear(format!("{n} and {m} {noun}s are too few for a verdict"));
    }
    let all_equal = |side: &Side| side.values.iter().all(|value| *value == side.median);
    if change == Some(0.0) && all_equal(baseline) && all_equal(other) {
        return (Verdict::Same, String::new());
    }
    let (Some(change), Some((low, high))) = (change, interval) else {
        return unclear("some values are 0 or less: no ratio".to_owned());
    };
    let excludes_zero = low > 0.0 || high < 0.0;
    if excludes_zero && change.abs() > threshold {
        let verdict = match direction {
            Direction::Neither => Verdict::Changed,
            Direction::Less if change < 0.0 => Verdict::Better,
            Direction::More if change > 0.0 => Verdict::Better,
            Direction::Less | Direction::More => Verdict::Worse,
        };
        return (verdict, String::new());
    }
    if low >= -threshold && high <= threshold {
        return (Verdict::Same, String::new());
    }
    unclear(match excludes_zero {
        true => "significant, but within the threshold".to_owned(),
        false => "the interval contains both 0 and more than the threshold".to_owned(),
    })
}

/// The change with both sides set against the calibration of their own run: a time is multiplied with the speed that it
/// is set against, a speed divided by it.
fn normalised(
    metric: &str,
    direction: Direction,
    change: Option<f64>,
    interval: Option<(f64, f64)>,
    [baseline, other]: [Option<Calibration>; 2],
) -> Option<Normalised> {
    let (by, base) = calibration_of(metric, &baseline?)?;
    let (_, own) = calibration_of(metric, &other?)?;
    let factor = match direction {
        Direction::Less => own / base,
        Direction::More | Direction::Neither => base / own,
    };
    if !(factor.is_finite() && factor > 0.0) {
        return None;
    }
    let scale = |change: f64| (1.0 + change) * factor - 1.0;
    Some(Normalised {
        by,
        change: scale(change?),
        interval: interval.map(|(low, high)| (scale(low), scale(high))),
    })
}

/// Corrects the p values of all rows for their number.
fn correct(rows: &mut [Row]) {
    let tested: Vec<(usize, f64)> = rows
        .iter()
        .enumerate()
        .filter_map(|(index, row)| Some((index, row.p?)))
        .collect();
    let raw: Vec<f64> = tested.iter().map(|(_, p)| *p).collect();
    for ((index, _), corrected) in tested.iter().zip(holm(&raw)) {
        rows[*index].p_holm = Some(corrected);
    }
}
