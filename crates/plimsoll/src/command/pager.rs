//! `plimsoll pager`: inspects the pagers of running processes.

use crate::cli::{PagerCommand, PagerStat};
use crate::pager::{self, PagerStatError, PagerSurvey};
use plimsoll_model::exit::{Exit, Failure, OrExit};

pub(super) fn pager(command: &PagerCommand) -> Result<Exit, Failure> {
    match command {
        PagerCommand::Stat(options) => stat(options),
    }
}

fn stat(options: &PagerStat) -> Result<Exit, Failure> {
    if options.watch {
        return watch(options);
    }
    let found = read(options)?;
    if options.json {
        let mut text = serde_json::to_string_pretty(&found).or_exit(Exit::WorkloadFailed)?;
        text.push('\n');
        super::print_json_text(&text)?;
    } else {
        super::print(&pager::render(&found))?;
    }
    let validations = found.pagers.iter().filter_map(|pager| pager.validation.as_ref());
    let is_damaged = validations
        .into_iter()
        .any(|validation| !validation.violations.is_empty());
    Ok(if is_damaged {
        Exit::WorkloadFailed
    } else {
        Exit::Done
    })
}

fn read(options: &PagerStat) -> Result<PagerSurvey, Failure> {
    pager::stat(options.pid, options.validate).map_err(|error| {
        let exit = match error {
            PagerStatError::NoSuchProcess { .. } => Exit::Usage,
            PagerStatError::OtherLayout { .. } => Exit::Unsupported,
            PagerStatError::Damaged { .. } => Exit::WorkloadFailed,
            _ => Exit::Missing,
        };
        Failure::new(exit, error)
    })
}

/// Prints the pagers every second, on a terminal in place, until a signal or the end of the process.
fn watch(options: &PagerStat) -> Result<Exit, Failure> {
    let read = || read(options).map(|found| pager::render(&found));
    super::watched::watch(Some(options.pid), read)
}
