//! The request: a level, its scope, and how it is held; and the state.

use std::path::PathBuf;
use std::time::Duration;

use super::gauge::Scope;
use super::level::Level;
use plimsoll_model::recording::hold::{HoldGoal, HoldSettings};
use plimsoll_model::scenario::FillClass;

#[derive(Debug, Clone)]
pub struct Options {
    pub level: Level,
    pub scope: Scope,
    /// Time over which the level is approached.
    pub ramp: Duration,
    /// Time after which the memory is released; until a signal without one.
    pub duration: Option<Duration>,
    pub class: FillClass,
    /// Time in which each page is read once.
    pub touch_every: Option<Duration>,
    /// Bytes that stay available to the rest of the machine, if more than its usual reserve.
    pub reserve: Option<u64>,
    /// Folder on a disk for the file of a pressure.
    pub folder: PathBuf,
    /// How long a pressure waits for a run to end; `None` is refused at once.
    pub wait: Option<Duration>,
}

impl Options {
    /// The request, resolved: its goal, the whole that a share is a share of, and the reserve.
    pub(super) fn settings(
        &self,
        goal: HoldGoal,
        total_bytes: Option<u64>,
        reserve_bytes: u64,
    ) -> HoldSettings {
        let of_memory = goal.percent().is_none();
        HoldSettings {
            goal,
            leak_bytes_per_s: match self.level {
                Level::Held { leak, .. } if leak > 0 => Some(leak),
                _ => None,
            },
            cgroup: self
                .scope
                .cgroup()
                .map(|cgroup| cgroup.path().display().to_string()),
            total_bytes,
            reserve_bytes,
            ramp_s: self.ramp.as_secs_f64(),
            duration_s: self.duration.map(|duration| duration.as_secs_f64()),
            class: of_memory.then(|| self.class.to_string()),
            touch_every_s: self.touch_every.map(|every| every.as_secs_f64()),
        }
    }
}

/// The state after a look at the level.
#[derive(Debug, Clone, Copy)]
pub struct Status {
    pub elapsed: Duration,
    pub held: u64,
    /// Bytes that others can still take in the scope.
    pub available: u64,
    /// Bytes that the level should be: `available` or `held`; `None` of a pressure.
    pub goal: Option<u64>,
    /// Bytes that a share is a share of.
    pub total: Option<u64>,
    /// Percent of time that was a stall, of a pressure.
    pub stalled_percent: Option<f64>,
}
