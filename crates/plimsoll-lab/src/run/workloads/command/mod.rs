//! A program of the user runs whole, under one limit after the other.

use crate::run::context::{Surroundings, TrialContext};
use crate::run::trial_error::{TrialError, lacking};
use plimsoll_model::scenario::ProgramRun;

pub(super) fn run(context: &mut TrialContext<'_, '_>, _: &ProgramRun) -> Result<(), TrialError> {
    let missing = match &context.surroundings {
        Surroundings::Lacking(missing) => missing.as_slice(),
        Surroundings::Made(_) => &[],
    };
    Err(lacking("command", missing))
}
