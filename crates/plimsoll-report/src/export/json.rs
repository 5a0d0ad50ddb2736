//! The whole recording as one JSON document.

use std::io::{self, Write};

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{Exported, columns};
use plimsoll_model::columns::Unit;
use plimsoll_model::recording::model::{Event, Manifest, Results, Trial};
use plimsoll_model::recording::{ColumnView, Recording, Samples, Warning};

/// Version of the document. 2 has warnings with a code, 3 `values` of phases, which were `figures`.
pub const EXPORT_SCHEMA: u32 = 3;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    version: &'static str,
    complete: bool,
    warnings: &'a [Warning],
    manifest: &'a Manifest,
    events: &'a [Event],
    trials: &'a [Trial],
    results: &'a Results,
    samples: SamplesDocument<'a>,
}

#[derive(Serialize)]
struct SamplesDocument<'a> {
    t_ns: &'a [u64],
    columns: Columns<'a>,
}

struct Columns<'a>(&'a Samples);

#[derive(Serialize)]
struct ColumnDocument<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<Unit>,
    values: Values<'a>,
}

struct Values<'a>(ColumnView<'a>);

/// Writes everything that the recording holds, and `results`, as one document without line breaks.
///
/// # Errors
/// Those of `output`.
pub fn json(recording: &Recording, results: &Results, output: &mut impl Write) -> io::Result<()> {
    let document = Document {
        schema: EXPORT_SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        complete: recording.complete,
        warnings: &recording.warnings,
        manifest: &recording.manifest,
        events: &recording.events,
        trials: &recording.trials,
        results,
        samples: SamplesDocument {
            t_ns: recording.samples.t_ns(),
            columns: Columns(&recording.samples),
        },
    };
    serde_json::to_writer(&mut *output, &document)?;
    writeln!(output)
}

impl Serialize for Columns<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for Exported { name, unit, values } in columns(self.0) {
            if let Some(values) = values {
                let values = Values(values);
                map.serialize_entry(name, &ColumnDocument { unit, values })?;
            }
        }
        map.end()
    }
}

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter())
    }
}
