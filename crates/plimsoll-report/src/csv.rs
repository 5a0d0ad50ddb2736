//! Every value of every trial as CSV in long format: one value per line, for spreadsheets and data frames.
//!
//! Columns: `run, trial, workload, subject`, a column for each parameter of any trial, `repeat, status, verified, phase,
//! metric, value`. `phase` is empty for a metric of the whole trial. [`long_form`] names the values. `status` is that of the
//! value: a confounder spoils some metrics of a trial and spares others.
//!
//! Of `plimsoll hold`, the values of the level have no trial and the workload `hold`, and their status is that of the recording.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::long_form;
use plimsoll_model::recording::hold::{HOLD_SCENARIO, HeldLevel, HoldGoal};
use plimsoll_model::recording::model::{Results, Trial, TrialStatus};

/// The trials' values as CSV (RFC 4180, lines ended by LF), a header first.
pub fn csv(results: &Results) -> String {
    let params: BTreeSet<&String> = results
        .trials
        .iter()
        .flat_map(|trial| trial.params.keys())
        .collect();
    // The subject has a column of its own.
    let params: Vec<&String> = params.into_iter().filter(|name| *name != "subject").collect();
    let mut text = String::from("run,trial,workload,subject,");
    for name in &params {
        text.push_str(&field(name));
        text.push(',');
    }
    text.push_str("repeat,status,verified,phase,metric,value\n");
    for trial in &results.trials {
        let start = line_start(&results.run, trial, &params);
        for value in long_form::values(trial) {
            let status = match value.status {
                TrialStatus::Ok => "ok",
                TrialStatus::Failed => "failed",
                TrialStatus::Untrustworthy => "untrustworthy",
            };
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{start},{status},{},{},{},{}",
                trial.verified,
                field(value.phase),
                field(&value.name),
                value.value
            );
        }
    }
    if let Some(level) = &results.hold {
        push_held(&mut text, results, level);
    }
    text
}

fn push_held(text: &mut String, results: &Results, level: &HeldLevel) {
    let status = serde_json::to_value(results.status).unwrap_or_default();
    let status = status.as_str().unwrap_or_default();
    for (metric, value) in held_values(level) {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{},,{HOLD_SCENARIO},,1,{status},,,{metric},{value}",
            field(&results.run)
        );
    }
}

fn held_values(level: &HeldLevel) -> Vec<(String, f64)> {
    let goal = match level.settings.goal {
        HoldGoal::AvailableBytes(bytes) => ("goal_available_bytes", bytes as f64),
        HoldGoal::HeldBytes(bytes) => ("goal_held_bytes", bytes as f64),
        HoldGoal::SomePercent(percent) => ("goal_some_percent", percent),
        HoldGoal::FullPercent(percent) => ("goal_full_percent", percent),
    };
    let known = [
        ("seconds", Some(level.seconds)),
        ("reached_s", level.reached_s),
        ("within_percent", level.within.map(|share| 100.0 * share)),
        ("cpu_percent", level.cpu_percent),
    ];
    let values = known.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let values = [goal].into_iter().chain(values);
    let mut values: Vec<(String, f64)> = values.map(|(name, value)| (name.to_owned(), value)).collect();
    let mut spread = |name: &str, [least, mean, most]: [f64; 3]| {
        for (part, value) in [("least", least), ("mean", mean), ("most", most)] {
            values.push((format!("{part}_{name}"), value));
        }
    };
    for (name, bytes) in [("held_bytes", level.held_bytes), ("off_bytes", level.off_bytes)] {
        if let Some(bytes) = bytes {
            spread(name, [bytes.least as f64, bytes.mean, bytes.most as f64]);
        }
    }
    if let Some(percent) = level.stalled_percent {
        spread("stalled_percent", [percent.least, percent.mean, percent.most]);
    }
    values
}

fn line_start(run: &str, trial: &Trial, params: &[&String]) -> String {
    let mut start = format!(
        "{},{},{},{},",
        field(run),
        field(&trial.id),
        field(&trial.workload),
        field(&trial.subject)
    );
    for name in params {
        let value = trial.params.get(name.as_str());
        start.push_str(&value.map(|value| field(value)).unwrap_or_default());
        start.push(',');
    }
    // Writing to a String cannot fail.
    let _ = write!(start, "{}", trial.repeat);
    start
}

/// A text field: quoted where it must be, and made harmless where a spreadsheet would run it as a formula.
pub(crate) fn field(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if formula {
        format!("'{text}")
    } else {
        text.to_owned()
    };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}
