//! The results of a run, in a sentence for each workload.

mod neighbour;

use crate::analysis::Group;
use crate::workloads;
use plimsoll_model::recording::model::Trial;
use plimsoll_model::scenario::WorkloadKind;

/// One sentence or more for each workload, in the order of the documentation, then one about neighbours; with several
/// workloads, as in the tour, a line each. `None` without results.
pub(super) fn of(groups: &[Group], trials: &[Trial]) -> Option<String> {
    let sentences: Vec<String> = kinds(groups)
        .into_iter()
        .filter_map(|kind| sentence(kind, groups))
        .chain(neighbour::sentence(trials))
        .collect();
    let between = if kinds(groups).len() > 1 { "\n" } else { " " };
    (!sentences.is_empty()).then(|| sentences.join(between))
}

/// The headline of one workload, without the metrics that no trial has a trustworthy value of.
pub(super) fn sentence(kind: WorkloadKind, groups: &[Group]) -> Option<String> {
    let trusted: Vec<Group> = groups
        .iter()
        .filter(|group| group.workload == kind.name())
        .map(Group::trusted)
        .collect();
    (workloads::of(kind).headline)(&trusted.iter().collect::<Vec<_>>())
}

/// The workloads of the groups, in the order of the documentation.
pub(super) fn kinds(groups: &[Group]) -> Vec<WorkloadKind> {
    let mut kinds = WorkloadKind::ALL.to_vec();
    kinds.retain(|kind| groups.iter().any(|group| group.workload == kind.name()));
    kinds
}
