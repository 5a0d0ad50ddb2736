//! The recordings of one folder, and the short names for them: `@latest`, `@-1`, the start of a name.
//!
//! Only folders with a regular file `manifest.json` count as recordings. [`list`] reads the head of each manifest and
//! of `results.json`; [`names`] reads no file, so that completion stays cheap and safe.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize, Serializer};

use super::folder::RecordingFile;
use super::lines;
use super::lock::is_written;
use super::model::{RECORDING_SCHEMA, RESULTS_SCHEMA, RunStatus, file};
use crate::sanitize::sanitize;
use crate::scenario::near;

/// The newest recording of a folder.
pub const LATEST: &str = "@latest";

/// Largest manifest or `results.json` that a list reads, in bytes.
const LARGEST_DOCUMENT: u64 = 64 << 20;
/// Most names in an error.
const MOST_NAMES: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Name of the folder; may hold any character.
    pub name: String,
    #[serde(serialize_with = "as_text")]
    pub path: PathBuf,
    /// Empty if the manifest is unreadable.
    pub scenario: String,
    /// Start in UTC, RFC 3339; empty if the manifest is unreadable.
    pub started: String,
    pub status: ListedStatus,
    /// Bytes of all files of the folder.
    pub bytes: u64,
}

/// JSON has no other bytes than text.
fn as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

/// State of a recording: the status of its results, or the reason for their absence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ListedStatus {
    Ok,
    Failed,
    Untrustworthy,
    Interrupted,
    Incomplete,
    /// A process writes it now.
    Running,
    /// Killed before it wrote its results; `run --resume` continues it.
    Unfinished,
    /// The manifest or the results are damaged or of a newer version.
    Unreadable,
}

impl ListedStatus {
    pub fn word(self) -> &'static str {
        match self {
            ListedStatus::Ok => "ok",
            ListedStatus::Failed => "failed",
            ListedStatus::Untrustworthy => "untrustworthy",
            ListedStatus::Interrupted => "interrupted",
            ListedStatus::Incomplete => "incomplete",
            ListedStatus::Running => "running",
            ListedStatus::Unfinished => "unfinished",
            ListedStatus::Unreadable => "unreadable",
        }
    }
}

impl From<RunStatus> for ListedStatus {
    fn from(status: RunStatus) -> Self {
        match status {
            RunStatus::Ok => ListedStatus::Ok,
            RunStatus::Failed => ListedStatus::Failed,
            RunStatus::Untrustworthy => ListedStatus::Untrustworthy,
            RunStatus::Interrupted => ListedStatus::Interrupted,
            RunStatus::Incomplete => ListedStatus::Incomplete,
        }
    }
}

/// Why a name means no recording. The texts in it are safe to print.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    #[error(
        "cannot find recording `{name}`: no folder has this name, and no recording in {folder} begins with it{}; \
         `plimsoll runs` lists the recordings",
        did_you_mean(nearest)
    )]
    Unknown {
        name: String,
        folder: String,
        /// Similar names, best first.
        nearest: Vec<String>,
    },
    #[error(
        "cannot choose a recording: {} names in {folder} begin with `{name}`: {}; add letters until one remains",
        matches.len(), few(matches)
    )]
    Ambiguous {
        name: String,
        folder: String,
        /// Newest first, as far as the names tell.
        matches: Vec<String>,
    },
    /// `@-N` with too large an N.
    #[error(
        "cannot find recording `{name}`: {folder} has {count} recordings; `@latest` is the newest, `@-1` the one before"
    )]
    TooFew {
        name: String,
        folder: String,
        count: usize,
    },
    #[error(
        "cannot find recording `{name}`: not a selector; use `@latest` for the newest recording, `@-1` for the one before"
    )]
    Selector { name: String },
    #[error("cannot list recordings in {folder}: {source}; name the folder of a recording")]
    Folder { folder: String, source: io::Error },
}

fn did_you_mean(names: &[String]) -> String {
    match names {
        [] => String::new(),
        names => format!("; did you mean {}?", few(names)),
    }
}

fn few(names: &[String]) -> String {
    let shown: Vec<String> = names
        .iter()
        .take(MOST_NAMES)
        .map(|name| format!("`{name}`"))
        .collect();
    match names.len().saturating_sub(MOST_NAMES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The folder of the recording that `name` means. In this order: an existing path; `@latest` and `@-N`; a recording
/// with exactly this name; the only one whose name begins with it. Short names are looked up in `runs`, or in the
/// folder before the last slash.
///
/// # Errors
/// No recording or several have that name; the folder cannot be listed.
pub fn find(name: &Path, runs: &Path) -> Result<PathBuf, FindError> {
    if name.symlink_metadata().is_ok() {
        return Ok(name.to_owned());
    }
    let last = name.file_name().unwrap_or_default();
    let folder = match name.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => runs,
    };
    if last.as_encoded_bytes().starts_with(b"@") {
        return selected(name, last, folder);
    }
    let known = match names(folder) {
        Err(FindError::Folder { source, .. }) if source.kind() == io::ErrorKind::NotFound => Vec::new(),
        known => known?,
    };
    if known.iter().any(|known| known == last) {
        return Ok(folder.join(last));
    }
    let begins = |known: &&OsString| known.as_encoded_bytes().starts_with(last.as_encoded_bytes());
    let matches: Vec<&OsString> = known.iter().filter(begins).filter(|_| !last.is_empty()).collect();
    match matches.as_slice() {
        [only] => Ok(folder.join(only)),
        [] => {
            let texts: Vec<String> = known.iter().map(|name| harmless(name)).collect();
            let nearest = near(&harmless(last), texts.iter().map(String::as_str));
            Err(FindError::Unknown {
                name: harmless(name.as_os_str()),
                folder: harmless(folder.as_os_str()),
                nearest: nearest.into_iter().map(str::to_owned).collect(),
            })
        }
        several => Err(FindError::Ambiguous {
            name: harmless(last),
            folder: harmless(folder.as_os_str()),
            matches: several.iter().rev().map(|name| harmless(name)).collect(),
        }),
    }
}

/// The recording that `@latest` or `@-N` means, by the time of its start.
fn selected(name: &Path, selector: &OsStr, folder: &Path) -> Result<PathBuf, FindError> {
    let text = selector.to_str().unwrap_or_default();
    let number = text.strip_prefix("@-").map(str::parse::<usize>);
    let back = match (text, number) {
        (LATEST, _) => 0,
        (_, Some(Ok(back))) => back,
        _ => {
            return Err(FindError::Selector {
                name: harmless(name.as_os_str()),
            });
        }
    };
    let readable: Vec<Listed> = list(folder)?
        .into_iter()
        .filter(|one| !one.started.is_empty())
        .collect();
    let found = readable.get(back).map(|one| one.path.clone());
    found.ok_or_else(|| FindError::TooFew {
        name: harmless(name.as_os_str()),
        folder: harmless(folder.as_os_str()),
        count: readable.len(),
    })
}

/// The recordings of a folder, newest first; those with an unreadable manifest last.
///
/// # Errors
/// The folder cannot be listed.
pub fn list(folder: &Path) -> Result<Vec<Listed>, FindError> {
    let mut all: Vec<Listed> = names(folder)?.iter().map(|name| listed(folder, name)).collect();
    all.sort_by(|a, b| (&b.started, &b.name).cmp(&(&a.started, &a.name)));
    Ok(all)
}

/// The names of the recordings of a folder, sorted.
///
/// # Errors
/// The folder cannot be listed.
pub fn names(folder: &Path) -> Result<Vec<OsString>, FindError> {
    let unlisted = |source| FindError::Folder {
        folder: harmless(folder.as_os_str()),
        source,
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(unlisted)? {
        let name = entry.map_err(unlisted)?.file_name();
        let manifest = folder.join(&name).join(file::MANIFEST);
        if manifest.metadata().is_ok_and(|found| found.is_file()) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// The fields of a manifest that a list shows.
#[derive(Deserialize)]
struct Head {
    started: String,
    plan: PlanHead,
}

#[derive(Deserialize)]
struct PlanHead {
    scenario: String,
}

/// The field of `results.json` that a list shows.
#[derive(Deserialize)]
struct Outcome {
    status: RunStatus,
}

fn listed(folder: &Path, name: &OsStr) -> Listed {
    let path = folder.join(name);
    let head = document::<Head>(&path.join(file::MANIFEST), RECORDING_SCHEMA).flatten();
    let status = match &head {
        None => ListedStatus::Unreadable,
        Some(_) => status(&path),
    };
    let (started, scenario) = head
        .map(|head| (head.started, head.plan.scenario))
        .unwrap_or_default();
    Listed {
        name: name.to_string_lossy().into_owned(),
        bytes: size(&path),
        path,
        scenario,
        started,
        status,
    }
}

fn status(path: &Path) -> ListedStatus {
    match document::<Outcome>(&path.join(file::RESULTS), RESULTS_SCHEMA) {
        Some(Some(outcome)) => outcome.status.into(),
        Some(None) => ListedStatus::Unreadable,
        None if is_written(path).unwrap_or(false) => ListedStatus::Running,
        None => ListedStatus::Unfinished,
    }
}

/// A document of at most [`LARGEST_DOCUMENT`]: `None` if there is no such file, `Some(None)` if it cannot be read.
fn document<T: for<'a> Deserialize<'a>>(path: &Path, known: u32) -> Option<Option<T>> {
    // A pipe or a device would be read without end.
    let found = path.metadata().ok()?;
    if !found.is_file() || found.len() > LARGEST_DOCUMENT {
        return Some(None);
    }
    Some(lines::read_document(&RecordingFile::at(path.to_owned()), known, "").ok())
}

fn size(path: &Path) -> u64 {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| entry.metadata().ok().filter(fs::Metadata::is_file));
    files.map(|file| file.len()).sum()
}

/// A name as text that is safe to print.
fn harmless(name: &OsStr) -> String {
    sanitize(&name.to_string_lossy()).into_owned()
}

#[cfg(test)]
mod tests;
