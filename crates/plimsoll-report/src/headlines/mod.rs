//! The head of a report: one sentence of findings, then bullets, then trust. The terminal, HTML, Markdown and
//! `results.json` show the same [`Headline`].
//!
//! - Invariant: a finding has at most 20 words, and each fact stands once. Checked by `headlines_are_brief_and_say_nothing_twice`.
//! - Invariant: no untrustworthy metric stands in a headline. Checked by `no_untrustworthy_metric_stands_in_a_headline`.

mod neighbour;
mod trust;
mod watched;

use std::borrow::Cow;

use crate::analysis::Group;
use crate::hold;
use crate::service;
use crate::workloads;
use crate::workloads::sentence::Told;
use plimsoll_model::recording::Recording;
use plimsoll_model::recording::model::{Finding, Headline, Results, Trial, TrialStatus};
use plimsoll_model::scenario::WorkloadKind;

/// The headline of a recording of a run, of `plimsoll watch`, of `plimsoll size --cgroup` or of `plimsoll hold`.
pub fn of(recording: &Recording, results: &Results, groups: &[Group]) -> Headline {
    if recording.manifest.is_service() {
        return service::headline::headline(recording, results);
    }
    if recording.manifest.is_hold() {
        return hold::headline::headline(recording, results);
    }
    match recording.manifest.is_watch() {
        true => watched::headline(recording, results),
        false => of_run(results, groups),
    }
}

/// The headline of a run. Of one workload it has the details; of several, the finding of each.
pub fn of_run(results: &Results, groups: &[Group]) -> Headline {
    let all_failed = results
        .trials
        .iter()
        .all(|trial| trial.status == TrialStatus::Failed);
    let found = match all_failed {
        true => Vec::new(),
        false => findings(groups, &results.trials),
    };
    let mut found = found.into_iter();
    let Some(first) = found.next() else {
        return Headline {
            finding: trust::no_result(results),
            bullets: Vec::new(),
            trust: trust::statements(results),
        };
    };
    let alone = kinds(groups).len() == 1;
    let details = if alone { first.bullets } else { Vec::new() };
    Headline {
        finding: first.statement,
        bullets: details
            .into_iter()
            .chain(found.map(|finding| finding.statement))
            .collect(),
        trust: trust::statements(results),
    }
}

/// The finding of each workload, in the order of the documentation, then the one about neighbours.
pub(super) fn findings(groups: &[Group], trials: &[Trial]) -> Vec<Finding> {
    let of_workloads = kinds(groups)
        .into_iter()
        .filter_map(|kind| Some((kind.name(), told(kind, groups)?)));
    let of_neighbours = neighbour::told(trials).map(|told| (NEIGHBOUR, told));
    let all = of_workloads.chain(of_neighbours).map(|(workload, told)| Finding {
        workload: workload.to_owned(),
        statement: told.finding,
        bullets: told.bullets,
    });
    all.collect()
}

/// The finding about other processes.
const NEIGHBOUR: &str = "neighbour";

/// The findings of one workload, of trustworthy metrics.
fn told(kind: WorkloadKind, groups: &[Group]) -> Option<Told> {
    let groups: Vec<Cow<'_, Group>> = groups
        .iter()
        .filter(|group| group.workload == kind.name())
        .map(Group::trusted)
        .collect();
    let groups: Vec<&Group> = groups.iter().map(AsRef::as_ref).collect();
    (workloads::of(kind).headline)(&groups)
}

/// The texts of the details of a workload's finding for its section: those that the headline of a run of several leaves out.
pub(super) fn details(kind: WorkloadKind, groups: &[Group]) -> Vec<String> {
    match kinds(groups).len() {
        0 | 1 => Vec::new(),
        _ => {
            let bullets = told(kind, groups).map_or(Vec::new(), |told| told.bullets);
            bullets.into_iter().map(|bullet| bullet.text).collect()
        }
    }
}

/// The workloads of the groups, in the order of the documentation.
pub(super) fn kinds(groups: &[Group]) -> Vec<WorkloadKind> {
    let mut kinds = WorkloadKind::ALL.to_vec();
    kinds.retain(|kind| groups.iter().any(|group| group.workload == kind.name()));
    kinds
}
