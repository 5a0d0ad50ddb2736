//! The verdict on a run in a sentence, the same wherever it is shown.

use std::collections::BTreeSet;

use super::distrust::listed;
use super::{headlines, watched};
use crate::analysis::Group;
use plimsoll_model::recording::Recording;
use plimsoll_model::recording::model::{Results, RunStatus, Trial, TrialStatus};
use plimsoll_model::scenario::WorkloadKind;

/// The verdict on a recording of a run or of `plimsoll watch`.
pub fn of(recording: &Recording, results: &Results, groups: &[Group]) -> String {
    match recording.manifest.is_watch() {
        true => watched::sentence(recording, results),
        false => sentence(results, groups),
    }
}

/// Whether the run is trustworthy, and its results: one or two sentences or, with several workloads, a line each.
pub fn sentence(results: &Results, groups: &[Group]) -> String {
    let judgement = judgement(results);
    match headlines::of(groups, &results.trials) {
        Some(headlines)
            if results
                .trials
                .iter()
                .any(|trial| trial.status != TrialStatus::Failed) =>
        {
            let between = if headlines.contains('\n') { '\n' } else { ' ' };
            format!("{judgement}{between}{headlines}")
        }
        _ => judgement,
    }
}

fn judgement(results: &Results) -> String {
    let all = results.trials.len();
    let with = |status| results.trials.iter().filter(move |trial| trial.status == status);
    let failed = with(TrialStatus::Failed).count();
    let doubtful = with(TrialStatus::Untrustworthy).count();
    if all == 0 {
        return match results.status {
            RunStatus::Interrupted => "The run was interrupted before a trial ended.".to_owned(),
            _ => "No trial ended: the run has no result.".to_owned(),
        };
    }
    let prefix = match results.status {
        RunStatus::Interrupted => format!("The run was interrupted after {}. ", trials(all)),
        RunStatus::Incomplete => "The run is incomplete: a capability was missing. ".to_owned(),
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
        let outcome = if doubtful == all {
            format!("{} ended, all untrustworthy", trials(all))
        } else {
            format!("None of {} failed, but {doubtful} are untrustworthy", trials(all))
        };
        format!("{outcome}: {first}.")
    } else if results.trials.iter().all(|trial| trial.verified) {
        let whole = if all == 1 {
            "The trial".to_owned()
        } else {
            format!("All {}", trials(all))
        };
        let compression = |trial: &Trial| trial.workload == WorkloadKind::Compression.name();
        let checked = match results.trials.iter().all(compression) {
            true => "every byte was verified",
            false => "data and counts were verified",
        };
        format!("{whole} completed, and {checked}.{}", spoiled_metrics(results))
    } else {
        let unverified = results.trials.iter().filter(|trial| !trial.verified).count();
        format!(
            "{} completed without failure; {unverified} could not be verified.{}",
            trials(all),
            spoiled_metrics(results)
        )
    };
    prefix + &body
}

/// A sentence about the untrustworthy metrics of trials that are ok; empty without any.
fn spoiled_metrics(results: &Results) -> String {
    let spoiled = results
        .trials
        .iter()
        .filter(|trial| !trial.untrustworthy.is_empty());
    let number = spoiled.clone().count();
    let by: BTreeSet<&str> = spoiled
        .clone()
        .flat_map(|trial| trial.untrustworthy.values().flatten())
        .map(String::as_str)
        .collect();
    let names = spoiled.flat_map(|trial| trial.untrustworthy.keys().map(String::as_str));
    match listed(names) {
        Some(metrics) => format!(
            " Not trustworthy in {}: {metrics} ({}).",
            trials(number),
            by.into_iter().collect::<Vec<_>>().join(", ")
        ),
        None => String::new(),
    }
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
