//! `plimsoll doctor`.

use std::path::Path;

use crate::cli::{Json, Verbosity};
use crate::doctor;
use plimsoll_model::exit::{Exit, Failure};

/// The default folder of scenarios for swap files.
const SWAP_FOLDER: &str = "/var/tmp";

pub(super) fn doctor(options: &Json, verbosity: &Verbosity) -> Result<Exit, Failure> {
    let examination = doctor::examine(Path::new(SWAP_FOLDER));
    if options.json {
        super::print_json(&examination)?;
    } else {
        let text = doctor::render(
            &examination,
            usize::from(super::width_of_stdout()),
            super::colour_on_stdout(verbosity),
        );
        super::print_styled(&text)?;
    }
    Ok(Exit::Done)
}
