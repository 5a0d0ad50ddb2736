//! Consumers that together need more than there is, started one after the other.

use super::stage::Stage;
use super::trial::Trouble;
use crate::exit::Exit;
use crate::scenario::Thrash;

/// Runs the trial's work.
pub(super) fn run(_stage: &mut Stage<'_, '_>, _thrash: &Thrash) -> Result<(), Trouble> {
    Err(Trouble::new(
        Exit::WorkloadFailed,
        "`thrash` did not run: it is not built yet",
    ))
}
