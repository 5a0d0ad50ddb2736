//! `plimsoll report`: a finished or incomplete recording as HTML, text, tables, JSON or SVG.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::open_page;
use super::output_file;
use super::recordings::locate;
use crate::cli::{Format, Report, Theme, Verbosity};
use plimsoll_lab::run::recording_failure;
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::recording::model::file;
use plimsoll_model::recording::{Recording, RecordingFolder};
use plimsoll_report::{self as report, Page};

pub(super) fn report(options: &Report, verbosity: &Verbosity) -> Result<Exit, Failure> {
    if (options.chart.is_some() || options.theme.is_some()) && options.format != Format::Svg {
        return Err(Failure::message(
            Exit::Usage,
            "cannot choose a chart or its theme: --chart and --theme need --format svg; add it, or leave them out",
        ));
    }
    if options.open && (options.format != Format::Html || options.output.as_deref() == Some(Path::new("-"))) {
        return Err(Failure::message(
            Exit::Usage,
            "cannot open the report: --open needs an HTML file; leave out --format, and --output -",
        ));
    }
    let options = &Report {
        run: locate(&options.run)?,
        ..options.clone()
    };
    let folder = RecordingFolder::open(&options.run).map_err(recording_failure)?;
    let mut recording = Recording::open_in(&folder).map_err(recording_failure)?;
    for warning in &recording.warnings {
        super::print_error(&format!("warning: {warning}"));
    }
    let (results, groups) = plimsoll_report::take_results(&mut recording);
    if options.json {
        super::print_json(&results)?;
        return Ok(Exit::Done);
    }
    let document = match options.format {
        Format::Html => Document::Page(Box::new(report::page::build_from(recording, results, groups))),
        Format::Text if recording.manifest.observes() => Document::Text(report::terminal::watched(
            &recording,
            &results,
            super::width_of_stdout(),
        )),
        Format::Text => Document::Text(report::terminal::summary(
            &results,
            &groups,
            super::width_of_stdout(),
            super::colour_on_stdout(verbosity),
        )),
        Format::Csv => Document::Text(report::csv::csv(&results)),
        Format::Markdown => Document::Text(report::markdown::markdown(&recording, &results)),
        Format::Json => Document::Text(report::json::json(&results).or_exit(Exit::WorkloadFailed)?),
        Format::Svg => {
            let page = report::page::build_from(recording, results, groups);
            let is_dark = options.theme == Some(Theme::Dark);
            let chart = report::html::chart(&page, options.chart.as_deref(), is_dark);
            Document::Text(chart.or_exit(Exit::Usage)?)
        }
    };
    match &options.output {
        Some(path) if path.as_os_str() == "-" => print(options, &document)?,
        Some(path) => {
            let result = output_file::to_file(path, |file| document.write(file));
            written(options, path, result, verbosity)?;
        }
        // The recording may be another user's: a link in place of its report is replaced, not followed.
        None if options.format == Format::Html => {
            let path = options.run.join(file::REPORT);
            let result = folder.replace_file(file::REPORT, |file| {
                let mut output = BufWriter::new(file);
                document.write(&mut output)?;
                output.flush()
            });
            written(options, &path, result, verbosity)?;
        }
        None => print(options, &document)?,
    }
    Ok(Exit::Done)
}

/// A report before it is written.
enum Document {
    Text(String),
    /// Its HTML is made while it is written: that of many trials takes more memory than its contents.
    Page(Box<Page>),
}

impl Document {
    fn write(&self, output: &mut impl Write) -> io::Result<()> {
        match self {
            Document::Text(text) => output.write_all(text.as_bytes()),
            Document::Page(page) => report::html::write(page, output),
        }
    }
}

fn print(options: &Report, document: &Document) -> Result<(), Failure> {
    match document {
        Document::Text(text) => print_text(options, text),
        Document::Page(page) => super::print_pieces(|output| report::html::write(page, output)),
    }
}

fn print_text(options: &Report, text: &str) -> Result<(), Failure> {
    match options.format {
        Format::Text => super::print_styled(text),
        Format::Json => super::print_json_text(text),
        _ => super::print_document(text),
    }
}

pub(super) fn open(run: &Path) -> Result<Recording, Failure> {
    Recording::open(run).map_err(recording_failure)
}

/// Prints the path of a report, and opens it on request.
fn written(
    options: &Report,
    path: &Path,
    result: io::Result<()>,
    verbosity: &Verbosity,
) -> Result<(), Failure> {
    result
        .map_err(|error| anyhow::anyhow!("cannot write {}: {error}", path.display()))
        .or_exit(Exit::Missing)?;
    super::print_linked("", path, verbosity)?;
    match options.open {
        true => open_page::open(path),
        false => Ok(()),
    }
}
