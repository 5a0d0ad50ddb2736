//! `plimsoll run`: resolves the plan, runs it and prints the results.

pub(super) mod planned;
mod task;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::open_page;
use super::recordings::locate_in;
use crate::cli::{self, Verbosity};
use crate::heap;
use crate::libraries;
use crate::progress::TerminalProgress;
use plimsoll_lab::environment;
use plimsoll_lab::run::{self, HeapService, HeapState, Outcome, ServiceError, Services};
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::recording::model::Results;
use plimsoll_model::recording::{Recording, RecordingFolder};
use plimsoll_model::sanitize::sanitize;
use plimsoll_model::scenario::{self, Document, FrontEnd, HeapProfile, Machine, Overrides, Plan};
use plimsoll_report as report;
use plimsoll_report::analysis;

/// The functions of the other crates that a run calls.
pub(super) const SERVICES: Services = Services {
    metrics: plimsoll_report::workloads::metrics,
    results: plimsoll_report::results,
    report: write_report,
    heap: HeapService {
        unpack: || libraries::MALLOC.unpack().map_err(ServiceError::from),
        variables: heap_variables,
        inspect: inspect_heap,
    },
};

/// The default scenario.
const TOUR: &str = "tour";

pub(super) fn run(options: &cli::Run, verbosity: &Verbosity) -> Result<Exit, Failure> {
    if let Some(id) = &options.task {
        return task::run(options, id, verbosity);
    }
    let resume = match &options.resume {
        Some(name) => Some(locate_in(name, &options.output)?),
        None => None,
    };
    let options = &cli::Run {
        resume,
        ..options.clone()
    };
    let machine = environment::machine().or_exit(Exit::Missing)?;
    let plan = match &options.resume {
        Some(folder) => recorded_plan(folder, options.scenario.as_deref())?,
        None => document(options)?
            .resolve(&machine, &overrides(options)?)
            .or_exit(Exit::Usage)?,
    };
    if options.check || options.dry_run || options.show {
        return planned::present(options, plan, &machine);
    }
    let mut progress = TerminalProgress::new(verbosity.quiet, verbosity.verbose);
    progress.bounds(&planned::bounds(&plan, options.hz));
    let outcome = run::run(settings(options, plan, machine), &SERVICES, &mut progress)?;
    present(&outcome, options.json, verbosity)?;
    if !options.open {
        return Ok(outcome.exit);
    }
    match (open_page::open(&outcome.page), outcome.exit) {
        (Err(failure), Exit::Done) => Err(failure),
        (Err(failure), exit) => {
            // The exit code is that of the run.
            super::print_failure(&failure, verbosity);
            Ok(exit)
        }
        (Ok(()), exit) => Ok(exit),
    }
}

/// The run of a plan as the options ask for it.
fn settings(options: &cli::Run, plan: Plan, machine: Machine) -> run::Options {
    run::Options {
        size: planned::recording_size(&plan, options.hz),
        plan,
        machine,
        hz: options.hz,
        output: options.output.clone(),
        resume: options.resume.clone(),
        wait: options.wait.map(Duration::from_secs),
    }
}

/// The scenario on the command line, or the default.
fn document(options: &cli::Run) -> Result<Document, Failure> {
    let name = match options.scenario.as_deref() {
        // A file name may contain `=` too.
        Some(change) if change.contains('=') && !Path::new(change).exists() => {
            return Err(Failure::message(
                Exit::Usage,
                format_args!(
                    "cannot apply `{change}`: no scenario precedes it; write for example \
                     `plimsoll run thrash {change}`, or `plimsoll run tour {change}`"
                ),
            ));
        }
        Some(name) => name,
        None => TOUR,
    };
    let source = scenario::find(name).or_exit(Exit::Usage)?;
    Document::parse(&source).or_exit(Exit::Usage)
}

fn overrides(options: &cli::Run) -> Result<Overrides, Failure> {
    if let Some(stray) = options.changes.iter().find(|change| !change.contains('=')) {
        return Err(Failure::message(
            Exit::Usage,
            format_args!(
                "cannot use `{stray}`: not a KEY=VALUE; a run has one scenario, and changes follow it, for example size=1G"
            ),
        ));
    }
    Ok(Overrides {
        quick: options.quick,
        repeat: options.repeat,
        set: options.set.iter().chain(&options.changes).cloned().collect(),
        seed: options.seed,
        scale: options.scale.clone(),
    })
}

/// The plan of the recording to resume: resolving the scenario again could change sizes in percent.
fn recorded_plan(folder: &Path, named: Option<&str>) -> Result<Plan, Failure> {
    let plan = super::report::open(folder)?.manifest.plan;
    // Of `watch`, `hold` or a sizing: the end of a run without trials would replace its results.
    if plan.trials.is_empty() {
        return Err(Failure::message(
            Exit::Usage,
            format_args!(
                "cannot resume {}: a recording of `{}`, which has no trials; start that command again",
                folder.display(),
                sanitize(&plan.scenario),
            ),
        ));
    }
    let Some(named) = named else { return Ok(plan) };
    let source = scenario::find(named).or_exit(Exit::Usage)?;
    let document = Document::parse(&source).or_exit(Exit::Usage)?;
    let scenario = document.name();
    if plan.scenario != scenario {
        return Err(Failure::message(
            Exit::Usage,
            format_args!(
                "cannot resume {}: a recording of `{}`, not of `{scenario}`; name its scenario, or none",
                folder.display(),
                plan.scenario,
            ),
        ));
    }
    Ok(plan)
}

/// Prints the summary of a run, or its results as JSON.
fn present(outcome: &Outcome, json: bool, verbosity: &Verbosity) -> Result<(), Failure> {
    if json {
        return super::print_json(&outcome.results);
    }
    let groups = analysis::groups(&outcome.results.trials);
    let colour = super::colour_on_stdout(verbosity);
    let mut text = report::terminal::summary(&outcome.results, &groups, super::width_of_stdout(), colour);
    if let Some(needed) = report::repeats::needed(&groups) {
        let hint = report::repeats::hint(&needed);
        text.push_str(&report::terminal::wrapped(&hint, super::width_of_stdout()));
    }
    text.push_str(&format!("\nRecording  {}\n", outcome.directory.display()));
    super::print_styled(&text)?;
    super::print_linked("Report     ", &outcome.page, verbosity)
}

fn write_report(
    recording: &Recording,
    results: &Results,
    folder: &RecordingFolder,
) -> Result<PathBuf, ServiceError> {
    report::write_page(recording, results, folder).map_err(ServiceError::from)
}

/// The environment of a worker on the embedded heap.
fn heap_variables(
    library: &Path,
    front_end: FrontEnd,
    profile: HeapProfile,
) -> Vec<(&'static str, OsString)> {
    let launch = heap::Launch {
        library: library.to_owned(),
        front_end: match front_end {
            FrontEnd::LowFragmentation => heap::HeapFrontEnd::LowFragmentation,
            FrontEnd::Standard => heap::HeapFrontEnd::Standard,
        },
        hardened: profile == HeapProfile::Hardened,
    };
    launch.environment(None)
}

/// The heap of a worker: the first one that `heap stat` reports for its process.
fn inspect_heap(pid: u32) -> Result<Option<HeapState>, ServiceError> {
    let stat = heap::stat(pid, false)?;
    let Some(process) = stat.survey.processes.into_iter().next() else {
        return Ok(None);
    };
    let profile = match process.hardened {
        true => HeapProfile::Hardened,
        false => HeapProfile::Default,
    };
    Ok(process.heaps.into_iter().next().map(|heap| HeapState {
        profile,
        front_end: match heap.front_end {
            "low-fragmentation" => Some(FrontEnd::LowFragmentation),
            "standard" => Some(FrontEnd::Standard),
            _ => None,
        },
        free_blocks: heap.free_blocks,
        uncommitted_ranges: heap.uncommitted_ranges,
        external_fragmentation_percent: heap.external_fragmentation_percent,
        virtual_fragmentation_percent: heap.virtual_fragmentation_percent,
    }))
}
