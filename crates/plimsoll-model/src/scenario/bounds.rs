//! Upper bounds of a plan: the run prints them before it starts, and does not exceed them.

use super::model::Subject;
use super::plan::{Plan, TrialPlan};
use super::shared_keys::LONGEST;
use super::speed::SpeedHints;

/// How many times the expected time a run may take, where the scenario does not say: loaded, a machine is two to four
/// times slower than quiet.
const PATIENCE: f64 = 4.0;
/// Seconds on top: for work that does not grow with the plan, such as calibration and cleanup.
const GRACE: f64 = 120.0;
/// Memory of the calibration, for a second and outside of every cgroup.
const CALIBRATION: u64 = 256 << 20;

/// The estimate of a plan, and its upper bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Seconds that are expected.
    pub seconds: f64,
    /// Seconds after which it is stopped.
    pub time_limit: f64,
    /// Bytes of memory that are expected at the most at any time.
    pub memory: u64,
    /// Bytes of memory that it cannot exceed: the cgroup's limit, and a compressed store that is full of data that
    /// cannot be compressed.
    pub memory_limit: u64,
    /// Of these, the limit of the cgroup that the workers run in.
    pub cgroup_limit: u64,
    /// Bytes of the files of the largest trial: its swap file, and the file that it maps. The recording is not counted.
    pub disk: u64,
}

impl Plan {
    /// Seconds after which the run is stopped.
    pub fn time_limit(&self) -> f64 {
        self.time_limit.unwrap_or_else(|| {
            let expected = self.estimate(&SpeedHints::default()).seconds;
            // Whole seconds: it is written to files and read by people.
            (PATIENCE * expected + GRACE).ceil().min(LONGEST)
        })
    }

    /// The estimate of the plan, and its upper bounds.
    pub fn bounds(&self) -> Bounds {
        let estimate = self.estimate(&SpeedHints::default());
        let most = |of: fn(&TrialPlan) -> u64| self.trials.iter().map(of).max().unwrap_or(0);
        Bounds {
            seconds: estimate.seconds,
            time_limit: self.time_limit(),
            memory: estimate.peak_memory_bytes.max(CALIBRATION),
            memory_limit: most(TrialPlan::memory_limit).max(CALIBRATION),
            cgroup_limit: most(|trial| trial.settings.cgroup_limit()),
            disk: estimate.disk_bytes,
        }
    }
}

impl TrialPlan {
    fn memory_limit(&self) -> u64 {
        let settings = &self.settings;
        let stored = match &settings.subject {
            // Pages that cannot be compressed are stored as they are.
            subject if subject.has_compressed_swap() => settings.swap_size,
            // A pager that can save nothing exceeds its budget.
            Subject::Pager(_) => settings.total().saturating_sub(settings.limit),
            _ => 0,
        };
        settings.cgroup_limit().saturating_add(stored)
    }
}
