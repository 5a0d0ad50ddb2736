//! Whether the metrics of a run can be trusted, in a sentence or two.

use std::collections::BTreeSet;

use plimsoll_model::quantity::counted;
use plimsoll_model::recording::model::{Results, RunStatus, Trial, TrialStatus};
use plimsoll_model::scenario::WorkloadKind;

/// The finding of a run without a trustworthy metric.
pub(super) fn no_result(results: &Results) -> &'static str {
    match results.trials.is_empty() {
        true => "No trial ended: the run has no result.",
        false => "The run has no trustworthy result.",
    }
}

/// The trials that failed, are untrustworthy or could not be verified, with the first reason.
pub(super) fn sentence(results: &Results) -> String {
    let all = results.trials.len();
    let with = |status| results.trials.iter().filter(move |trial| trial.status == status);
    let failed = with(TrialStatus::Failed).count();
    let doubtful = with(TrialStatus::Untrustworthy).count();
    if all == 0 {
        return match results.status {
            RunStatus::Interrupted => "The run was interrupted before a trial ended.".to_owned(),
            _ => String::new(),
        };
    }
    let prefix = match results.status {
        RunStatus::Interrupted => format!("The run was interrupted after {}. ", trials(all)),
        RunStatus::Incomplete => "The run is incomplete: a capability was missing. ".to_owned(),
        _ => String::new(),
    };
    let body = if failed > 0 {
        let first = with(TrialStatus::Failed).next().map(reason).unwrap_or_default();
        format!("{failed} of {} failed ({first}).", trials(all))
    } else if doubtful > 0 {
        let outcome = match (doubtful, all) {
            (1, 1) => "The trial ended, but is untrustworthy".to_owned(),
            (_, _) if doubtful == all => format!("All {} ended, but are untrustworthy", trials(all)),
            (1, _) => format!("None of {} failed, but 1 is untrustworthy", trials(all)),
            _ => format!("None of {} failed, but {doubtful} are untrustworthy", trials(all)),
        };
        format!("{outcome} ({}).", causes(results))
    } else if results.trials.iter().all(|trial| trial.verified) {
        let whole = if all == 1 {
            "The trial".to_owned()
        } else {
            format!("All {}", trials(all))
        };
        let all_are = |kind: WorkloadKind| results.trials.iter().all(|trial| trial.workload == kind.name());
        let checked = match () {
            () if all_are(WorkloadKind::Compression) => "every byte was verified",
            // Only the program knows its data.
            () if all_are(WorkloadKind::Command) => "exit codes were verified",
            () => "data and counts were verified",
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

/// A sentence about the untrustworthy metrics of trials that are ok; empty without any. The notes list the metrics.
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
    match number {
        0 => String::new(),
        _ => format!(
            " Some metrics of {} are not trustworthy ({}).",
            trials(number),
            by.into_iter().collect::<Vec<_>>().join(", ")
        ),
    }
}

/// The confounders that made trials untrustworthy; the notes have the evidence. Without any, the first reason.
fn causes(results: &Results) -> String {
    let doubtful = || {
        let trials = results.trials.iter();
        trials.filter(|trial| trial.status == TrialStatus::Untrustworthy)
    };
    let spoils =
        |name: &&str| doubtful().any(|trial| trial.reasons.iter().any(|reason| reason.starts_with(*name)));
    let names = results
        .confounders
        .iter()
        .map(|confounder| confounder.name.as_str());
    let names: Vec<&str> = names.filter(spoils).collect();
    match names.is_empty() {
        true => doubtful().next().map(reason).unwrap_or_default(),
        false => names.join(", "),
    }
}

fn reason(trial: &Trial) -> String {
    let why = trial
        .reasons
        .first()
        .map_or("no reason was recorded", String::as_str);
    format!("{}: {}", trial.id, why.trim_end_matches('.'))
}

fn trials(number: usize) -> String {
    counted(number, "trial")
}
