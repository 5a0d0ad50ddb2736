//! `plimsoll compare`: compares runs with a baseline and checks conditions.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;

use super::output_file;
use super::recordings::locate;
use super::report::open;
use crate::cli::{Compare, CompareFormat, Verbosity};
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::recording::Recording;
use plimsoll_model::recording::model::Results;
use plimsoll_report as report;
use plimsoll_report::compare::{csv, html, markdown, terminal, words};
use plimsoll_report::comparison;
use plimsoll_report::comparison::{CompareError, Comparison, Condition, Input, State, check};

/// Returns code 6 if a condition fails, 7 if one has no verdict.
pub(super) fn compare(options: &Compare, verbosity: &Verbosity) -> Result<Exit, Failure> {
    let threshold = threshold(options)?;
    let conditions: Vec<Condition> = options
        .fail_on
        .iter()
        .map(|text| text.parse())
        .collect::<Result<_, _>>()
        .or_exit(Exit::Usage)?;
    let options = &Compare {
        runs: options
            .runs
            .iter()
            .map(|run| locate(run))
            .collect::<Result<_, _>>()?,
        ..options.clone()
    };
    different_folders(&options.runs)?;
    let recordings: Vec<Recording> = options
        .runs
        .iter()
        .map(|run| open(run))
        .collect::<Result<_, _>>()?;
    for (folder, recording) in options.runs.iter().zip(&recordings) {
        for warning in &recording.warnings {
            super::print_error(&format!("warning: {}: {warning}", folder.display()));
        }
    }
    let results: Vec<Results> = recordings.iter().map(plimsoll_report::results).collect();
    let inputs: Vec<Input<'_>> = recordings
        .iter()
        .zip(&results)
        .map(|(recording, results)| Input { recording, results })
        .collect();
    let mut comparison = comparison::compare(&inputs, threshold).map_err(|error| {
        let exit = match error {
            CompareError::AllFailed(_) => Exit::WorkloadFailed,
            _ => Exit::Usage,
        };
        Failure::new(exit, error)
    })?;
    for condition in &conditions {
        let outcomes = check(condition, &comparison).or_exit(Exit::Usage)?;
        comparison.conditions.extend(outcomes);
    }
    write(options, verbosity, &comparison, &inputs)?;
    // The table on standard output includes the outcomes.
    if format(options) != CompareFormat::Text || output(options).is_some() {
        for outcome in comparison
            .conditions
            .iter()
            .filter(|one| one.state != State::Passed)
        {
            super::print_error(&words::outcome(&comparison, outcome));
        }
    }
    Ok(exit(comparison.state()))
}

fn threshold(options: &Compare) -> Result<f64, Failure> {
    let valid = options.threshold.is_finite() && options.threshold >= 0.0;
    valid.then_some(options.threshold / 100.0).ok_or_else(|| {
        Failure::message(
            Exit::Usage,
            format_args!(
                "cannot use --threshold {}: not a percentage of 0 or more",
                options.threshold
            ),
        )
    })
}

/// Rejects a recording that is named twice: compared with itself it is never worse.
fn different_folders(runs: &[PathBuf]) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    for run in runs {
        // `open` reports a folder that cannot be resolved.
        let resolved = run.canonicalize().unwrap_or_else(|_| run.clone());
        if !seen.insert(resolved) {
            let text = format!(
                "cannot compare {} with itself: name recordings of different runs",
                run.display()
            );
            return Err(Failure::message(Exit::Usage, text));
        }
    }
    Ok(())
}

fn write(
    options: &Compare,
    verbosity: &Verbosity,
    comparison: &Comparison,
    inputs: &[Input<'_>],
) -> Result<(), Failure> {
    let path = output(options);
    let text = match format(options) {
        CompareFormat::Text => {
            let colour = path.is_none() && super::colour_on_stdout(verbosity);
            terminal::summary(comparison, super::width_of_stdout(), colour)
        }
        CompareFormat::Html => {
            let page = |input: &Input<'_>| report::page::build(input.recording, input.results);
            html::render(comparison, &inputs.iter().map(page).collect::<Vec<_>>())
        }
        CompareFormat::Markdown => markdown::markdown(comparison),
        CompareFormat::Csv => csv::csv(comparison),
        CompareFormat::Json => serde_json::to_string_pretty(comparison).or_exit(Exit::WorkloadFailed)? + "\n",
    };
    match path {
        None => match format(options) {
            CompareFormat::Text => super::print_styled(&text),
            CompareFormat::Json => super::print_json_text(&text),
            _ => super::print_document(&text),
        },
        Some(path) => {
            output_file::to_file(&path, |file| file.write_all(text.as_bytes()))
                .map_err(|error: io::Error| anyhow::anyhow!("cannot write {}: {error}", path.display()))
                .or_exit(Exit::Missing)?;
            super::print_linked("", &path, verbosity)
        }
    }
}

fn format(options: &Compare) -> CompareFormat {
    if options.json {
        CompareFormat::Json
    } else {
        options.format
    }
}

/// The output file; none for standard output.
fn output(options: &Compare) -> Option<PathBuf> {
    match &options.output {
        Some(path) if path.as_os_str() == "-" => None,
        Some(path) => Some(path.clone()),
        None => (format(options) == CompareFormat::Html).then(|| PathBuf::from("compare.html")),
    }
}

fn exit(state: State) -> Exit {
    match state {
        State::Passed => Exit::Done,
        State::Failed => Exit::Regression,
        State::Unknown => Exit::Untrustworthy,
    }
}
