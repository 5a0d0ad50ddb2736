//! What a run showed, in a sentence for each workload.

mod neighbour;

use crate::analysis::Group;
use crate::workloads;
use plimsoll_model::recording::model::Trial;
use plimsoll_model::scenario::WorkloadKind;

/// What the numbers of the groups say: one sentence or more for each kind of work, in the order of the documentation,
/// and one on what all of it did to others. A line each where there are several kinds, as in the tour. None where there
/// is nothing to say.
pub(super) fn of(groups: &[Group], trials: &[Trial]) -> Option<String> {
    let sentences: Vec<String> = kinds(groups)
        .into_iter()
        .filter_map(|kind| sentence(kind, groups))
        .chain(neighbour::sentence(trials))
        .collect();
    let between = if kinds(groups).len() > 1 { "\n" } else { " " };
    (!sentences.is_empty()).then(|| sentences.join(between))
}

/// What the groups of one kind of work say.
pub(super) fn sentence(kind: WorkloadKind, groups: &[Group]) -> Option<String> {
    let groups: Vec<&Group> = groups
        .iter()
        .filter(|group| group.workload == kind.name())
        .collect();
    (workloads::of(kind).headline)(&groups)
}

/// The kinds of work of the groups, in the order of the documentation.
pub(super) fn kinds(groups: &[Group]) -> Vec<WorkloadKind> {
    let mut kinds = WorkloadKind::ALL.to_vec();
    kinds.retain(|kind| groups.iter().any(|group| group.workload == kind.name()));
    kinds
}
