//! The workloads in the report, one folder each: the metrics of a trial, the headline and the section of the report.

pub mod compression;
pub mod contention;
pub mod heap;
pub mod loadline;
pub mod map;
pub mod thrash;
pub mod wscap;

use std::collections::BTreeMap;

use super::html::chapters::Chapter;
use super::page::Page;
use crate::analysis::{Group, Metric};
use plimsoll_model::recording::PhaseRows;
use plimsoll_model::recording::model::{Calibration, Trial};
use plimsoll_model::scenario::{Settings, WorkloadKind};

/// Draws the section of a workload; `None` if its groups have nothing to draw.
pub(super) type Section = fn(&Page, &[&Group]) -> Option<Chapter>;

/// What the report has of a workload.
pub(crate) struct WorkloadReport {
    /// Every metric of its trials.
    pub(crate) known: &'static [Metric],
    /// The metrics of a trial. One that cannot be known is absent.
    pub(crate) metrics: fn(&TrialData<'_>) -> BTreeMap<String, f64>,
    /// What the values of its groups say, in a sentence.
    pub(crate) headline: fn(&[&Group]) -> Option<String>,
    /// Its section; none where the report itself is that.
    pub(super) section: Option<Section>,
}

/// What the metrics of a trial are made from.
pub(crate) struct TrialData<'a> {
    /// Its record.
    pub(crate) trial: &'a Trial,
    /// Its settings.
    pub(crate) settings: &'a Settings,
    /// The samples next to each of its phases, in the same order.
    pub(crate) rows: &'a [PhaseRows],
    /// What the machine does when nothing is in the way.
    pub(crate) calibration: Option<&'a Calibration>,
}

/// The list of the workloads.
pub(crate) const fn of(kind: WorkloadKind) -> &'static WorkloadReport {
    match kind {
        WorkloadKind::Compression => &compression::REPORT,
        WorkloadKind::Thrash => &thrash::REPORT,
        WorkloadKind::Loadline => &loadline::REPORT,
        WorkloadKind::Wscap => &wscap::REPORT,
        WorkloadKind::Map => &map::REPORT,
        WorkloadKind::Contention => &contention::REPORT,
        WorkloadKind::Heap => &heap::REPORT,
    }
}
