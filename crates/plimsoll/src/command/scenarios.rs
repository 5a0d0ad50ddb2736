//! `plimsoll list` and `plimsoll show`.

use serde::Serialize;

use std::path::Path;

use super::recordings::locate;
use crate::cli::{List, Show, Verbosity};
use plimsoll_model::exit::{Exit, Failure};
use plimsoll_model::scenario::{self, WorkloadKind};

#[derive(Serialize)]
struct ListDocument {
    schema: u32,
    scenarios: Vec<ListEntry>,
}

#[derive(Serialize)]
struct ListEntry {
    name: &'static str,
    title: &'static str,
}

pub(super) fn list(options: &List, _verbosity: &Verbosity) -> Result<Exit, Failure> {
    if let Some(kind) = options.keys.as_deref().and_then(WorkloadKind::of_name) {
        super::print(&scenario::keys_help(kind))?;
        return Ok(Exit::Done);
    }
    let scenarios: Vec<ListEntry> = scenario::builtin()
        .iter()
        .map(|entry| ListEntry {
            name: entry.name,
            title: entry.title,
        })
        .collect();
    if options.json {
        super::print_json(&ListDocument { schema: 1, scenarios })?;
        return Ok(Exit::Done);
    }
    let widest = scenarios.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
    let lines: String = scenarios
        .iter()
        .map(|entry| format!("{:widest$}  {}\n", entry.name, entry.title))
        .collect();
    super::print(&lines)?;
    Ok(Exit::Done)
}

pub(super) fn show(options: &Show) -> Result<Exit, Failure> {
    let failure = match scenario::find(&options.name) {
        Ok(source) => {
            super::print_document(source.text())?;
            return Ok(Exit::Done);
        }
        Err(error) => Failure::new(Exit::Usage, error),
    };
    let folder = match locate(Path::new(&options.name)) {
        Ok(folder) => folder,
        // Of a selector, the recordings are the reason.
        Err(unknown) if options.name.starts_with('@') => return Err(unknown),
        Err(_) => return Err(failure),
    };
    if !folder.is_dir() {
        return Err(failure);
    }
    super::print_document(&super::report::open(&folder)?.manifest.plan.to_toml())?;
    Ok(Exit::Done)
}
