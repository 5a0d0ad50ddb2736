//! The verdict on a run in a sentence, the same wherever it is shown.

use super::watched;
use crate::analysis::Group;
use crate::analysis::compression::{COMPRESSION, RESTORE_SPEED, STORED, TRIM_SPEED};
use crate::quantity::{bytes, significant};
use crate::recording::Recording;
use crate::recording::model::{Results, RunStatus, Trial, TrialStatus};

/// Groups that are named one by one; more than these are given as a range.
const NAMED_GROUPS: usize = 3;

/// The verdict on a recording: of a run what it showed, of a watch what was seen.
pub fn of(recording: &Recording, results: &Results, groups: &[Group]) -> String {
    match recording.manifest.is_watch() {
        true => watched::sentence(recording, results),
        false => sentence(results, groups),
    }
}

/// What the run showed, and whether it can be believed, in one or two sentences.
pub fn sentence(results: &Results, groups: &[Group]) -> String {
    let judgement = judgement(results);
    match findings(groups) {
        Some(findings)
            if results
                .trials
                .iter()
                .any(|trial| trial.status != TrialStatus::Failed) =>
        {
            format!("{judgement} {findings}")
        }
        _ => judgement,
    }
}

/// Whether the run can be believed.
fn judgement(results: &Results) -> String {
    let all = results.trials.len();
    let with = |status| results.trials.iter().filter(move |trial| trial.status == status);
    let failed = with(TrialStatus::Failed).count();
    let doubtful = with(TrialStatus::Untrustworthy).count();
    if all == 0 {
        return match results.status {
            RunStatus::Interrupted => "The run was cut short before a trial ended.".to_owned(),
            _ => "No trial ended: there is nothing to judge.".to_owned(),
        };
    }
    let prefix = match results.status {
        RunStatus::Interrupted => format!("The run was cut short after {}. ", trials(all)),
        RunStatus::Incomplete => "A capability was missing, so the run is incomplete. ".to_owned(),
        _ => String::new(),
    };
    let body = if failed > 0 {
        let first = with(TrialStatus::Failed).next().map(reason).unwrap_or_default();
        format!("{failed} of {} failed: {first}.", trials(all))
    } else if doubtful > 0 {
        let first = with(TrialStatus::Untrustworthy)
            .next()
            .map(reason)
            .unwrap_or_default();
        let what = if doubtful == all {
            format!("{} ended, none to be trusted", trials(all))
        } else {
            format!("None of {} failed, but {doubtful} cannot be trusted", trials(all))
        };
        format!("{what}: {first}.")
    } else if results.trials.iter().all(|trial| trial.verified) {
        let whole = if all == 1 {
            "The trial".to_owned()
        } else {
            format!("All {}", trials(all))
        };
        format!("{whole} did what was asked, and every byte came back right.")
    } else {
        let unverified = results.trials.iter().filter(|trial| !trial.verified).count();
        format!(
            "{} ended without failure; {unverified} could not be verified.",
            trials(all)
        )
    };
    prefix + &body
}

/// What the numbers of the groups say.
fn findings(groups: &[Group]) -> Option<String> {
    let speed = |verb: &str, metric: &str| {
        let values: Vec<f64> = groups.iter().filter_map(|group| median(group, metric)).collect();
        range(&values).map(|range| format!("{verb} ran at {range} GB/s"))
    };
    let mut clauses = Vec::new();
    clauses.extend(shrinkage(groups));
    clauses.extend(speed("trim", TRIM_SPEED));
    clauses.extend(speed("restore", RESTORE_SPEED));
    if clauses.is_empty() {
        return None;
    }
    Some(format!("Measured: {}.", clauses.join("; ")))
}

/// How far each kind of data shrank, or the range where there are too many to name.
fn shrinkage(groups: &[Group]) -> Option<String> {
    let stored: Vec<(&Group, String)> = groups
        .iter()
        .filter_map(|group| Some((group, size_of_stored(group)?)))
        .collect();
    let (first, _) = stored.first()?;
    let one_subject = stored.iter().all(|(group, _)| group.subject == first.subject);
    if stored.len() > NAMED_GROUPS {
        let ratios: Vec<f64> = groups
            .iter()
            .filter_map(|group| median(group, COMPRESSION))
            .collect();
        return Some(format!(
            "stored data shrank {} times in {} groups",
            range(&ratios)?,
            ratios.len()
        ));
    }
    let named: Vec<String> = stored
        .iter()
        .map(|(group, size)| {
            let class = group.params.get("class").filter(|_| one_subject);
            format!("{} {size}", class.unwrap_or(&group.label))
        })
        .collect();
    let who = if one_subject {
        format!("{} stored ", first.subject)
    } else {
        "stored ".to_owned()
    };
    Some(who + &named.join(", "))
}

/// The ratio or, where nothing was left to compress, the bytes.
fn size_of_stored(group: &Group) -> Option<String> {
    let ratio = median(group, COMPRESSION).map(|ratio| format!("{}:1", significant(ratio)));
    ratio.or_else(|| Some(format!("in {}", bytes(median(group, STORED)?))))
}

fn median(group: &Group, metric: &str) -> Option<f64> {
    Some(group.metrics.get(metric)?.summary.median)
}

/// `low to high`, or the one value where both look the same.
fn range(values: &[f64]) -> Option<String> {
    let low = values.iter().copied().reduce(f64::min)?;
    let high = values.iter().copied().reduce(f64::max)?;
    let (low, high) = (significant(low), significant(high));
    Some(if low == high {
        low
    } else {
        format!("{low} to {high}")
    })
}

fn reason(trial: &Trial) -> String {
    let why = trial
        .reasons
        .first()
        .map_or("no reason was recorded", String::as_str);
    format!("{} ({})", trial.id, why.trim_end_matches('.'))
}

fn trials(number: usize) -> String {
    if number == 1 {
        "1 trial".to_owned()
    } else {
        format!("{number} trials")
    }
}
