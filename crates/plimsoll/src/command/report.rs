//! `plimsoll report`: a finished or incomplete recording as HTML, text, tables, JSON or SVG.

use std::path::{Path, PathBuf};

use crate::cli::{Format, Report, Theme, Verbosity};
use plimsoll_lab::run::recording_failure;
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::recording::Recording;
use plimsoll_model::recording::model::file;
use plimsoll_report as report;
use plimsoll_report::analysis;

pub(super) fn report(options: &Report, verbosity: &Verbosity) -> Result<Exit, Failure> {
    if options.theme.is_some() && options.format != Format::Svg {
        return Err(Failure::message(
            Exit::Usage,
            "cannot choose a theme: --theme belongs to --format svg; leave it out",
        ));
    }
    let recording = open(&options.run)?;
    for warning in &recording.warnings {
        super::print_error(&format!("warning: {warning}"));
    }
    let results = plimsoll_report::results(&recording);
    if options.json {
        super::print_json(&results)?;
        return Ok(Exit::Done);
    }
    let groups = analysis::groups(&results.trials);
    let text = match options.format {
        Format::Html => report::html::render(&report::page::build(&recording, &results)),
        Format::Text if recording.manifest.is_watch() => {
            report::terminal::watched(&recording, &results, super::width_of_stdout())
        }
        Format::Text => report::terminal::summary(
            &results,
            &groups,
            super::width_of_stdout(),
            super::colour_on_stdout(verbosity),
        ),
        Format::Csv => report::csv::csv(&results),
        Format::Markdown => report::markdown::markdown(&recording, &results),
        Format::Json => report::json::json(&results).or_exit(Exit::WorkloadFailed)?,
        Format::Svg => report::html::chart(
            &report::page::build(&recording, &results),
            options.theme == Some(Theme::Dark),
        ),
    };
    match output(options) {
        None => super::print(&text)?,
        Some(path) => {
            std::fs::write(&path, text)
                .map_err(|error| anyhow::anyhow!("cannot write {}: {error}", path.display()))
                .or_exit(Exit::Missing)?;
            super::print(&format!("{}\n", path.display()))?;
        }
    }
    Ok(Exit::Done)
}

pub(super) fn open(run: &Path) -> Result<Recording, Failure> {
    Recording::open(run).map_err(recording_failure)
}

/// The output file; none for standard output.
fn output(options: &Report) -> Option<PathBuf> {
    match &options.output {
        Some(path) if path.as_os_str() == "-" => None,
        Some(path) => Some(path.clone()),
        None => (options.format == Format::Html).then(|| options.run.join(file::REPORT)),
    }
}
