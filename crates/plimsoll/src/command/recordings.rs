//! `plimsoll runs`, and the short names of recordings in every command.

use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cli::{RUNS, Runs};
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::quantity;
use plimsoll_model::recording::catalog::{self, FindError, Listed};
use plimsoll_model::sanitize::sanitize;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    folder: Cow<'a, str>,
    recordings: &'a [Listed],
}

/// The folder of the recording that the user names; short names are those of [`RUNS`].
pub(super) fn locate(name: &Path) -> Result<PathBuf, Failure> {
    locate_in(name, Path::new(RUNS))
}

/// The same with the short names of `runs`.
pub(super) fn locate_in(name: &Path, runs: &Path) -> Result<PathBuf, Failure> {
    catalog::find(name, runs).or_exit(Exit::Usage)
}

pub(super) fn runs(options: &Runs) -> Result<Exit, Failure> {
    let recordings = match catalog::list(&options.folder) {
        // Before the first run.
        Err(FindError::Folder { source, .. })
            if source.kind() == ErrorKind::NotFound && options.folder == Path::new(RUNS) =>
        {
            Vec::new()
        }
        listed => listed.or_exit(Exit::Usage)?,
    };
    if options.json {
        let document = Document {
            schema: 1,
            folder: options.folder.to_string_lossy(),
            recordings: &recordings,
        };
        let mut text = serde_json::to_string_pretty(&document).or_exit(Exit::WorkloadFailed)?;
        text.push('\n');
        super::print_json_text(&text)?;
    } else {
        super::print(&table(&recordings, &options.folder))?;
    }
    Ok(Exit::Done)
}

fn table(recordings: &[Listed], folder: &Path) -> String {
    if recordings.is_empty() {
        return format!("no recordings in {}\n", sanitize(&folder.to_string_lossy()));
    }
    let head = ["NAME", "SCENARIO", "STARTED (UTC)", "STATUS", "SIZE"].map(str::to_owned);
    let rows = recordings.iter().map(|one| {
        [
            sanitize(&one.name).into_owned(),
            sanitize(&one.scenario).into_owned(),
            sanitize(&one.started).trim_end_matches('Z').replacen('T', " ", 1),
            one.status.word().to_owned(),
            quantity::bytes(one.bytes as f64),
        ]
    });
    let rows: Vec<[String; 5]> = std::iter::once(head).chain(rows).collect();
    let mut widths = [0; 5];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for [name, scenario, started, status, size] in &rows {
        let [a, b, c, d, e] = widths;
        text.push_str(&format!(
            "{name:a$}  {scenario:b$}  {started:c$}  {status:d$}  {size:>e$}\n"
        ));
    }
    text
}
