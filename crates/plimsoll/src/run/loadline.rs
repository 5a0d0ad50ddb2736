//! One worker visits its memory, at one load after the other, until the knee is found.

use super::stage::Stage;
use super::trial::Trouble;
use crate::exit::Exit;
use crate::scenario::Loadline;

/// Runs the trial's work.
pub(super) fn run(_stage: &mut Stage<'_, '_>, _loadline: &Loadline) -> Result<(), Trouble> {
    Err(Trouble::new(
        Exit::WorkloadFailed,
        "`loadline` did not run: it is not built yet",
    ))
}
