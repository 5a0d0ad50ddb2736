//! Every value of a trial in long form: one value at a time, with its unit and its status.
//!
//! A value of a phase keeps its field's name or, where the kind of work measured it, its own; the bytes by category before and
//! after a phase are `before_<category>_bytes` and `after_<category>_bytes`, the share of CPU time of a function of the kernel is
//! `profile[<function>]`. Values of which there is one for each of several things are `<name>[1]`, `<name>[2]`, ... Histograms of
//! latencies are left out.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::analysis::MetricUnit;
use crate::workloads;
use plimsoll_model::recording::model::{Phase, Trial, TrialStatus};

/// A value of a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct LongValue<'a> {
    /// Empty for a metric of the whole trial.
    pub phase: &'a str,
    pub name: Cow<'a, str>,
    pub unit: MetricUnit,
    pub value: f64,
    pub status: TrialStatus,
}

/// The values of a trial: those of its phases, then its metrics, then its lists.
pub fn values(trial: &Trial) -> impl Iterator<Item = LongValue<'_>> {
    let phases = trial.phases.iter().flat_map(move |phase| {
        phase_values(phase)
            .into_iter()
            .map(move |(name, value)| LongValue {
                phase: &phase.name,
                unit: unit_in_phase(&name),
                status: status_in_phase(trial, &phase.name, &name),
                name,
                value,
            })
    });
    let metrics = trial.metrics.iter().map(|(name, value)| LongValue {
        phase: "",
        name: Cow::Borrowed(name),
        unit: MetricUnit::of_name(name),
        value: *value,
        status: trial.status_of(name),
    });
    let lists = trial.lists.iter().flat_map(|(list, values)| {
        let status = status_in_phase(trial, "", list);
        values.iter().enumerate().map(move |(index, value)| LongValue {
            phase: "",
            name: Cow::Owned(format!("{list}[{}]", index + 1)),
            unit: MetricUnit::of_name(list),
            value: *value,
            status,
        })
    });
    phases.chain(metrics).chain(lists)
}

/// The confounders that spoil a value of an untrustworthy status.
pub fn spoilers<'a>(trial: &'a Trial, value: &LongValue<'_>) -> BTreeSet<&'a str> {
    let of_phase = format!("{}.{}", value.phase, value.name);
    let named = [value.name.as_ref(), of_phase.as_str()];
    let named = named.into_iter().find_map(|name| trial.untrustworthy.get(name));
    let can_spoil = |confounder: &&String| workloads::can_spoil(confounder, &value.name);
    match named {
        Some(confounders) => confounders.iter().map(String::as_str).collect(),
        None => {
            let all = trial.untrustworthy.values().flatten();
            all.filter(can_spoil).map(String::as_str).collect()
        }
    }
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

/// The unit of a field of a phase, of which some have no unit in their name.
fn unit_in_phase(name: &str) -> MetricUnit {
    match name {
        "seconds" => MetricUnit::Seconds,
        _ if name.starts_with("profile[") => MetricUnit::Percent,
        _ => MetricUnit::of_name(name),
    }
}

fn phase_values(phase: &Phase) -> Vec<(Cow<'_, str>, f64)> {
    let mut values: Vec<(Cow<'_, str>, f64)> = [
        ("seconds", phase.seconds),
        ("bytes", phase.bytes as f64),
        ("gb_per_s", phase.gb_per_s),
        ("cpu_user_s", phase.cpu_user_s),
        ("cpu_system_s", phase.cpu_system_s),
        ("cpu_kernel_threads_s", phase.cpu_kernel_threads_s),
        ("minor_faults", phase.minor_faults as f64),
        ("major_faults", phase.major_faults as f64),
    ]
    .map(|(name, value)| (Cow::Borrowed(name), value))
    .into();
    let measured = phase.values.iter();
    values.extend(measured.map(|(name, value)| (Cow::Borrowed(name.as_str()), *value)));
    let profile = phase.profile.iter();
    values.extend(profile.map(|(function, share)| (format!("profile[{function}]").into(), *share)));
    for (when, categories) in [("before", &phase.before), ("after", &phase.after)] {
        let bytes = categories
            .iter()
            .map(|(name, bytes)| (format!("{when}_{name}_bytes").into(), bytes as f64));
        values.extend(bytes);
    }
    values
}
