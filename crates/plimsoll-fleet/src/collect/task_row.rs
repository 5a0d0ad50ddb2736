//! A task as a row of `tasks.parquet`.

use plimsoll_model::recording::table::Value;
use plimsoll_model::sanitize::{sanitize, sanitize_json, shorten};
use serde::Serialize;

use super::state::TaskState;
use crate::fingerprint::Fingerprint;
use crate::plan::{RunName, Task};
use crate::task::{Attempt, AttemptOutcome, TaskResult};

const TEXT_MAX: usize = 1000;

/// An attempt in `attempt_list`.
#[derive(Serialize)]
struct Listed<'a> {
    number: u32,
    host: &'a str,
    outcome: AttemptOutcome,
    exit: Option<u8>,
    started: &'a str,
    ended: Option<&'a str>,
    engine_restarts: Option<u32>,
}

/// The row of a task, with the documents of a result that is done.
pub(super) fn row(
    run: &RunName,
    task: &Task,
    state: &TaskState,
    finished: Option<(&TaskResult, &Fingerprint)>,
) -> Vec<Value> {
    let result = finished.map(|(result, _)| result);
    let host = finished.map(|(_, host)| host);
    let rows = state.rows;
    vec![
        text(run.as_str()),
        text(task.id.as_str()),
        optional(state.host.as_deref().map(text)),
        integer(task.repeat.into()),
        text(state.state.name()),
        optional(state.state.reason().map(text)),
        integer((state.attempts.len() + state.unreadable) as u64),
        Value::Text(attempt_list(&state.attempts)),
        optional(result.map(|result| integer(result.attempt.into()))),
        optional(state.exit.map(|exit| integer(exit.into()))),
        optional(restarts(state, result)),
        optional(state.engine.as_ref().map(|engine| text(&engine.state))),
        optional(state.engine.as_ref().map(|engine| json(&engine.hosts))),
        optional(result.map(|result| text(&result.started))),
        optional(result.map(|result| text(&result.ended))),
        optional(result.map(|result| text(&result.binary_sha256))),
        optional(host.map(|host| text(&host.class_key()))),
        optional(host.map(|host| text(&host.architecture))),
        optional(host.map(|host| text(&host.machine))),
        optional(host.map(|host| text(&host.kernel))),
        optional(host.map(|host| integer(host.cpus.into()))),
        optional(host.map(|host| integer(host.memory_bytes))),
        optional(host.map(|host| json(&host.swap))),
        optional(host.map(|host| json(&host.settings))),
        optional(rows.map(|rows| integer(rows.samples))),
        optional(rows.map(|rows| integer(rows.trials))),
        optional(rows.map(|rows| integer(rows.metrics))),
    ]
}

/// The restarts that the engine's record or the documents of the task have: a start may have ended before it wrote one.
fn restarts(state: &TaskState, result: Option<&TaskResult>) -> Option<Value> {
    let documents = match result {
        Some(result) => result.engine_restarts,
        None => state.attempts.last().and_then(|attempt| attempt.engine_restarts),
    };
    let engine = state.engine.as_ref().map(|engine| engine.restarts);
    Some(integer(documents.max(engine)?.into()))
}

fn attempt_list(attempts: &[Attempt]) -> String {
    let listed: Vec<Listed<'_>> = attempts
        .iter()
        .map(|attempt| Listed {
            number: attempt.number,
            host: &attempt.host,
            outcome: attempt.outcome,
            exit: attempt.exit,
            started: &attempt.started,
            ended: attempt.ended.as_deref(),
            engine_restarts: attempt.engine_restarts,
        })
        .collect();
    serde_json::to_string(&listed).unwrap_or_default()
}

fn json(document: &impl Serialize) -> Value {
    let json = serde_json::to_string(document).unwrap_or_default();
    Value::Text(sanitize_json(&json).into_owned())
}

fn text(text: &str) -> Value {
    Value::Text(shorten(&sanitize(text), TEXT_MAX).into_owned())
}

fn integer(value: u64) -> Value {
    Value::Integer(i64::try_from(value).unwrap_or(i64::MAX))
}

fn optional(value: Option<Value>) -> Value {
    value.unwrap_or_default()
}
