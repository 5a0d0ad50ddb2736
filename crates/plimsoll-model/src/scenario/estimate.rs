//! Memory, disk space and time of a plan: printed before a run, and the start of its ETA.

use super::plan::{Plan, TrialPlan};
use super::speed::SpeedHints;
use super::workloads::Settings;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanEstimate {
    /// Peak memory: the worker's and the compressed store's.
    pub peak_memory_bytes: u64,
    /// Most that swap files and mapped files take; the recording is not counted.
    pub disk_bytes: u64,
    pub seconds: f64,
}

impl SpeedHints {
    /// Seconds of a trial that do not depend on its size.
    pub(super) fn rest_seconds(&self, settings: &Settings) -> f64 {
        settings.workload.model().rest_seconds(settings, self)
    }

    pub fn trial_seconds(&self, settings: &Settings) -> f64 {
        settings.workload.model().seconds(settings, self)
    }
}

impl TrialPlan {
    /// Most memory that the trial takes at any time: the worker's and the store's.
    fn peak_memory(&self) -> u64 {
        let settings = &self.settings;
        let model = settings.workload.model();
        let stored = match settings.subject.has_compressed_swap() {
            true => model.stored(settings),
            // The store of a pager is in its budget.
            false => 0,
        };
        model.resident(settings).saturating_add(stored)
    }

    /// Bytes of the trial's swap file, and of the file that it maps.
    fn disk(&self) -> u64 {
        let of = |is: bool, bytes: u64| if is { bytes } else { 0 };
        let settings = &self.settings;
        of(settings.has_swap_file(), settings.swap_size)
            .saturating_add(of(settings.maps_file(), settings.size()))
            .saturating_add(settings.page_file_bytes().unwrap_or(0))
    }
}

impl Plan {
    /// A rough estimate, without calibration, start and report.
    pub fn estimate(&self, hints: &SpeedHints) -> PlanEstimate {
        PlanEstimate {
            peak_memory_bytes: self.trials.iter().map(TrialPlan::peak_memory).max().unwrap_or(0),
            disk_bytes: self.trials.iter().map(TrialPlan::disk).max().unwrap_or(0),
            seconds: self
                .trials
                .iter()
                .map(|trial| hints.trial_seconds(&trial.settings))
                .sum(),
        }
    }
}
