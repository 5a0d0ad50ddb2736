//! A recording in the forms of other programs.
//!
//! ```text
//! folder -> parquet (the samples, as a finished recording holds them)
//! Recording -> csv (the samples)
//!           -> json (everything, one document)
//!           -> prometheus (results, and the last of the samples)
//! ```
//!
//! Each is written piece by piece: nothing but the recording itself is held in memory. The command puts it into a file
//! whole or not at all.

mod csv;
mod exposition;
mod json;
mod prometheus;

pub use csv::csv;
pub use exposition::{Exposition, Families, labels};
pub use json::{EXPORT_SCHEMA, json};
pub use prometheus::prometheus;

use plimsoll_model::columns::{COLUMNS, Unit};
use plimsoll_model::recording::{ColumnView, Samples};

pub use plimsoll_model::recording::{CopyError as ExportError, copy_parquet as parquet};

/// A column of the samples as it is exported.
#[derive(Debug, Clone, Copy)]
struct Exported<'a> {
    name: &'a str,
    /// Its unit, where this version knows the column.
    unit: Option<Unit>,
    /// Its values, where the recording has it.
    values: Option<ColumnView<'a>>,
}

/// Every column that this version knows, in its order, then the others that the recording has, by name.
fn columns(samples: &Samples) -> Vec<Exported<'_>> {
    let known = COLUMNS.iter().map(|column| Exported {
        name: column.name,
        unit: Some(column.unit),
        values: samples.column(column.name),
    });
    let mut others: Vec<&str> = samples
        .column_names()
        .filter(|name| COLUMNS.iter().all(|column| column.name != *name))
        .collect();
    others.sort_unstable();
    let others = others.into_iter().map(|name| Exported {
        name,
        unit: None,
        values: samples.column(name),
    });
    known.chain(others).collect()
}
