//! `plimsoll compare`.

use crate::cli::{Compare, Talk};
use crate::exit::{Exit, Failure};

/// Carries out the command.
pub(super) fn compare(_options: &Compare, _talk: &Talk) -> Result<Exit, Failure> {
    Err(Failure::message(
        Exit::Unsupported,
        "`plimsoll compare` is being built",
    ))
}
