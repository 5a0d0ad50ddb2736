//! Everything that `results.json` holds, computed from a recording.

use std::collections::{BTreeSet, HashMap};

use crate::advice;
use crate::analysis::confounders::confounders;
use crate::analysis::{Group, groups, ratio};
use crate::headlines;
use crate::hold;
use crate::service;
use crate::size;
use crate::workloads::{can_spoil, find_metric};
use plimsoll_model::recording::model::{
    Confounder, Event, EventKind, Headline, RESULTS_SCHEMA, Results, RunStatus, SamplerReport, Trial,
    TrialStatus,
};
use plimsoll_model::recording::{Recording, Warning, WarningCode};

/// Computes the results of a recording; also of one that was cut short, whose status then is interrupted.
///
/// Trials keep the metrics they were recorded with; confounders are evaluated anew.
pub fn results(recording: &Recording) -> Results {
    of_trials(recording, recording.trials.clone()).0
}

/// As [`results`], with the trials of the recording, which has none then, and their groups: a recording of many trials is
/// in memory once.
pub fn take_results(recording: &mut Recording) -> (Results, Vec<Group>) {
    let trials = std::mem::take(&mut recording.trials);
    of_trials(recording, trials)
}

/// The results of a recording with these trials of it.
fn of_trials(recording: &Recording, mut trials: Vec<Trial>) -> (Results, Vec<Group>) {
    let manifest = &recording.manifest;
    // A recording without trials: nothing spoils it.
    let confounders = match manifest.observes() {
        true => Vec::new(),
        false => confounders(&recording.samples, manifest, &trials),
    };
    judge_all(&mut trials, &confounders);
    let missing = manifest
        .missing
        .iter()
        .map(|text| Warning::new(WarningCode::CapabilityMissing, text));
    let stopped = stopped(recording).map(|text| Warning::new(WarningCode::Stopped, text));
    let warnings = missing
        .chain(recording.events.iter().filter_map(Event::warning))
        .chain(stopped);
    let hold = hold::level(recording);
    let mut results = Results {
        schema: RESULTS_SCHEMA,
        version: manifest.tool_version.clone(),
        run: manifest.run.clone(),
        scenario: manifest.plan.scenario.clone(),
        status: match &hold {
            Some(level) => RunStatus::of_hold(level),
            None => run_status(recording, &trials),
        },
        calibration: manifest.calibration,
        confounders,
        warnings: warnings.collect(),
        sampler: sampler_report(recording),
        headline: Headline::default(),
        findings: Vec::new(),
        recommendations: Vec::new(),
        withheld: Vec::new(),
        size: None,
        service: service::size(recording),
        hold,
        trials,
    };
    let groups = groups(&results.trials);
    let advice = advice::of(&groups, manifest);
    results.recommendations = advice.recommendations;
    results.withheld = advice.withheld;
    results.size = size::of(&manifest.plan, &groups, &results.trials);
    results.findings = headlines::findings(&groups, &results.trials);
    results.headline = headlines::of(recording, &results, &groups);
    (results, groups)
}

/// Marks the metrics that confounders spoil in a trial. The trial is untrustworthy, with the reason, if a main metric of
/// its workload is one of them, or if it has no main metric. A failed trial stays failed. Judging twice changes nothing.
pub fn judge(trial: &mut Trial, confounders: &[Confounder]) {
    let spoiling = |confounder: &&Confounder| confounder.spoils.contains(&trial.id);
    let spoiling: Vec<&Confounder> = confounders.iter().filter(spoiling).collect();
    spoil(trial, &spoiling);
}

/// As [`judge`], for every trial.
pub(crate) fn judge_all(trials: &mut [Trial], confounders: &[Confounder]) {
    let mut spoiling: HashMap<&str, Vec<&Confounder>> = HashMap::new();
    for confounder in confounders {
        for id in &confounder.spoils {
            spoiling.entry(id).or_default().push(confounder);
        }
    }
    for trial in trials {
        if let Some(confounders) = spoiling.get(trial.id.as_str()) {
            spoil(trial, confounders);
        }
    }
}

fn spoil(trial: &mut Trial, confounders: &[&Confounder]) {
    if trial.status == TrialStatus::Failed {
        return;
    }
    let is_main = |name: &str| find_metric(name).is_some_and(|metric| metric.headline);
    let values = values(trial);
    let any_main = values.iter().any(|name| is_main(name));
    for confounder in confounders {
        let spoiled = values.iter().filter(|name| can_spoil(&confounder.name, name));
        let mut counts = false;
        for name in spoiled {
            counts |= is_main(name) || !any_main;
            let by = trial.untrustworthy.entry(name.clone()).or_default();
            if !by.contains(&confounder.name) {
                by.push(confounder.name.clone());
            }
        }
        if !counts {
            continue;
        }
        let reason = format!("{}: {}", confounder.name, confounder.evidence);
        if !trial.reasons.contains(&reason) {
            trial.reasons.push(reason);
        }
        trial.status = TrialStatus::Untrustworthy;
    }
}

/// The names of a trial's metrics, and of the times and speeds of its phases.
fn values(trial: &Trial) -> Vec<String> {
    let phases = trial.phases.iter().flat_map(|phase| {
        let speed = (phase.gb_per_s > 0.0).then(|| format!("{}.gb_per_s", phase.name));
        std::iter::once(format!("{}.seconds", phase.name)).chain(speed)
    });
    trial.metrics.keys().cloned().chain(phases).collect()
}

/// The verdict on the whole, from its trials as they were judged.
///
/// - Interrupted: the run has not come to its end, or ended before all trials had, with no capability missing.
/// - Failed, incomplete, untrustworthy, ok: the first that is true.
pub fn run_status(recording: &Recording, trials: &[Trial]) -> RunStatus {
    let manifest = &recording.manifest;
    let ended: BTreeSet<&str> = trials.iter().map(|trial| trial.id.as_str()).collect();
    let all_ended = manifest
        .plan
        .trials
        .iter()
        .all(|trial| ended.contains(trial.id.as_str()));
    let any = |status: TrialStatus| trials.iter().any(|trial| trial.status == status);
    if !came_to_its_end(recording)
        || stopped(recording).is_some()
        || (!all_ended && manifest.missing.is_empty())
    {
        RunStatus::Interrupted
    } else if trials
        .iter()
        .any(|trial| failed(trial, !manifest.missing.is_empty()))
    {
        RunStatus::Failed
    } else if !manifest.missing.is_empty() {
        RunStatus::Incomplete
    } else if any(TrialStatus::Untrustworthy) {
        RunStatus::Untrustworthy
    } else {
        RunStatus::Ok
    }
}

/// Whether a trial failed. Where a capability is missing, a phase that did not run for it is no failure of the trial:
/// the run is incomplete.
fn failed(trial: &Trial, missing: bool) -> bool {
    let excused = missing && trial.lacks_only_a_phase();
    trial.status == TrialStatus::Failed && !excused
}

/// The cause of an early end of the run, or of its last part if it was resumed.
fn stopped(recording: &Recording) -> Option<&str> {
    let part_start = recording.manifest.resumed.last().map_or(0, |part| part.t_ns);
    let mut stops = recording
        .events
        .iter()
        .filter(|event| event.kind == EventKind::Stopped);
    stops
        .find(|event| event.t_ns >= part_start)
        .map(|event| event.text.as_str())
}

/// Whether the run, or its last part when it was resumed, wrote its end.
fn came_to_its_end(recording: &Recording) -> bool {
    let part_start = recording.manifest.resumed.last().map_or(0, |part| part.t_ns);
    let mut ends = recording
        .events
        .iter()
        .filter(|event| event.kind == EventKind::RunEnd);
    ends.any(|event| event.t_ns >= part_start)
}

/// Cost and missed ticks of the sampler, from its own columns.
pub fn sampler_report(recording: &Recording) -> SamplerReport {
    let samples = &recording.samples;
    let hz = recording.manifest.sampler.hz;
    let half_period_ns = 500_000_000 / i64::from(hz.max(1));
    let late = samples.column("tick_late_ns").map_or(0, |column| {
        column
            .iter()
            .flatten()
            .filter(|&late| late > half_period_ns)
            .count() as u64
    });
    let cpu_s = total_growth(recording, "sampler_cpu_us") as f64 / 1e6;
    let count = samples.len() as u64;
    let wall_s = match (samples.t_ns().first(), samples.t_ns().last()) {
        (Some(first), Some(last)) => (last - first) as f64 / 1e9,
        _ => 0.0,
    };
    SamplerReport {
        hz,
        samples: count,
        late,
        missed: total_growth(recording, "missed_ticks"),
        // A lost sample leaves no trace in the samples; only the run itself knows.
        dropped: recording
            .results
            .as_ref()
            .map_or(0, |results| results.sampler.dropped),
        cpu_s,
        cpu_percent: ratio(100.0 * cpu_s, wall_s).unwrap_or(0.0),
        us_per_sample: ratio(1e6 * cpu_s, count as f64).unwrap_or(0.0),
    }
}

/// Growth of a counter from nothing over all parts of a run: where it goes back, a new part began from nothing.
fn total_growth(recording: &Recording, name: &str) -> u64 {
    let mut total = 0_u64;
    let mut before = 0;
    let column = recording.samples.column(name);
    for value in column.iter().flat_map(|column| column.iter()).flatten() {
        let growth = if value >= before {
            value.abs_diff(before)
        } else {
            value.unsigned_abs()
        };
        total = total.saturating_add(growth);
        before = value;
    }
    total
}
