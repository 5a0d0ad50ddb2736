//! `plimsoll compare`: runs against a baseline, and conditions that they must meet.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::report::open;
use crate::analysis;
use crate::analysis::compare::{Comparison, Condition, Input, Standing, check};
use crate::cli::{Compare, CompareFormat, Talk};
use crate::exit::{Exit, Failure, OrExit};
use crate::recording::Recording;
use crate::recording::model::Results;
use crate::report;
use crate::report::compare::{csv, html, markdown, terminal, words};

/// Carries out the command: 6 when a condition is broken, 7 when one cannot be judged.
pub(super) fn compare(options: &Compare, talk: &Talk) -> Result<Exit, Failure> {
    let threshold = threshold(options)?;
    let conditions: Vec<Condition> = options
        .fail_on
        .iter()
        .map(|text| text.parse())
        .collect::<Result<_, _>>()
        .or_exit(Exit::Usage)?;
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
    let results: Vec<Results> = recordings.iter().map(analysis::results).collect();
    let inputs: Vec<Input<'_>> = recordings
        .iter()
        .zip(&results)
        .map(|(recording, results)| Input { recording, results })
        .collect();
    let mut comparison = analysis::compare::compare(&inputs, threshold).or_exit(Exit::Usage)?;
    for condition in &conditions {
        let outcomes = check(condition, &comparison).or_exit(Exit::Usage)?;
        comparison.conditions.extend(outcomes);
    }
    write(options, talk, &comparison, &inputs)?;
    let format = if options.json {
        CompareFormat::Json
    } else {
        options.format
    };
    // The table on standard output ends with them.
    if format != CompareFormat::Text || output(options).is_some() {
        for outcome in comparison
            .conditions
            .iter()
            .filter(|one| one.standing != Standing::Passed)
        {
            super::print_error(&words::outcome(&comparison, outcome));
        }
    }
    Ok(exit(&comparison))
}

/// The threshold as a share.
fn threshold(options: &Compare) -> Result<f64, Failure> {
    let valid = options.threshold.is_finite() && options.threshold >= 0.0;
    valid.then_some(options.threshold / 100.0).ok_or_else(|| {
        Failure::message(
            Exit::Usage,
            format_args!(
                "--threshold {} is not a percentage of 0 or more",
                options.threshold
            ),
        )
    })
}

/// A run compared with itself is never worse: more likely a slip than a wish.
fn different_folders(runs: &[PathBuf]) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    for run in runs {
        // A folder that cannot be resolved is told of when it is opened.
        let resolved = run.canonicalize().unwrap_or_else(|_| run.clone());
        if !seen.insert(resolved) {
            let text = format!(
                "{} is named twice: name recordings of different runs",
                run.display()
            );
            return Err(Failure::message(Exit::Usage, text));
        }
    }
    Ok(())
}

fn write(
    options: &Compare,
    talk: &Talk,
    comparison: &Comparison,
    inputs: &[Input<'_>],
) -> Result<(), Failure> {
    if options.json {
        return super::print_json(comparison);
    }
    let path = output(options);
    let text = match options.format {
        CompareFormat::Text => {
            let colour = path.is_none() && super::colour_on_stdout(talk);
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
        None => super::print(&text),
        Some(path) => {
            std::fs::write(&path, text)
                .map_err(|error| anyhow::anyhow!("cannot write {}: {error}", path.display()))
                .or_exit(Exit::Missing)?;
            super::print(&format!("{}\n", path.display()))
        }
    }
}

/// The file to write, or none for standard output.
fn output(options: &Compare) -> Option<PathBuf> {
    match &options.output {
        Some(path) if path.as_os_str() == "-" => None,
        Some(path) => Some(path.clone()),
        None => (options.format == CompareFormat::Html).then(|| PathBuf::from("compare.html")),
    }
}

fn exit(comparison: &Comparison) -> Exit {
    let any = |standing| comparison.conditions.iter().any(|one| one.standing == standing);
    if any(Standing::Failed) {
        Exit::Regression
    } else if any(Standing::Unknown) {
        Exit::Untrustworthy
    } else {
        Exit::Done
    }
}
