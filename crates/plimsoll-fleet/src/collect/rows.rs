//! A trial as rows of the tables.

use std::io::Write;

use plimsoll_model::recording::model::{Trial, TrialStatus};
use plimsoll_model::recording::table::{TableError, Value, Writer};
use plimsoll_model::sanitize::{sanitize, shorten};
use plimsoll_report::long_form::{self, LongValue};
use plimsoll_report::workloads::find_metric;

/// Longest name of a trial, a workload, a subject, a phase or a metric, in bytes.
const NAME_MAX: usize = 1000;
const PARAMS_MAX: usize = 10_000;
/// Characters of a reason; the rest of a longer one is left out.
const REASON_MAX: usize = 1000;

/// A trial cannot become rows.
#[derive(Debug, thiserror::Error)]
pub(super) enum RowError {
    #[error("{0} of a trial is longer than that of any run")]
    TooLong(&'static str),
    #[error("its results have more values than those of any run")]
    TooMany,
    #[error(transparent)]
    Table(#[from] TableError),
}

/// The columns that both tables begin with.
struct Head {
    trial: Value,
    workload: Value,
    subject: Value,
    params: Value,
    repeat: Value,
}

impl Head {
    fn of(trial: &Trial) -> Result<Head, RowError> {
        let params = serde_json::to_string(&trial.params).unwrap_or_default();
        if params.len() > PARAMS_MAX {
            return Err(RowError::TooLong("a parameter"));
        }
        Ok(Head {
            trial: name("the id", &trial.id)?,
            workload: name("the workload", &trial.workload)?,
            subject: name("the subject", &trial.subject)?,
            params: Value::Text(plimsoll_model::sanitize::sanitize_json(&params).into_owned()),
            repeat: Value::Integer(trial.repeat.into()),
        })
    }

    fn row(&self, rest: impl IntoIterator<Item = Value>) -> Vec<Value> {
        let head = [
            &self.trial,
            &self.workload,
            &self.subject,
            &self.params,
            &self.repeat,
        ];
        head.into_iter().cloned().chain(rest).collect()
    }
}

/// Writes the row of a trial.
pub(super) fn write_trial<W: Write>(trial: &Trial, table: &mut Writer<W>) -> Result<(), RowError> {
    let reasons = trial.reasons.join("\n");
    let row = Head::of(trial)?.row([
        Value::Text(status(trial.status).to_owned()),
        Value::Flag(trial.verified),
        reason(reasons.lines()),
        nanoseconds(trial.span_ns.0),
        nanoseconds(trial.span_ns.1),
    ]);
    Ok(table.write(row)?)
}

/// Writes the rows of a trial's values, at most `most`, and returns their number.
pub(super) fn write_metrics<W: Write>(
    trial: &Trial,
    table: &mut Writer<W>,
    most: u64,
) -> Result<u64, RowError> {
    let head = Head::of(trial)?;
    let mut rows = 0;
    for value in long_form::values(trial) {
        if rows == most {
            return Err(RowError::TooMany);
        }
        let metric = find_metric(&value.name);
        let row = head.row([
            match value.phase {
                "" => Value::Absent,
                phase => name("a phase", phase)?,
            },
            name("a metric", &value.name)?,
            Value::Text(value.unit.text().to_owned()),
            metric.map_or(Value::Absent, |metric| {
                Value::Text(metric.direction.text().to_owned())
            }),
            Value::Flag(metric.is_some_and(|metric| metric.headline)),
            Value::Number(value.value),
            Value::Text(status(value.status).to_owned()),
            Value::Flag(value.status == TrialStatus::Ok),
            why(trial, &value),
        ]);
        table.write(row)?;
        rows += 1;
    }
    Ok(rows)
}

/// The reason to distrust a value.
fn why(trial: &Trial, value: &LongValue<'_>) -> Value {
    match value.status {
        TrialStatus::Ok => Value::Absent,
        TrialStatus::Failed => reason(trial.reasons.iter().flat_map(|text| text.lines())),
        TrialStatus::Untrustworthy => match long_form::spoilers(trial, value) {
            names if names.is_empty() => reason(trial.reasons.iter().flat_map(|text| text.lines())),
            names => {
                let names: Vec<&str> = names.into_iter().collect();
                reason([names.join(", ").as_str()])
            }
        },
    }
}

/// Foreign lines as one text; absent if they are empty.
fn reason<'a>(lines: impl IntoIterator<Item = &'a str>) -> Value {
    let mut text = String::new();
    for line in lines {
        if text.len() > 4 * REASON_MAX {
            break;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&sanitize(&shorten(line, REASON_MAX)));
    }
    match text.is_empty() {
        true => Value::Absent,
        false => Value::Text(shorten(&text, REASON_MAX).into_owned()),
    }
}

fn name(kind: &'static str, text: &str) -> Result<Value, RowError> {
    match text.len() {
        0..=NAME_MAX => Ok(Value::Text(sanitize(text).into_owned())),
        _ => Err(RowError::TooLong(kind)),
    }
}

fn status(status: TrialStatus) -> &'static str {
    match status {
        TrialStatus::Ok => "ok",
        TrialStatus::Failed => "failed",
        TrialStatus::Untrustworthy => "untrustworthy",
    }
}

fn nanoseconds(time: u64) -> Value {
    Value::Integer(i64::try_from(time).unwrap_or(i64::MAX))
}
