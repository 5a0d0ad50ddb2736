//! `plimsoll ps`.

use crate::cli::{Ps, Talk};
use crate::exit::{Exit, Failure};

/// Carries out the command.
pub(super) fn ps(_options: &Ps, _talk: &Talk) -> Result<Exit, Failure> {
    Err(Failure::message(
        Exit::Unsupported,
        "`plimsoll ps` is being built",
    ))
}
