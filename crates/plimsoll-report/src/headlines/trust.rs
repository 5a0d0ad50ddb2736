//! Whether trials of a run failed, are untrustworthy or could not be verified, in a sentence or two.

use std::collections::BTreeSet;

use crate::workloads;
use crate::workloads::verification::{DATA_AND_COUNTS, Verification};
use plimsoll_model::quantity::counted;
use plimsoll_model::recording::model::{Results, RunStatus, Trial, TrialStatus};
use plimsoll_model::recording::{Statement, StatementCode};

/// The finding of a run without a trustworthy metric.
pub(super) fn no_result(results: &Results) -> Statement {
    match results.trials.is_empty() {
        true => Statement::new(
            StatementCode::RunWithoutTrials,
            "No trial ended: the run has no result.",
        ),
        false => Statement::new(
            StatementCode::RunWithoutResult,
            "The run has no trustworthy result.",
        ),
    }
}

/// The trials that failed, are untrustworthy or could not be verified, with the first reason.
pub(super) fn statements(results: &Results) -> Vec<Statement> {
    let all = results.trials.len();
    if all == 0 {
        let text = "The run was interrupted before a trial ended.";
        return match results.status {
            RunStatus::Interrupted => vec![Statement::new(StatementCode::TrustNoTrial, text)],
            _ => Vec::new(),
        };
    }
    let with = |status: TrialStatus| -> Vec<&Trial> {
        let trials = results.trials.iter();
        trials.filter(|trial| trial.status == status).collect()
    };
    let (failed, doubtful) = (with(TrialStatus::Failed), with(TrialStatus::Untrustworthy));
    let mut statements: Vec<Statement> = early_end(results).into_iter().collect();
    if let Some(first) = failed.first() {
        statements.push(failures(failed.len(), all, first));
    } else if !doubtful.is_empty() {
        statements.push(untrustworthy(&doubtful, results));
    } else {
        statements.push(verification(results));
        statements.extend(spoiled_metrics(results));
    }
    statements
}

/// The end of a run before its last trial.
fn early_end(results: &Results) -> Option<Statement> {
    let all = results.trials.len();
    match results.status {
        RunStatus::Interrupted => Some(counting(
            StatementCode::TrustInterrupted,
            format!("The run was interrupted after {}.", trials(all)),
            &[("trials", all)],
        )),
        RunStatus::Incomplete => Some(Statement::new(
            StatementCode::TrustIncomplete,
            "The run is incomplete: a capability was missing.",
        )),
        _ => None,
    }
}

fn failures(failed: usize, all: usize, first: &Trial) -> Statement {
    let text = format!("{failed} of {} failed ({}).", trials(all), reason(first));
    let numbers = [("failed_trials", failed), ("trials", all)];
    counting(StatementCode::TrustFailed, text, &numbers).naming("trial", &first.id)
}

fn untrustworthy(doubtful: &[&Trial], results: &Results) -> Statement {
    let (number, all) = (doubtful.len(), results.trials.len());
    let outcome = match (number, all) {
        (1, 1) => "The trial ended, but is untrustworthy".to_owned(),
        (_, _) if number == all => format!("All {} ended, but are untrustworthy", trials(all)),
        (1, _) => format!("None of {} failed, but 1 is untrustworthy", trials(all)),
        _ => format!("None of {} failed, but {number} are untrustworthy", trials(all)),
    };
    let confounders = spoiling(doubtful, results);
    // The notes have the evidence of the confounders.
    let causes = match confounders.is_empty() {
        true => doubtful.first().map(|trial| reason(trial)).unwrap_or_default(),
        false => confounders.clone(),
    };
    let statement = counting(
        StatementCode::TrustUntrustworthy,
        format!("{outcome} ({causes})."),
        &[("untrustworthy_trials", number), ("trials", all)],
    );
    match confounders.is_empty() {
        true => statement,
        false => statement.naming("confounders", confounders),
    }
}

/// The verification of a run whose trials are all ok.
fn verification(results: &Results) -> Statement {
    let all = results.trials.len();
    let unverified = results.trials.iter().filter(|trial| !trial.verified).count();
    if unverified > 0 {
        let text = format!(
            "{} completed without failure; {unverified} could not be verified.",
            trials(all)
        );
        let numbers = [("unverified_trials", unverified), ("trials", all)];
        return counting(StatementCode::TrustUnverified, text, &numbers);
    }
    let whole = if all == 1 {
        "The trial".to_owned()
    } else {
        format!("All {}", trials(all))
    };
    let Verification { code, verified } = common_verification(&results.trials);
    counting(
        *code,
        format!("{whole} completed, and {verified}."),
        &[("trials", all)],
    )
}

/// The verification of all these trials.
fn common_verification(trials: &[Trial]) -> &'static Verification {
    let of_trial = |trial: &Trial| {
        let report = workloads::named(&trial.workload);
        report.map_or(&DATA_AND_COUNTS, |report| report.verification)
    };
    let mut all = trials.iter().map(of_trial);
    let first = all.next();
    first
        .filter(|first| all.all(|other| other == *first))
        .unwrap_or(&DATA_AND_COUNTS)
}

/// The untrustworthy metrics of trials that are ok; `None` without any. The notes list the metrics.
fn spoiled_metrics(results: &Results) -> Option<Statement> {
    let spoiled = results
        .trials
        .iter()
        .filter(|trial| !trial.untrustworthy.is_empty());
    let number = spoiled.clone().count();
    if number == 0 {
        return None;
    }
    let by: BTreeSet<&str> = spoiled
        .flat_map(|trial| trial.untrustworthy.values().flatten())
        .map(String::as_str)
        .collect();
    let by = by.into_iter().collect::<Vec<_>>().join(", ");
    let text = format!("Some metrics of {} are untrustworthy ({by}).", trials(number));
    let statement = counting(StatementCode::TrustMetricsSpoiled, text, &[("trials", number)]);
    Some(statement.naming("confounders", by))
}

/// The confounders that made trials untrustworthy, separated by commas.
fn spoiling(doubtful: &[&Trial], results: &Results) -> String {
    let spoils = |name: &&str| {
        let mut reasons = doubtful.iter().flat_map(|trial| &trial.reasons);
        reasons.any(|reason| reason.starts_with(*name))
    };
    let names = results
        .confounders
        .iter()
        .map(|confounder| confounder.name.as_str());
    names.filter(spoils).collect::<Vec<_>>().join(", ")
}

/// A statement with numbers of trials.
fn counting(code: StatementCode, text: String, numbers: &[(&str, usize)]) -> Statement {
    let with = |statement: Statement, (name, number): &(&str, usize)| statement.with(*name, *number as f64);
    numbers.iter().fold(Statement::new(code, text), with)
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
