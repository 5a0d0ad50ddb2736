//! Differences in the circumstances of the runs, which may explain differences of the results.

use std::collections::BTreeMap;

use super::input::{Input, letter};
use super::model::Difference;
use crate::analysis::ratio;
use crate::distrust::spoiled;
use plimsoll_model::quantity::counted;
use plimsoll_model::recording::is_counter;
use plimsoll_model::recording::model::{Calibration, Host, Manifest, RunStatus, TrialStatus};
use plimsoll_model::scenario::Plan;

/// Share from which two calibrations differ: two on one quiet machine are closer.
const CALIBRATION_NOISE: f64 = 0.10;

/// A name, and how the value is read.
type Field<T, V> = (&'static str, fn(&T) -> V);

/// Differences from the baseline, run by run.
pub(super) fn differences(inputs: &[Input<'_>]) -> Vec<Difference> {
    let mut found = Vec::new();
    for (run, input) in inputs.iter().enumerate().skip(1) {
        let mut list = Diff {
            run,
            found: &mut found,
        };
        let (baseline, other) = (&inputs[0].recording.manifest, &input.recording.manifest);
        machine(&mut list, &baseline.host, &other.host);
        tool(&mut list, baseline, other);
        plan(&mut list, &baseline.plan, &other.plan);
        for (path, was, is) in changed(&baseline.host.settings, &other.host.settings) {
            if !is_counter(path) {
                list.push("settings", path, was, is);
            }
        }
        if let (Some(baseline), Some(other)) = (inputs[0].results.calibration, input.results.calibration) {
            calibration(&mut list, &baseline, &other);
        }
    }
    found
}

/// The differences of one run as they are found.
struct Diff<'a> {
    run: usize,
    found: &'a mut Vec<Difference>,
}

impl Diff<'_> {
    fn push(&mut self, kind: &'static str, name: &str, baseline: String, other: String) {
        if baseline != other {
            self.found.push(Difference {
                run: self.run,
                kind,
                name: name.to_owned(),
                baseline,
                other,
            });
        }
    }
}

fn machine(list: &mut Diff<'_>, baseline: &Host, other: &Host) {
    const FIELDS: &[Field<Host, String>] = &[
        ("host name", |host| host.hostname.clone()),
        ("CPU", |host| host.cpu.clone()),
        ("CPUs online", |host| host.cpus.to_string()),
        ("memory in bytes", |host| host.mem_total.to_string()),
        ("page size", |host| host.page_size.to_string()),
        ("memory cgroup", |host| host.cgroup.clone()),
        ("virtualization", |host| host.virtualization.clone()),
        ("swap before the run", |host| {
            let device = |(name, bytes): &(String, u64)| format!("{name} {bytes}");
            match host.swap_before.is_empty() {
                true => "none".to_owned(),
                false => host.swap_before.iter().map(device).collect::<Vec<_>>().join(", "),
            }
        }),
    ];
    for (name, field) in FIELDS {
        list.push("machine", name, field(baseline), field(other));
    }
    list.push("kernel", "kernel", baseline.kernel.clone(), other.kernel.clone());
}

fn tool(list: &mut Diff<'_>, baseline: &Manifest, other: &Manifest) {
    let (was, is) = (&baseline.tool_version, &other.tool_version);
    list.push("tool", "plimsoll", was.clone(), is.clone());
    let hz = |manifest: &Manifest| manifest.sampler.hz.to_string();
    list.push("sampling", "samples a second", hz(baseline), hz(other));
}

fn plan(list: &mut Diff<'_>, baseline: &Plan, other: &Plan) {
    list.push(
        "plan",
        "scenario",
        baseline.scenario.clone(),
        other.scenario.clone(),
    );
    list.push(
        "plan",
        "quick",
        baseline.quick.to_string(),
        other.quick.to_string(),
    );
    list.push("plan", "seed", baseline.seed.to_string(), other.seed.to_string());
    let order = |plan: &Plan| format!("{:?}", plan.order).to_lowercase();
    list.push("plan", "order", order(baseline), order(other));
    let keys = |plan: &Plan| -> BTreeMap<String, String> {
        let of_section = plan.sections.iter().flat_map(|section| {
            let name = |(key, values): &(String, Vec<String>)| {
                (format!("{}.{key}", section.name), values.join(", "))
            };
            section.keys.iter().map(name)
        });
        of_section.collect()
    };
    for (key, was, is) in changed(&keys(baseline), &keys(other)) {
        list.push("plan", key, was, is);
    }
}

/// Keys whose values are not the same; `-` stands for one that is not there.
fn changed<'a>(
    baseline: &'a BTreeMap<String, String>,
    other: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = (&'a str, String, String)> {
    let only_there = other.keys().filter(|key| !baseline.contains_key(*key));
    baseline.keys().chain(only_there).filter_map(|key| {
        let value = |map: &BTreeMap<String, String>| map.get(key).cloned().unwrap_or_else(|| "-".to_owned());
        let (was, is) = (value(baseline), value(other));
        (was != is).then_some((key.as_str(), was, is))
    })
}

fn calibration(list: &mut Diff<'_>, baseline: &Calibration, other: &Calibration) {
    const METRICS: &[Field<Calibration, f64>] = &[
        ("memset GB/s", |one| one.memset_gb_per_s),
        ("memcpy GB/s", |one| one.memcpy_gb_per_s),
        ("first touch GB/s", |one| one.first_touch_gb_per_s),
        ("read GB/s", |one| one.read_gb_per_s),
        ("fault ns", |one| one.fault_ns),
        ("random access ns", |one| one.random_access_ns),
    ];
    for (name, metric) in METRICS {
        let (was, is) = (metric(baseline), metric(other));
        if ratio(is, was).is_some_and(|ratio| (ratio - 1.0).abs() > CALIBRATION_NOISE) {
            list.push("calibration", name, format!("{was:.2}"), format!("{is:.2}"));
        }
    }
}

/// Doubts about the results of the runs.
pub(super) fn warnings(inputs: &[Input<'_>]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, input) in inputs.iter().enumerate() {
        let name = format!("{} ({})", letter(index), input.results.run);
        let without_trials = input.results.trials.is_empty();
        if without_trials {
            warnings.push(format!(
                "{name} has no trials: the comparison is of whole timelines, one value per metric, without a verdict"
            ));
        }
        let status = match input.results.status {
            RunStatus::Interrupted if !without_trials => Some("was interrupted or still runs"),
            RunStatus::Incomplete => Some("is incomplete: a capability was missing"),
            _ => None,
        };
        warnings
            .extend(status.map(|status| format!("{name} {status}; the comparison uses its finished trials")));
        let failed: Vec<&str> = input
            .results
            .trials
            .iter()
            .filter(|trial| trial.status == TrialStatus::Failed)
            .map(|trial| trial.id.as_str())
            .collect();
        if !failed.is_empty() {
            warnings.push(format!(
                "{name}: {} of {} failed and do not count: {}",
                failed.len(),
                counted(input.results.trials.len(), "trial"),
                listed(&failed)
            ));
        }
        for confounder in input
            .results
            .confounders
            .iter()
            .filter(|one| !one.spoils.is_empty())
        {
            warnings.push(format!(
                "{name}: {} spoils {}: {}",
                confounder.name,
                spoiled(confounder, &input.results.trials),
                confounder.evidence
            ));
        }
    }
    warnings
}

fn listed(names: &[&str]) -> String {
    const NAMED: usize = 4;
    match names.len() {
        few if few <= NAMED => names.join(", "),
        many => format!("{} and {} more", names[..NAMED].join(", "), many - NAMED),
    }
}
