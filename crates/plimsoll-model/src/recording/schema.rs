//! The column table as a schema and as Markdown, and rows as batches.

use std::fmt::Write as _;
use std::sync::Arc;

use super::batch::{Batch, Column as Values, Field, Schema, TIME};
use super::model::RECORDING_SCHEMA;
use crate::columns::{COLUMNS, Column, Row, Unit};

const TIME_MEANING: &str =
    "Time of the sample since the start of the recording; the first column, never null.";
const TIME_SOURCE: &str = "CLOCK_MONOTONIC";

/// Key of the format's version in the metadata of a file.
pub(super) const VERSION_KEY: &str = "plimsoll.schema";

/// Keys of the metadata of a column.
mod key {
    pub(super) const UNIT: &str = "unit";
    pub(super) const MEANING: &str = "meaning";
    pub(super) const SOURCE: &str = "source";
}

/// The schema of the samples: time, then [`COLUMNS`], each with unit, meaning and source.
pub(super) fn sample_schema() -> Schema {
    let fields = all_columns().map(|column| Field {
        name: column.name.to_owned(),
        signed: column.name != TIME,
        metadata: vec![
            (key::UNIT, unit_name(column.unit)),
            (key::MEANING, column.meaning.to_owned()),
            (key::SOURCE, column.source.to_owned()),
        ],
    });
    Schema::first_is_time(Some(RECORDING_SCHEMA), fields.collect())
}

/// The time and [`COLUMNS`].
fn all_columns() -> impl Iterator<Item = Column> {
    let time = Column {
        name: TIME,
        unit: Unit::Nanoseconds,
        meaning: TIME_MEANING,
        source: TIME_SOURCE,
    };
    std::iter::once(time).chain(COLUMNS.iter().copied())
}

/// The serialised name of the unit.
fn unit_name(unit: Unit) -> String {
    match serde_json::to_value(unit) {
        Ok(serde_json::Value::String(name)) => name,
        _ => format!("{unit:?}"),
    }
}

/// The descriptions of the columns as JSON, for tools that do not read Arrow's own metadata.
pub(super) fn columns_json() -> String {
    let columns = all_columns().map(|column| {
        serde_json::json!({
            "name": column.name,
            "unit": unit_name(column.unit),
            "meaning": column.meaning,
            "source": column.source,
        })
    });
    serde_json::Value::Array(columns.collect()).to_string()
}

/// Rows as one batch of [`sample_schema`], which the caller keeps.
pub(super) fn batch(schema: &Arc<Schema>, rows: &[Row]) -> Batch {
    let mut batch = Batch::empty(Arc::clone(schema));
    batch.times = rows.iter().map(|row| row.t_ns).collect();
    batch.columns = (0..COLUMNS.len())
        .map(|index| {
            let mut column = Values::default();
            for (before, row) in rows.iter().enumerate() {
                column.push(before, row.get(index));
            }
            column
        })
        .collect();
    batch
}

/// The table of the columns in Markdown, as `docs/recording-format.md` holds it.
pub fn format_table_markdown() -> String {
    let columns: Vec<Column> = all_columns().collect();
    columns_markdown(&columns)
}

/// Columns as a Markdown table: name, unit, meaning, source.
pub fn columns_markdown<'a>(columns: impl IntoIterator<Item = &'a Column>) -> String {
    let mut table = String::from("| column | unit | meaning | source |\n|---|---|---|---|\n");
    for column in columns {
        let cell = |text: &str| text.replace('|', "\\|");
        // Writing to a String cannot fail.
        let _ = writeln!(
            table,
            "| `{}` | {} | {} | {} |",
            column.name,
            unit_name(column.unit),
            cell(column.meaning),
            cell(column.source)
        );
    }
    table
}
