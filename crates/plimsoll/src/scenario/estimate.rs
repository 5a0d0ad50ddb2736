//! What a plan will take: stated before a run, and the start of its ETA.

use super::model::{FillClass, Plan, Settings, Subject, TrialPlan};
use super::workloads::{Workload, Wscap};

/// Speeds to estimate with. The defaults are those of a slow two-core virtual machine; a runner that has
/// calibrated or finished trials puts in what it measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpeedHints {
    /// First touch and fill, GB/s.
    pub fill_gb_per_s: f64,
    /// Trim into compressed RAM, GB/s.
    pub compress_gb_per_s: f64,
    /// Restore from compressed RAM, GB/s.
    pub decompress_gb_per_s: f64,
    /// Writing to and reading from a swap file, GB/s.
    pub disk_gb_per_s: f64,
    /// Comparing with the regenerated data, GB/s.
    pub verify_gb_per_s: f64,
    /// Setting up and undoing a trial's environment, seconds.
    pub setup_s: f64,
}

impl Default for SpeedHints {
    fn default() -> Self {
        SpeedHints {
            fill_gb_per_s: 1.5,
            compress_gb_per_s: 0.35,
            decompress_gb_per_s: 0.45,
            disk_gb_per_s: 0.15,
            verify_gb_per_s: 2.0,
            setup_s: 0.7,
        }
    }
}

/// What a plan will take, roughly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanEstimate {
    /// Most memory at any time: what the worker holds and what the store holds of it.
    pub peak_memory_bytes: u64,
    /// Largest swap file; the recording is not counted.
    pub disk_bytes: u64,
    /// Seconds in all.
    pub seconds: f64,
}

impl SpeedHints {
    /// Seconds of a trial that do not depend on its size.
    pub(super) fn rest_seconds(&self, settings: &Settings) -> f64 {
        self.setup_s + 2.0 * settings.hold
    }

    /// Seconds that one trial takes.
    pub fn trial_seconds(&self, settings: &Settings) -> f64 {
        let gb = settings.size as f64 / 1e9;
        let fill = gb / self.fill_gb_per_s + gb / self.verify_gb_per_s;
        let work = match &settings.workload {
            Workload::Wscap(wscap) => self.wscap_seconds(wscap, settings),
            _ => self.stored_seconds(settings),
        };
        self.rest_seconds(settings) + fill + work
    }

    /// Seconds in which everything goes to the subject's store and comes back.
    fn stored_seconds(&self, settings: &Settings) -> f64 {
        let gb = settings.size as f64 / 1e9;
        let both = |out: f64, back: f64| gb / out + gb / back;
        match &settings.subject {
            Subject::Zram(_) => both(self.compress_gb_per_s, self.decompress_gb_per_s),
            // zswap compresses, and in the worst case writes to the file behind it as well.
            Subject::Zswap(_) => {
                let miss = incompressible_share(&settings.class);
                both(self.compress_gb_per_s, self.decompress_gb_per_s)
                    + miss * both(self.disk_gb_per_s, self.disk_gb_per_s)
            }
            Subject::SwapFile => both(self.disk_gb_per_s, self.disk_gb_per_s),
            Subject::NoSwap => 0.0,
        }
    }

    /// Three measured stretches; the working set goes out under the cap and once more when it is emptied.
    fn wscap_seconds(&self, wscap: &Wscap, settings: &Settings) -> f64 {
        match settings.subject {
            Subject::NoSwap => wscap.duration,
            _ => 3.0 * wscap.duration + 2.0 * self.stored_seconds(settings),
        }
    }
}

/// The share of its size that a class takes when compressed, roughly, as zram and zswap do it page by page.
fn incompressible_share(class: &FillClass) -> f64 {
    match class {
        FillClass::Random | FillClass::File(_) => 1.0,
        FillClass::Runs20 => 0.25,
        FillClass::Constant => 0.01,
        FillClass::Ratio(ratio) => 1.0 / ratio,
    }
}

impl TrialPlan {
    /// Most memory that the trial takes at any time: the worker's and the store's.
    fn peak_memory(&self) -> u64 {
        let settings = &self.settings;
        let worker = settings.size.min(settings.limit);
        let stored = match settings.subject {
            Subject::Zram(_) | Subject::Zswap(_) => {
                (settings.size as f64 * incompressible_share(&settings.class)) as u64
            }
            Subject::SwapFile | Subject::NoSwap => 0,
        };
        worker.saturating_add(stored)
    }

    /// Bytes of the trial's swap file.
    fn disk(&self) -> u64 {
        match self.settings.subject {
            Subject::Zswap(_) | Subject::SwapFile => self.settings.swap_size,
            Subject::Zram(_) | Subject::NoSwap => 0,
        }
    }
}

impl Plan {
    /// What the plan will take, roughly: calibration, start and report not counted.
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
