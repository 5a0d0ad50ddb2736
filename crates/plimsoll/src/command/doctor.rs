//! `plimsoll doctor`.

use std::path::Path;

use crate::cli::{Json, Talk};
use crate::doctor;
use crate::exit::{Exit, Failure};

pub(super) fn doctor(options: &Json, talk: &Talk) -> Result<Exit, Failure> {
    let examination = doctor::examine(Path::new("/"));
    if options.json {
        super::print_json(&examination)?;
    } else {
        let text = doctor::render(&examination, super::width_of_stdout(), super::colour_on_stdout(talk));
        super::print(&text)?;
    }
    Ok(Exit::Done)
}
