//! One worker scans its memory, first uncapped and then under a cap.

use super::stage::Stage;
use super::trial::Trouble;
use crate::exit::Exit;
use crate::scenario::Wscap;

/// Runs the trial's work.
pub(super) fn run(_stage: &mut Stage<'_, '_>, _wscap: &Wscap) -> Result<(), Trouble> {
    Err(Trouble::new(
        Exit::WorkloadFailed,
        "`wscap` did not run: it is not built yet",
    ))
}
