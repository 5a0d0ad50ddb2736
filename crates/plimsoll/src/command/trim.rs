//! `plimsoll trim`.

use crate::cli::{Talk, Trim};
use crate::exit::{Exit, Failure};

/// Carries out the command.
pub(super) fn trim(_options: &Trim, _talk: &Talk) -> Result<Exit, Failure> {
    Err(Failure::message(
        Exit::Unsupported,
        "`plimsoll trim` is being built",
    ))
}
