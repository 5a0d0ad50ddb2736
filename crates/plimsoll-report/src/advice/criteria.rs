//! The metrics that candidates are ranked by, for each workload.

use crate::workloads::{compression, contention, loadline, wscap};
use plimsoll_model::scenario::WorkloadKind;

/// A metric with its noun in a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Measure {
    pub(super) metric: &'static str,
    pub(super) noun: &'static str,
}

/// How a workload ranks swap devices and settings.
pub(super) struct Criteria {
    /// Ranks subjects.
    pub(super) first: Measure,
    /// Decides among subjects that the first does not separate.
    pub(super) second: Measure,
    /// Whether a subject that is worse by the second is not recommended, whatever the first is.
    pub(super) opposing: bool,
    /// Ranks settings of the kernel.
    pub(super) setting: Measure,
    /// A limit of the metrics, as a sentence.
    pub(super) limit: &'static str,
    /// Whether subjects without a compressed store take part.
    pub(super) all_subjects: bool,
}

const SAVING: Measure = Measure {
    metric: compression::STORED_RATIO,
    noun: "saving of RAM",
};
const RESTORE: Measure = Measure {
    metric: compression::RESTORE_SPEED,
    noun: "restore speed",
};
const LOAD_LINE: Measure = Measure {
    metric: loadline::KNEE_RAM,
    noun: "load line by RAM",
};
const CPU: Measure = Measure {
    metric: loadline::CPU_1_5,
    noun: "CPU time of a visit at load 1.5",
};
const SLOWDOWN: Measure = Measure {
    metric: wscap::SLOWDOWN,
    noun: "slowdown",
};
const CPU_SLOWDOWN: Measure = Measure {
    metric: wscap::CPU_SLOWDOWN,
    noun: "CPU time of a scan",
};
const SLOWEST: Measure = Measure {
    metric: contention::SLOWEST_ASK,
    noun: "slowest request",
};
const READ_BACK: Measure = Measure {
    metric: contention::HOLDER_RESTORE,
    noun: "time until the first program has its memory back",
};

/// The limit of metrics that measure time alone.
const TIME_ALONE: &str =
    "The metric is time alone: a compressed store also takes RAM, which `loadline` counts.";

/// The criteria of a workload; `None` if it compares no swap devices, or has data of its own.
pub(super) const fn of(kind: WorkloadKind) -> Option<&'static Criteria> {
    match kind {
        WorkloadKind::Compression => Some(&Criteria {
            first: SAVING,
            second: RESTORE,
            opposing: true,
            setting: RESTORE,
            limit: "Only compressed stores are ranked: `loadline` compares them with a swap file.",
            all_subjects: false,
        }),
        WorkloadKind::Loadline => Some(&Criteria {
            first: LOAD_LINE,
            second: CPU,
            opposing: false,
            setting: LOAD_LINE,
            limit: "",
            all_subjects: true,
        }),
        WorkloadKind::Wscap => Some(&Criteria {
            first: SLOWDOWN,
            second: CPU_SLOWDOWN,
            opposing: false,
            setting: SLOWDOWN,
            limit: TIME_ALONE,
            all_subjects: true,
        }),
        WorkloadKind::Contention => Some(&Criteria {
            first: SLOWEST,
            second: READ_BACK,
            opposing: true,
            setting: SLOWEST,
            limit: TIME_ALONE,
            all_subjects: true,
        }),
        // Consumers of `thrash` write single random bytes into zeros, and one program says nothing about others; the rest
        // compare no swap devices.
        WorkloadKind::Thrash | WorkloadKind::Command | WorkloadKind::Map | WorkloadKind::Heap => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Direction;
    use crate::workloads::find_metric;

    #[test]
    fn every_criterion_is_a_metric_with_a_better_direction() {
        for kind in WorkloadKind::ALL {
            let Some(criteria) = of(kind) else { continue };
            for measure in [criteria.first, criteria.second, criteria.setting] {
                let metric = find_metric(measure.metric).expect(measure.metric);
                assert_ne!(metric.direction, Direction::Neither, "{}", measure.metric);
            }
        }
    }
}
