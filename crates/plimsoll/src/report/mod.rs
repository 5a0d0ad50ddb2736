//! Numbers to terminal, HTML, JSON, CSV and Markdown. Computes nothing that analysis could.
//!
//! A [`Page`] holds everything that is shown of a run; [`html::render`] makes one self-contained file of it and
//! [`terminal::summary`] a table. Both say the same [`verdict::sentence`].

pub mod compare;
pub mod csv;
mod findings;
pub mod html;
pub mod json;
pub mod markdown;
pub mod page;
mod telling;
pub mod terminal;
pub mod verdict;
mod watched;
pub mod workloads;

use std::path::{Path, PathBuf};

use crate::recording::Recording;
use crate::recording::model::{Results, file};

pub use page::{Mark, MemoryUse, Page, Series, Timeline};

/// Writes the page into the folder of its recording and returns the file.
///
/// # Errors
/// With words for people when the file cannot be written.
pub fn write_page(recording: &Recording, results: &Results, folder: &Path) -> Result<PathBuf, String> {
    let path = folder.join(file::REPORT);
    std::fs::write(&path, html::render(&page::build(recording, results)))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(path)
}
