//! `plimsoll export`.

use crate::cli::{Export, Talk};
use crate::exit::{Exit, Failure};

/// Carries out the command.
pub(super) fn export(_options: &Export, _talk: &Talk) -> Result<Exit, Failure> {
    Err(Failure::message(
        Exit::Unsupported,
        "`plimsoll export` is being built",
    ))
}
