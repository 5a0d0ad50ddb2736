//! The observer of a hold: a terminal, or a recording.

use plimsoll_model::recording::hold::HoldSettings;
use plimsoll_proc::cgroup::MemoryCgroup;

use super::error::HoldError;
use super::options::Status;
use super::summary::Summary;

/// A hold whose worker is ready and holds nothing yet.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    pub settings: &'a HoldSettings,
    /// Process that holds the memory, or waits for memory.
    pub worker: u32,
    /// The scope, if not the machine.
    pub cgroup: Option<&'a MemoryCgroup>,
}

pub trait Observer {
    /// Sees the start. An error ends the hold.
    ///
    /// # Errors
    /// Those of the observer, as a [`HoldError`].
    fn begin(&mut self, start: &Start<'_>) -> Result<(), HoldError>;

    /// Sees a look at the level, ten times a second.
    fn look(&mut self, status: &Status, summary: &Summary);
}
