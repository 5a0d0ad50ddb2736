//! Memory is mapped, touched, handed back and used again, in every way that there is.

use super::stage::Stage;
use super::trial::Trouble;
use crate::exit::Exit;
use crate::scenario::Map;

/// Runs the trial's work.
pub(super) fn run(_stage: &mut Stage<'_, '_>, _map: &Map) -> Result<(), Trouble> {
    Err(Trouble::new(
        Exit::WorkloadFailed,
        "`map` did not run: it is not built yet",
    ))
}
