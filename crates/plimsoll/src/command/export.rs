//! `plimsoll export`: a recording in formats of other programs.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;

use crate::cli::{Export, ExportFormat};
use plimsoll_lab::run::recording_failure;
use plimsoll_model::exit::{Exit, Failure};
use plimsoll_model::recording::Recording;
use plimsoll_report::export::{self, ExportError};

pub(super) fn export(options: &Export) -> Result<Exit, Failure> {
    let to_stdout = options.output.as_os_str() == "-";
    if to_stdout && options.format == ExportFormat::Parquet && io::stdout().is_terminal() {
        return Err(Failure::message(
            Exit::Usage,
            "cannot write Parquet to a terminal: name a file with `--output FILE`, or redirect the output with `> FILE`",
        ));
    }
    let written = match to_stdout {
        true => stdout().and_then(|mut output| {
            write(options, &mut output)?;
            Ok(output.flush().map_err(ExportError::Write)?)
        }),
        false => export::to_file(&options.output, |output| write(options, output)),
    };
    match written {
        Ok(()) => Ok(Exit::Done),
        Err(Stop::Failure(failure)) => Err(failure),
        // A closed pipe (`plimsoll export RUN -f csv | head`) is not an error.
        Err(Stop::Write(error)) if to_stdout && error.kind() == ErrorKind::BrokenPipe => Ok(Exit::Done),
        Err(Stop::Write(error)) => Err(Failure::message(
            Exit::Missing,
            format_args!("cannot write {}: {error}", options.output.display()),
        )),
    }
}

/// The failure of an export.
enum Stop {
    /// Of the recording.
    Failure(Failure),
    /// Of the output.
    Write(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Stop::Write(error)
    }
}

impl From<ExportError> for Stop {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Read(error) => Stop::Failure(recording_failure(error)),
            ExportError::Write(error) => Stop::Write(error),
        }
    }
}

fn write(options: &Export, output: &mut (impl Write + Send)) -> Result<(), Stop> {
    match options.format {
        ExportFormat::Parquet => export::parquet(&options.run, output)?,
        ExportFormat::Csv => export::csv(&open(options)?, output)?,
        ExportFormat::Json => {
            let recording = open(options)?;
            export::json(&recording, &plimsoll_report::results(&recording), output)?;
        }
        ExportFormat::Prometheus => {
            let recording = open(options)?;
            export::prometheus(&recording, &plimsoll_report::results(&recording), output)?;
        }
    }
    Ok(())
}

fn open(options: &Export) -> Result<Recording, Stop> {
    let recording = super::report::open(&options.run).map_err(Stop::Failure)?;
    for warning in &recording.warnings {
        super::print_error(&format!("warning: {warning}"));
    }
    Ok(recording)
}

/// Standard output without the line buffer of Rust's `Stdout`.
fn stdout() -> Result<BufWriter<File>, Stop> {
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    Ok(BufWriter::with_capacity(1 << 18, File::from(output)))
}
