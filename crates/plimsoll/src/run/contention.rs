//! A program holds memory while another one asks for more and more.

use super::stage::Stage;
use super::trial::Trouble;
use crate::exit::Exit;
use crate::scenario::Contention;

/// Runs the trial's work.
pub(super) fn run(_stage: &mut Stage<'_, '_>, _contention: &Contention) -> Result<(), Trouble> {
    Err(Trouble::new(
        Exit::WorkloadFailed,
        "`contention` did not run: it is not built yet",
    ))
}
