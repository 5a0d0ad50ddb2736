//! `plimsoll watch`.

use crate::cli::{Talk, Watch};
use crate::exit::{Exit, Failure};

/// Carries out the command.
pub(super) fn watch(_options: &Watch, _talk: &Talk) -> Result<Exit, Failure> {
    Err(Failure::message(
        Exit::Unsupported,
        "`plimsoll watch` is being built",
    ))
}
