//! The results of a run, in a sentence for each workload.
//!
//! Invariant: no untrustworthy metric stands in a sentence. Checked by
//! `no_untrustworthy_metric_stands_in_a_headline`.

mod neighbour;

use crate::analysis::Group;
use crate::workloads;
use plimsoll_model::recording::model::{Finding, Trial};
use plimsoll_model::scenario::WorkloadKind;

/// The findings as one text: with several workloads, as in the tour, a line each. `None` without results.
pub(super) fn of(groups: &[Group], trials: &[Trial]) -> Option<String> {
    let sentences: Vec<String> = findings(groups, trials)
        .into_iter()
        .map(|finding| finding.text)
        .collect();
    let between = if kinds(groups).len() > 1 { "\n" } else { " " };
    (!sentences.is_empty()).then(|| sentences.join(between))
}

/// One sentence or more for each workload, in the order of the documentation, then one about neighbours.
pub(super) fn findings(groups: &[Group], trials: &[Trial]) -> Vec<Finding> {
    let of_workloads = kinds(groups)
        .into_iter()
        .filter_map(|kind| Some((kind.name(), sentence(kind, groups)?)));
    let of_neighbours = neighbour::sentence(trials).map(|text| (NEIGHBOUR, text));
    let all = of_workloads.chain(of_neighbours).map(|(workload, text)| Finding {
        workload: workload.to_owned(),
        text,
    });
    all.collect()
}

/// The finding about other processes.
const NEIGHBOUR: &str = "neighbour";

/// The headline of one workload, of trustworthy metrics.
pub(super) fn sentence(kind: WorkloadKind, groups: &[Group]) -> Option<String> {
    let groups: Vec<Group> = groups
        .iter()
        .filter(|group| group.workload == kind.name())
        .map(Group::trusted)
        .collect();
    let groups: Vec<&Group> = groups.iter().collect();
    (workloads::of(kind).headline)(&groups)
}

/// The workloads of the groups, in the order of the documentation.
pub(super) fn kinds(groups: &[Group]) -> Vec<WorkloadKind> {
    let mut kinds = WorkloadKind::ALL.to_vec();
    kinds.retain(|kind| groups.iter().any(|group| group.workload == kind.name()));
    kinds
}
