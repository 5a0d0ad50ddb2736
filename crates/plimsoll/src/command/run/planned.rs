//! `plimsoll run --check`, `--dry-run` and `--show`: the plan without a run.

use serde::Serialize;

use crate::cli;
use plimsoll_lab::run::requirements::{Lack, Requirements, adapt, requirements};
use plimsoll_lab::run::{RecordingSize, check_room, check_settings, check_sizes};
use plimsoll_model::columns::COLUMNS;
use plimsoll_model::exit::{Exit, Failure};
use plimsoll_model::quantity;
use plimsoll_model::scenario::{Machine, Plan};

/// Version of the documents of `--check --json`, `--dry-run --json` and `--show --json`.
const PLAN_SCHEMA: u32 = 1;
/// Bytes of one sample in an unfinished recording: every column, with its share of validity bits and batch headers.
const SAMPLE: u64 = 10 * COLUMNS.len() as u64;
/// Bytes of the report (at most 5 MB for a run of any length), the events and the trials.
const PAGE: u64 = 6 << 20;

/// The document of `--check --json` and `--dry-run --json`.
#[derive(Serialize)]
struct Planned<'a> {
    schema: u32,
    version: &'static str,
    scenario: &'a str,
    title: &'a str,
    /// Whether a run would start.
    runs: bool,
    /// Ids of the trials, in their order.
    trials: Vec<&'a str>,
    bounds: BoundsDocument,
    /// Requirements for lack of which a run is refused.
    missing: &'a [Lack],
    /// Privileges for lack of which phases will not run.
    incomplete: &'a [Lack],
    /// The error of a size that this machine cannot hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    too_large: Option<String>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct BoundsDocument {
    expected_s: f64,
    time_limit_s: f64,
    memory_bytes: u64,
    memory_limit_bytes: u64,
    cgroup_limit_bytes: u64,
    files_bytes: u64,
    recording_bytes: u64,
}

/// The document of `--show --json`.
#[derive(Serialize)]
struct Shown<'a> {
    schema: u32,
    version: &'static str,
    plan: &'a Plan,
}

/// Prints the plan as the options ask. Fails with the code of the run that this machine would refuse.
pub(super) fn present(options: &cli::Run, mut plan: Plan, machine: &Machine) -> Result<Exit, Failure> {
    if options.show {
        match options.json {
            true => crate::command::print_json(&Shown {
                schema: PLAN_SCHEMA,
                version: env!("CARGO_PKG_VERSION"),
                plan: &plan,
            })?,
            false => crate::command::print_document(&plan.to_toml())?,
        }
        return Ok(Exit::Done);
    }
    let mut found = requirements_of(&mut plan);
    let mut sizes = check_sizes(&plan, machine);
    if options.dry_run && sizes.is_ok() {
        sizes = check_room(&plan, &options.output, recording_size(&plan, options.hz))
            .map(|warning| found.notes.extend(warning.map(|warning| warning.text)));
    }
    if options.json {
        let document = document(&plan, options.hz, &found, &sizes);
        crate::command::print_json(&document)?;
    } else if options.dry_run {
        crate::command::print(&describe(&plan, options.hz))?;
    } else if found.refused.is_empty() && sizes.is_ok() {
        crate::command::print(&format!("{}: ok, {} trials\n", plan.scenario, plan.trials.len()))?;
    }
    for lack in &found.degraded {
        found.notes.push(format!(
            "some phases of {} trials will not run: {}",
            lack.trials, lack.missing
        ));
    }
    for note in found.notes.iter().filter(|_| !options.json) {
        crate::command::print_error(&format!("note: {note}"));
    }
    // As a run does, in this order.
    check_settings(&plan)?;
    found.refuse(&plan)?;
    sizes.map(|()| Exit::Done)
}

fn requirements_of(plan: &mut Plan) -> Requirements {
    let adapted = adapt(plan);
    let mut found = requirements(plan);
    found
        .notes
        .splice(0..0, adapted.into_iter().map(|warning| warning.text));
    found
}

fn document<'a>(
    plan: &'a Plan,
    hz: u32,
    found: &'a Requirements,
    sizes: &Result<(), Failure>,
) -> Planned<'a> {
    let bounds = plan.bounds();
    Planned {
        schema: PLAN_SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        scenario: &plan.scenario,
        title: &plan.title,
        runs: found.refused.is_empty() && sizes.is_ok(),
        trials: plan.trials.iter().map(|trial| trial.id.as_str()).collect(),
        bounds: BoundsDocument {
            expected_s: bounds.seconds,
            time_limit_s: bounds.time_limit,
            memory_bytes: bounds.memory,
            memory_limit_bytes: bounds.memory_limit,
            cgroup_limit_bytes: bounds.cgroup_limit,
            files_bytes: bounds.disk,
            recording_bytes: recording_size(plan, hz).most,
        },
        missing: &found.refused,
        incomplete: &found.degraded,
        too_large: sizes.as_ref().err().map(|failure| format!("{:#}", failure.error)),
        notes: &found.notes,
    }
}

/// The plan with its memory, disk and time, for `--dry-run`.
fn describe(plan: &Plan, hz: u32) -> String {
    let mut text = format!("{}: {}\n{}\n", plan.scenario, plan.title, bounds(plan, hz));
    for (number, trial) in plan.trials.iter().enumerate() {
        text.push_str(&format!("{:>4}  {}\n", number + 1, trial.id));
    }
    text
}

/// Estimates and limits of the run in one line, for `--dry-run` and the start of every run.
pub(in crate::command) fn bounds(plan: &Plan, hz: u32) -> String {
    let bounds = plan.bounds();
    let bytes = |bytes: u64| quantity::bytes(bytes as f64);
    let disk = match bounds.disk {
        0 => "no swap file".to_owned(),
        size => format!("files of at most {}", bytes(size)),
    };
    format!(
        "{} trials, about {:.0} s, stopped after {:.0} s; about {} of memory, never more than {} (cgroup limit {}); \
         {disk}, and a recording of at most {}",
        plan.trials.len(),
        bounds.seconds,
        bounds.time_limit,
        bytes(bounds.memory),
        bytes(bounds.memory_limit),
        bytes(bounds.cgroup_limit),
        bytes(recording_size(plan, hz).most),
    )
}

/// Bytes of the recording of a run.
pub(in crate::command) fn recording_size(plan: &Plan, hz: u32) -> RecordingSize {
    let bounds = plan.bounds();
    let of = |seconds: f64| (seconds * f64::from(hz)) as u64 * SAMPLE + PAGE;
    RecordingSize {
        expected: of(bounds.seconds.min(bounds.time_limit)),
        most: of(bounds.time_limit),
    }
}
