//! Recordings to results, and results to terminal, HTML, JSON, CSV and Markdown.
//!
//! From the bottom: `analysis` (statistics, no text), `contents` (a report as plain values), `drawing` (charts and
//! tables), `workloads` (one folder per workload: metrics, headline, section), `advice` (recommendations), [`service`] (the size of a service), [`hold`] (the course of a level), [`results`] (the
//! content of `results.json`), then the output formats and [`comparison`], which `compare` renders.
//!
//! - Invariant: analysis and reports read no system, only recordings. Checked by `models_and_reports_read_no_system`.
//! - Invariant: this crate returns data or text and never prints. Checked by `only_the_command_prints`.
//!
//! A [`Page`] holds the contents of a report; [`html::render`] makes one self-contained file of it and
//! [`terminal::summary`] a table. Both show the same [`headlines::of`].

mod advice;
pub mod analysis;
pub mod compare;
pub mod comparison;
mod contents;
pub mod csv;
mod distrust;
mod drawing;
pub mod export;
mod headline_metrics;
pub mod headlines;
pub mod hold;
pub mod html;
pub mod json;
pub mod long_form;
pub mod markdown;
mod memory_settings;
pub mod page;
pub mod repeats;
mod results;
pub mod service;
mod size;
pub mod terminal;
pub mod workloads;

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use plimsoll_model::recording::model::{Results, file};
use plimsoll_model::recording::{Recording, RecordingFolder};

pub use contents::{HoldCurves, Mark, MemoryUse, Page, Series, ServiceCurves, Timeline};
pub use results::{judge, results, run_status, sampler_report, take_results};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
}

/// Writes the HTML report into the folder of its recording, which stays open if its path changes, and returns its path.
/// Replaces the report that is there, or a link in its place.
///
/// # Errors
/// When the file cannot be written.
pub fn write_page(
    recording: &Recording,
    results: &Results,
    folder: &RecordingFolder,
) -> Result<PathBuf, ReportError> {
    let path = folder.path().join(file::REPORT);
    let page = page::build(recording, results);
    match folder.replace_file(file::REPORT, |file| write_html(&page, file)) {
        Ok(()) => Ok(path),
        Err(source) => Err(ReportError::Write { path, source }),
    }
}

fn write_html(page: &Page, file: &mut impl Write) -> io::Result<()> {
    let mut output = BufWriter::new(file);
    html::write(page, &mut output)?;
    output.flush()
}
