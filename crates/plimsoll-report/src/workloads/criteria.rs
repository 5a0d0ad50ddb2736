//! The metrics that recommendations rank swap devices and settings of a workload by.

/// A metric with its noun in a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Measure {
    pub(crate) metric: &'static str,
    pub(crate) noun: &'static str,
}

/// How a workload ranks swap devices and settings.
pub(crate) struct Criteria {
    /// Ranks subjects.
    pub(crate) first: Measure,
    /// Decides among subjects that the first does not separate.
    pub(crate) second: Measure,
    /// Whether a subject that is worse by the second is not recommended, whatever the first is.
    pub(crate) opposing: bool,
    /// Ranks settings of the kernel.
    pub(crate) setting: Measure,
    /// A limit of the metrics, as a sentence.
    pub(crate) limit: &'static str,
    /// Whether subjects without a compressed store take part.
    pub(crate) all_subjects: bool,
}

/// The limit of metrics that measure time alone.
pub(super) const TIME_ALONE: &str =
    "The metric is time alone: a compressed store also takes RAM, which `loadline` counts.";
