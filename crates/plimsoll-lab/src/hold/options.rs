//! The request: a level, its scope, and how it is held; and the state.

use std::path::PathBuf;
use std::time::Duration;

use super::gauge::Scope;
use super::level::Level;
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

/// The state after a look at the level.
#[derive(Debug, Clone, Copy)]
pub struct Status {
    pub elapsed: Duration,
    pub held: u64,
    /// Bytes that others can still take in the scope.
    pub available: u64,
    /// Bytes that a share is a share of.
    pub total: Option<u64>,
    /// Percent of time that was a stall, of a pressure.
    pub stalled_percent: Option<f64>,
}
