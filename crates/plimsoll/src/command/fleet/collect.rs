//! `plimsoll fleet collect`: merges the results, and lists the tasks that are not done.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde::Serialize;

use super::{data, failure, read_plan};
use crate::cli::{FleetCollect, Verbosity};
use plimsoll_fleet::Submitted;
use plimsoll_fleet::accounting::Accounting;
use plimsoll_fleet::collect::{self, Collected, Rows, State, TaskState};
use plimsoll_fleet::plan::Plan;
use plimsoll_fleet::task::Attempt;
use plimsoll_model::exit::{Exit, Failure};
use plimsoll_model::quantity::counted;
use plimsoll_model::sanitize::sanitize;

/// Most tasks that the text lists; `--json` has all.
const MOST_LISTED: usize = 50;

#[derive(Serialize)]
struct Document<'c> {
    schema: u32,
    run: &'c str,
    data: String,
    /// The reason why the engine's own record of the tasks is missing, or of an earlier collection.
    engine_error: Option<&'c str>,
    /// The number of tasks in each state.
    counts: BTreeMap<&'static str, usize>,
    copied: usize,
    kept: usize,
    tasks: Vec<DocumentTask<'c>>,
    unknown: &'c [String],
    unknown_count: usize,
}

#[derive(Serialize)]
struct DocumentTask<'c> {
    id: &'c str,
    host: Option<&'c str>,
    #[serde(flatten)]
    state: &'c State,
    exit: Option<u8>,
    attempts: &'c [Attempt],
    unreadable_attempts: usize,
    engine: Option<&'c Accounting>,
    rows: Option<Rows>,
}

/// Returns code 2 if a task is not done.
pub(super) fn collect(options: &FleetCollect, verbosity: &Verbosity) -> Result<Exit, Failure> {
    let plan = read_plan(&options.folder)?;
    let data = data(&options.folder);
    let refused = ask_engine(&plan, &options.folder)?;
    let collected = collect::collect(&options.folder, &plan, &data).map_err(failure)?;
    let engine_error = refused.or_else(|| collected.records_error.clone());
    if options.json {
        super::super::print_json(&Document {
            schema: 1,
            run: plan.run.as_str(),
            data: data.to_string_lossy().into_owned(),
            engine_error: engine_error.as_deref(),
            counts: counts(&collected),
            copied: collected.copied,
            kept: collected.kept,
            tasks: collected.tasks.iter().map(document_task).collect(),
            unknown: &collected.unknown,
            unknown_count: collected.unknown_count,
        })?;
    } else if !verbosity.quiet || collected.incomplete() > 0 {
        let data = data.to_string_lossy();
        super::super::print(&summary(&collected, &sanitize(&data), plan.engine.name()))?;
        if let Some(error) = engine_error {
            super::super::print_error(&format!(
                "cannot read task states from {}: {error}; states are missing or from the last collect",
                plan.engine.name()
            ));
        }
    }
    Ok(match collected.incomplete() {
        0 => Exit::Done,
        _ => Exit::WorkloadFailed,
    })
}

/// Refreshes the engine's own record of the tasks. An engine that cannot answer is no failure of the collection.
fn ask_engine(plan: &Plan, folder: &Path) -> Result<Option<String>, Failure> {
    let submitted = Submitted::read(folder).map_err(failure)?;
    let refused = submitted.and_then(|submitted| super::keep_accounting(plan, folder, &submitted).err());
    Ok(refused.map(|error| error.to_string()))
}

fn document_task(task: &TaskState) -> DocumentTask<'_> {
    DocumentTask {
        id: task.id.as_str(),
        host: task.host.as_deref(),
        state: &task.state,
        exit: task.exit,
        attempts: &task.attempts,
        unreadable_attempts: task.unreadable,
        engine: task.engine.as_ref(),
        rows: task.rows,
    }
}

fn counts(collected: &Collected) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::from(State::NAMES.map(|name| (name, 0)));
    for task in &collected.tasks {
        *counts.entry(task.state.name()).or_default() += 1;
    }
    counts
}

/// `; slurm: NODE_FAIL on node7`.
fn engine_state(task: &TaskState, engine: &str) -> String {
    match &task.engine {
        None => String::new(),
        Some(record) => match record.hosts.last() {
            Some(host) => format!("; {engine}: {} on {host}", record.state),
            None => format!("; {engine}: {}", record.state),
        },
    }
}

/// `on node7`.
fn place(task: &TaskState) -> String {
    match &task.host {
        Some(host) => format!("on {}", sanitize(host)),
        None => "(no host yet)".to_owned(),
    }
}

fn summary(collected: &Collected, data: &str, engine: &str) -> String {
    let mut text = String::new();
    let counts = counts(collected);
    let count = |name| counts.get(name).copied().unwrap_or_default();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "Tasks     {}: {} done, {} failed, {} missing, {} corrupt, {} unreadable",
        collected.tasks.len(),
        count("done"),
        count("failed"),
        count("missing"),
        count("corrupt"),
        count("unreadable")
    );
    let unfinished = collected.tasks.iter().filter(|task| task.state != State::Done);
    for task in unfinished.take(MOST_LISTED) {
        let _ = writeln!(
            text,
            "  {:10}  {} {}, {}: {}{}",
            task.state.name(),
            task.id,
            place(task),
            counted(task.attempts.len() + task.unreadable, "attempt"),
            sanitize(task.state.reason().unwrap_or_default()),
            engine_state(task, engine)
        );
    }
    let more = collected.incomplete().saturating_sub(MOST_LISTED);
    if more > 0 {
        let _ = writeln!(text, "  and {more} more; --json lists all");
    }
    if collected.unknown_count > 0 {
        let (entries, belong) = match collected.unknown_count {
            1 => ("1 entry".to_owned(), "belongs"),
            many => (format!("{many} entries"), "belong"),
        };
        let _ = writeln!(
            text,
            "Unknown   {entries} in tasks/ {belong} to no task of the plan: {}",
            collected.unknown.join(", ")
        );
    }
    let _ = writeln!(
        text,
        "Data set  {data}: {} results copied, {} kept",
        collected.copied, collected.kept
    );
    text
}
