//! `plimsoll heap stat`.

use std::io::{self, Write};
use std::path::Path;

use crate::cli::HeapStat;
use crate::command::output_file;
use crate::heap::{self, HeapDetail, HeapStatError, Stat};
use plimsoll_model::exit::{Exit, Failure, OrExit};

pub(super) fn stat(options: &HeapStat) -> Result<Exit, Failure> {
    if options.watch {
        return watch(options);
    }
    let found = read(options)?;
    if let Some(path) = &options.html {
        write_page(path, &found)?;
    }
    if options.json {
        let mut text = serde_json::to_string_pretty(&found.survey).or_exit(Exit::WorkloadFailed)?;
        text.push('\n');
        crate::command::print_json_text(&text)?;
    } else {
        crate::command::print(&heap::render(&found.survey, detail(options)))?;
    }
    Ok(exit_of(&found))
}

fn read(options: &HeapStat) -> Result<Stat, Failure> {
    let found = match options.pid {
        Some(pid) => heap::stat(pid, options.validate),
        None => heap::stat_all(options.validate),
    };
    found.map_err(|error| {
        let exit = match error {
            HeapStatError::NoSuchProcess { .. } => Exit::Usage,
            HeapStatError::OtherLayout { .. } => Exit::Unsupported,
            HeapStatError::Damaged { .. } => Exit::WorkloadFailed,
            _ => Exit::Missing,
        };
        Failure::new(exit, error)
    })
}

fn detail(options: &HeapStat) -> HeapDetail {
    match (options.pid, options.all_heaps) {
        (None, _) => HeapDetail::Table,
        (Some(_), false) => HeapDetail::First,
        (Some(_), true) => HeapDetail::All,
    }
}

/// Damage, found or the cause of unreadable heaps, is a failed workload.
fn exit_of(found: &Stat) -> Exit {
    let damaged = found
        .survey
        .processes
        .iter()
        .filter_map(|process| process.validation.as_ref())
        .any(|validation| !validation.damage.is_empty());
    let damaged = damaged || found.survey.unread.iter().any(|unread| unread.damaged);
    if damaged { Exit::WorkloadFailed } else { Exit::Done }
}

fn write_page(path: &Path, found: &Stat) -> Result<(), Failure> {
    let page = heap::html(&found.survey, &found.cells);
    output_file::to_file(path, |file| file.write_all(page.as_bytes())).map_err(|error: io::Error| {
        Failure::message(
            Exit::Missing,
            format_args!("cannot write {}: {error}", path.display()),
        )
    })
}

/// Prints the heaps every second, on a terminal in place, until a signal or the end of the process.
fn watch(options: &HeapStat) -> Result<Exit, Failure> {
    let read = || read(options).map(|found| heap::render(&found.survey, detail(options)));
    crate::command::watched::watch(options.pid, read)
}
