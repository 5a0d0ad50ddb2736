//! Every value of every trial as CSV in long format: one value per line, for spreadsheets and data frames.
//!
//! Columns: `run, trial, workload, subject`, a column for each parameter of any trial, `repeat, status, verified, phase,
//! metric, value`. `phase` is empty for a metric of the whole trial. A value of a phase keeps its field's name or, where
//! the kind of work measured it, its own; the bytes by category before and after a phase are `before_<category>_bytes`
//! and `after_<category>_bytes`, the share of CPU time of a function of the kernel is `profile[<function>]`. Values of
//! which there is one for each of several things are `<name>[1]`, `<name>[2]`, ... Histograms of latencies are left out.
//! `status` is that of the value: a confounder spoils some metrics of a trial and spares others.
//!
//! Of `plimsoll hold`, the values of the level have no trial and the workload `hold`, and their status is that of the recording.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::workloads;
use plimsoll_model::recording::hold::{HOLD_SCENARIO, HeldLevel, HoldGoal};
use plimsoll_model::recording::model::{Phase, Results, Trial, TrialStatus};

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
        let mut line = |status: TrialStatus, phase: &str, metric: &str, value: &str| {
            let status = match status {
                TrialStatus::Ok => "ok",
                TrialStatus::Failed => "failed",
                TrialStatus::Untrustworthy => "untrustworthy",
            };
            let (phase, metric) = (field(phase), field(metric));
            let _ = writeln!(
                text,
                "{start},{status},{},{phase},{metric},{value}",
                trial.verified
            );
        };
        for phase in &trial.phases {
            for (metric, value) in phase_values(phase) {
                line(
                    status_in_phase(trial, &phase.name, &metric),
                    &phase.name,
                    &metric,
                    &value,
                );
            }
        }
        for (metric, value) in &trial.metrics {
            line(trial.status_of(metric), "", metric, &value.to_string());
        }
        for (list, values) in &trial.lists {
            for (index, value) in values.iter().enumerate() {
                let name = format!("{list}[{}]", index + 1);
                line(status_in_phase(trial, "", list), "", &name, &value.to_string());
            }
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

/// The status of a value of a phase: that of the trial if no confounder is known to spoil or to spare it.
fn status_in_phase(trial: &Trial, phase: &str, metric: &str) -> TrialStatus {
    let of_phase = format!("{phase}.{metric}");
    let named = [metric, of_phase.as_str()];
    let known = named.into_iter().find(|name| workloads::spoilers(name).is_some());
    let (Some(name), false) = (known, trial.untrustworthy.is_empty()) else {
        return trial.status;
    };
    let mut spoilers = trial.untrustworthy.values().flatten();
    match spoilers.any(|confounder| workloads::can_spoil(confounder, name)) {
        _ if trial.status == TrialStatus::Failed => TrialStatus::Failed,
        true => TrialStatus::Untrustworthy,
        false => TrialStatus::Ok,
    }
}

fn phase_values(phase: &Phase) -> Vec<(String, String)> {
    let mut values: Vec<(String, String)> = [
        ("seconds", phase.seconds.to_string()),
        ("bytes", phase.bytes.to_string()),
        ("gb_per_s", phase.gb_per_s.to_string()),
        ("cpu_user_s", phase.cpu_user_s.to_string()),
        ("cpu_system_s", phase.cpu_system_s.to_string()),
        ("cpu_kernel_threads_s", phase.cpu_kernel_threads_s.to_string()),
        ("minor_faults", phase.minor_faults.to_string()),
        ("major_faults", phase.major_faults.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let measured = phase.values.iter();
    values.extend(measured.map(|(name, value)| (name.clone(), value.to_string())));
    let profile = phase.profile.iter();
    values.extend(profile.map(|(function, share)| (format!("profile[{function}]"), share.to_string())));
    for (when, categories) in [("before", &phase.before), ("after", &phase.after)] {
        let bytes = categories
            .iter()
            .map(|(name, bytes)| (format!("{when}_{name}_bytes"), bytes.to_string()));
        values.extend(bytes);
    }
    values
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
