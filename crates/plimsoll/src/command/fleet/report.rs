//! `plimsoll fleet report`: the report of a data set as HTML, and its conclusions as text.

use std::io;
use std::path::{Path, PathBuf};

use super::super::{open_page, output_file};
use super::{data, failure, read_plan};
use crate::cli::{FleetReport, Verbosity};
use plimsoll_fleet::FleetError;
use plimsoll_fleet::plan;
use plimsoll_fleet::report::{self, FailOn, ReportOutcome};
use plimsoll_model::exit::{Exit, Failure, OrExit};

/// In the fleet's folder.
const REPORT: &str = "report.html";
/// In a data set.
const TASKS: &str = "tasks.parquet";

/// Returns code 6 if a condition fails, 7 if one has no verdict.
pub(super) fn report(options: &FleetReport, verbosity: &Verbosity) -> Result<Exit, Failure> {
    let is_stdout = options.output.as_deref() == Some(Path::new("-"));
    if options.open && is_stdout {
        let text = "cannot open the report: --open needs a file; leave out --output -";
        return Err(Failure::message(Exit::Usage, text));
    }
    let conditions: Vec<FailOn> = options
        .fail_on
        .iter()
        .map(|text| text.parse())
        .collect::<Result<_, _>>()
        .or_exit(Exit::Usage)?;
    let plan = read_plan(&options.folder)?;
    require_data("report", &options.folder)?;
    let baseline = options.against.as_deref().map(data_of).transpose()?;
    let write = |output: &mut dyn io::Write| {
        let mut output = output;
        report::write(
            &data(&options.folder),
            &plan,
            baseline.as_deref(),
            &mut output,
            &conditions,
        )
    };
    if is_stdout {
        let mut html = Vec::new();
        let outcome = write(&mut html).map_err(failure)?;
        super::super::print_document(&String::from_utf8_lossy(&html))?;
        return conclude(&outcome, options, verbosity);
    }
    let path = match &options.output {
        Some(path) => path.clone(),
        None => options.folder.join(REPORT),
    };
    let mut outcome = None;
    let written = output_file::to_file(&path, |file| {
        outcome = Some(write(file)?);
        Ok::<(), WriteError>(())
    });
    written.map_err(|error| match error {
        WriteError::Fleet(error) => failure(error),
        WriteError::Io(source) => failure(FleetError::io("write", &path, source)),
    })?;
    super::super::print_linked("", &path, verbosity)?;
    if options.open {
        open_page::open(&path)?;
    }
    match outcome {
        Some(outcome) => conclude(&outcome, options, verbosity),
        None => Ok(Exit::Done),
    }
}

/// An error on the way to a file.
enum WriteError {
    Fleet(FleetError),
    Io(io::Error),
}

impl From<FleetError> for WriteError {
    fn from(error: FleetError) -> WriteError {
        WriteError::Fleet(error)
    }
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> WriteError {
        WriteError::Io(error)
    }
}

/// Prints the conclusions; on standard error if the report is on standard output.
fn conclude(outcome: &ReportOutcome, options: &FleetReport, verbosity: &Verbosity) -> Result<Exit, Failure> {
    let exit = outcome.exit();
    let lines = outcome.lines();
    if options.output.as_deref() == Some(Path::new("-")) {
        if exit != Exit::Done {
            lines.iter().for_each(|line| super::super::print_error(line));
        }
    } else if !verbosity.quiet || exit != Exit::Done {
        super::super::print(&(lines.join("\n") + "\n"))?;
    }
    Ok(exit)
}

/// The data set that the user names by itself or by its fleet folder.
fn data_of(named: &Path) -> Result<PathBuf, Failure> {
    if !named.join(plan::FILE).exists() {
        return Ok(named.to_owned());
    }
    require_data("compare with", named)?;
    Ok(data(named))
}

/// Refuses a fleet folder without a data set.
fn require_data(verb: &str, folder: &Path) -> Result<(), Failure> {
    // Another error is that of the reader.
    if !matches!(data(folder).join(TASKS).try_exists(), Ok(false)) {
        return Ok(());
    }
    let folder = folder.display();
    let text = format!("cannot {verb} {folder}: it has no data set; run `plimsoll fleet collect {folder}`");
    Err(Failure::message(Exit::Missing, text))
}
