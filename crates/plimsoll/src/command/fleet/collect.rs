//! `plimsoll fleet collect`: merges the results, and lists the tasks that are not done.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::{data, failure, read_plan};
use crate::cli::{FleetCollect, Verbosity};
use plimsoll_fleet::collect::{self, Collected, Rows, State, TaskState};
use plimsoll_fleet::task::Attempt;
use plimsoll_model::exit::{Exit, Failure};
use plimsoll_model::sanitize::sanitize;

/// Tasks that are not done and that the text names; `--json` has all.
const MOST_LISTED: usize = 50;

#[derive(Serialize)]
struct Document<'c> {
    schema: u32,
    run: &'c str,
    data: String,
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
    rows: Option<Rows>,
}

/// Returns code 2 if a task is not done.
pub(super) fn collect(options: &FleetCollect, verbosity: &Verbosity) -> Result<Exit, Failure> {
    let plan = read_plan(&options.folder)?;
    let data = data(&options.folder);
    let collected = collect::collect(&options.folder, &plan, &data).map_err(failure)?;
    if options.json {
        super::super::print_json(&Document {
            schema: 1,
            run: plan.run.as_str(),
            data: data.to_string_lossy().into_owned(),
            counts: counts(&collected),
            copied: collected.copied,
            kept: collected.kept,
            tasks: collected.tasks.iter().map(document_task).collect(),
            unknown: &collected.unknown,
            unknown_count: collected.unknown_count,
        })?;
    } else if !verbosity.quiet || collected.incomplete() > 0 {
        super::super::print(&summary(&collected, &sanitize(&data.to_string_lossy())))?;
    }
    Ok(match collected.incomplete() {
        0 => Exit::Done,
        _ => Exit::WorkloadFailed,
    })
}

fn document_task(task: &TaskState) -> DocumentTask<'_> {
    DocumentTask {
        id: task.id.as_str(),
        host: task.host.as_deref(),
        state: &task.state,
        exit: task.exit,
        attempts: &task.attempts,
        unreadable_attempts: task.unreadable,
        rows: task.rows,
    }
}

fn counts(collected: &Collected) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::from(["done", "failed", "missing", "corrupt"].map(|name| (name, 0)));
    for task in &collected.tasks {
        *counts.entry(task.state.name()).or_default() += 1;
    }
    counts
}

fn summary(collected: &Collected, data: &str) -> String {
    let mut text = String::new();
    let counts = counts(collected);
    let count = |name| counts.get(name).copied().unwrap_or_default();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "Tasks     {}: {} done, {} failed, {} missing, {} corrupt",
        collected.tasks.len(),
        count("done"),
        count("failed"),
        count("missing"),
        count("corrupt")
    );
    let unfinished = collected.tasks.iter().filter(|task| task.state != State::Done);
    for task in unfinished.take(MOST_LISTED) {
        let _ = writeln!(
            text,
            "  {:7}  {} on {}, attempts {}: {}",
            task.state.name(),
            task.id,
            sanitize(task.host.as_deref().unwrap_or("no host yet")),
            task.attempts.len() + task.unreadable,
            sanitize(task.state.reason().unwrap_or_default())
        );
    }
    let more = collected.incomplete().saturating_sub(MOST_LISTED);
    if more > 0 {
        let _ = writeln!(text, "  and {more} more; --json lists all");
    }
    if collected.unknown_count > 0 {
        let _ = writeln!(
            text,
            "Unknown   {} names in the folder of tasks are of no task: {}",
            collected.unknown_count,
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
