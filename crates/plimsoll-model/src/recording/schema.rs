//! The column table as an Arrow schema, rows as record batches, and the table of the columns for people.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use arrow_array::builder::Int64Builder;
use arrow_array::{ArrayRef, RecordBatch, UInt64Array, new_null_array};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use super::model::RECORDING_SCHEMA;
use crate::columns::{COLUMNS, Column, Row, Unit};

/// Name of the time column.
pub(super) const TIME: &str = "t_ns";
const TIME_MEANING: &str =
    "Time of the sample since the start of the recording; the first column, never null.";
const TIME_SOURCE: &str = "CLOCK_MONOTONIC";

/// Keys of the metadata of a field and of the schema.
mod key {
    pub(super) const SCHEMA: &str = "plimsoll.schema";
    pub(super) const UNIT: &str = "unit";
    pub(super) const MEANING: &str = "meaning";
    pub(super) const SOURCE: &str = "source";
}

/// The Arrow schema of the samples: time, then [`COLUMNS`], each with unit, meaning and source as field metadata.
pub(super) fn arrow_schema() -> SchemaRef {
    let time = Field::new(TIME, DataType::UInt64, false).with_metadata(described(
        Unit::Nanoseconds,
        TIME_MEANING,
        TIME_SOURCE,
    ));
    let columns = COLUMNS.iter().map(|column| {
        Field::new(column.name, DataType::Int64, true).with_metadata(described(
            column.unit,
            column.meaning,
            column.source,
        ))
    });
    let fields: Vec<Field> = std::iter::once(time).chain(columns).collect();
    Arc::new(Schema::new(fields).with_metadata(HashMap::from([(
        key::SCHEMA.to_owned(),
        RECORDING_SCHEMA.to_string(),
    )])))
}

fn described(unit: Unit, meaning: &str, source: &str) -> HashMap<String, String> {
    HashMap::from([
        (key::UNIT.to_owned(), unit_name(unit)),
        (key::MEANING.to_owned(), meaning.to_owned()),
        (key::SOURCE.to_owned(), source.to_owned()),
    ])
}

/// The unit as it stands in files: its serialised name.
fn unit_name(unit: Unit) -> String {
    match serde_json::to_value(unit) {
        Ok(serde_json::Value::String(name)) => name,
        _ => format!("{unit:?}"),
    }
}

/// The descriptions of the columns as JSON, for tools that do not read Arrow's own metadata.
pub(super) fn columns_json() -> String {
    let columns: Vec<serde_json::Value> = arrow_schema()
        .fields()
        .iter()
        .map(|field| {
            let said = |key: &str| field.metadata().get(key).cloned().unwrap_or_default();
            serde_json::json!({
                "name": field.name(),
                "unit": said(key::UNIT),
                "meaning": said(key::MEANING),
                "source": said(key::SOURCE),
            })
        })
        .collect();
    serde_json::Value::Array(columns).to_string()
}

/// Version of the recording format that a schema says it has.
pub(super) fn schema_version(schema: &Schema) -> Option<u32> {
    schema.metadata().get(key::SCHEMA)?.parse().ok()
}

/// Names of the columns that hold values: all but the time.
pub(super) fn value_columns(schema: &Schema) -> impl Iterator<Item = &str> {
    schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .filter(|&name| name != TIME)
}

/// Rows as one record batch of [`arrow_schema`].
pub(super) fn batch(schema: &SchemaRef, rows: &[Row]) -> Result<RecordBatch, ArrowError> {
    let time = UInt64Array::from_iter_values(rows.iter().map(|row| row.t_ns));
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(COLUMNS.len() + 1);
    arrays.push(Arc::new(time));
    for index in 0..COLUMNS.len() {
        let mut builder = Int64Builder::with_capacity(rows.len());
        for row in rows {
            builder.append_option(row.get(index));
        }
        arrays.push(Arc::new(builder.finish()));
    }
    RecordBatch::try_new(schema.clone(), arrays)
}

/// A batch of another version's columns, or of columns without their descriptions, as one of [`arrow_schema`]: what it
/// lacks is absent throughout.
pub(super) fn conform(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = arrow_schema();
    let column = |field: &Arc<Field>| -> ArrayRef {
        match batch.column_by_name(field.name()) {
            Some(column) if column.data_type() == field.data_type() => column.clone(),
            _ => new_null_array(field.data_type(), batch.num_rows()),
        }
    };
    let columns = schema.fields().iter().map(column).collect();
    RecordBatch::try_new(schema, columns)
}

/// The table of the columns in Markdown, as `docs/recording-format.md` holds it.
pub fn format_table_markdown() -> String {
    let time = Column {
        name: TIME,
        unit: Unit::Nanoseconds,
        meaning: TIME_MEANING,
        source: TIME_SOURCE,
    };
    columns_markdown(std::iter::once(&time).chain(COLUMNS))
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
