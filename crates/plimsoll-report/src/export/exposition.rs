//! Metric families as text: Prometheus' format, version 0.0.4, and OpenMetrics 1.0.
//!
//! Names have base units at the end (`_seconds`, `_bytes`, `_ratio`) and counters end with `_total`, as OpenMetrics
//! requires and Prometheus recommends. There are no timestamps: a textfile collector rejects them.

use std::collections::BTreeMap;
use std::io::{self, Write};

use plimsoll_model::columns::{COLUMNS, Column, Row, Unit};

/// Units that OpenMetrics declares, each at the end of the names of its families.
const UNITS: [&str; 3] = ["bytes", "seconds", "ratio"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposition {
    Prometheus,
    OpenMetrics,
}

impl Exposition {
    /// Content type of a document in this format.
    pub fn content_type(self) -> &'static str {
        match self {
            Exposition::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Exposition::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    /// Text in labels, with the value 1.
    Info,
}

impl Kind {
    /// The ending that the samples' name has beyond the family's.
    fn ending(self) -> &'static str {
        match self {
            Kind::Counter => "_total",
            Kind::Gauge => "",
            Kind::Info => "_info",
        }
    }

    fn word(self, format: Exposition) -> &'static str {
        match (self, format) {
            (Kind::Counter, _) => "counter",
            (Kind::Info, Exposition::OpenMetrics) => "info",
            // Prometheus' format has no type for text.
            (Kind::Gauge | Kind::Info, _) => "gauge",
        }
    }
}

/// A metric family: its lines stand together, under one head.
#[derive(Debug)]
struct Family {
    kind: Kind,
    help: String,
    /// Values by labels, as they are written: no two lines have the same.
    values: BTreeMap<String, f64>,
}

/// Metric families by name, without the endings of its kind.
#[derive(Debug, Default)]
pub struct Families(BTreeMap<String, Family>);

impl Families {
    /// Adds a value of a gauge. `labels` are those of [`labels`], or empty.
    pub fn gauge(&mut self, name: &str, help: &str, labels: &str, value: f64) {
        self.add(Kind::Gauge, name, help, labels, value);
    }

    /// Adds text, in labels. Its name in the document ends with `_info`.
    pub fn info(&mut self, name: &str, help: &str, labels: &str) {
        self.add(Kind::Info, name, help, labels, 1.0);
    }

    /// Adds every known value of a sample: a family `plimsoll_sample_*` for each column, named and explained by
    /// [`COLUMNS`].
    pub fn sample(&mut self, row: &Row, page_size: u64, labels: &str) {
        for (index, column) in COLUMNS.iter().enumerate() {
            if let Some(value) = row.get(index) {
                let (kind, name, value) = in_family(column, value as f64, page_size);
                self.add(kind, &name, column.meaning, labels, value);
            }
        }
    }

    /// Adds a value, unless it is not finite or the family has one with these labels.
    fn add(&mut self, kind: Kind, name: &str, help: &str, labels: &str, value: f64) {
        if !value.is_finite() {
            return;
        }
        let family = self.0.entry(name.to_owned()).or_insert_with(|| Family {
            kind,
            help: help.to_owned(),
            values: BTreeMap::new(),
        });
        family.values.entry(labels.to_owned()).or_insert(value);
    }

    /// Writes the document.
    ///
    /// # Errors
    /// Those of `output`.
    pub fn write(&self, format: Exposition, output: &mut impl Write) -> io::Result<()> {
        for (name, family) in &self.0 {
            let kind = family.kind.word(format);
            let ending = family.kind.ending();
            match format {
                Exposition::Prometheus => {
                    writeln!(output, "# HELP {name}{ending} {}", escape(&family.help))?;
                    writeln!(output, "# TYPE {name}{ending} {kind}")?;
                }
                Exposition::OpenMetrics => {
                    writeln!(output, "# TYPE {name} {kind}")?;
                    if let Some(unit) = unit_of(name) {
                        writeln!(output, "# UNIT {name} {unit}")?;
                    }
                    writeln!(output, "# HELP {name} {}", escape_quoted(&family.help))?;
                }
            }
            for (labels, value) in &family.values {
                match labels.as_str() {
                    "" => writeln!(output, "{name}{ending} {value}")?,
                    labels => writeln!(output, "{name}{ending}{{{labels}}} {value}")?,
                }
            }
        }
        match format {
            Exposition::Prometheus => Ok(()),
            Exposition::OpenMetrics => writeln!(output, "# EOF"),
        }
    }
}

fn unit_of(name: &str) -> Option<&'static str> {
    UNITS
        .into_iter()
        .find(|unit| name.strip_suffix(unit).is_some_and(|stem| stem.ends_with('_')))
}

/// Type and name of a column's family, and `value` in the family's unit.
fn in_family(column: &Column, value: f64, page_size: u64) -> (Kind, String, f64) {
    let stem = |ending: &str| column.name.strip_suffix(ending).unwrap_or(column.name);
    let (kind, stem, unit, value) = match column.unit {
        Unit::Bytes => (Kind::Gauge, column.name, "_bytes", value),
        Unit::Number => (Kind::Gauge, column.name, "", value),
        Unit::Nanoseconds => (Kind::Gauge, stem("_ns"), "_seconds", value / 1e9),
        Unit::Count => (Kind::Counter, column.name, "", value),
        Unit::CountBytes => (Kind::Counter, column.name, "_bytes", value),
        Unit::CountPages => (Kind::Counter, column.name, "_bytes", value * page_size as f64),
        Unit::CountMicroseconds => (Kind::Counter, stem("_us"), "_seconds", value / 1e6),
    };
    (kind, format!("plimsoll_sample_{stem}{unit}"), value)
}

/// Labels as they are written, without the braces.
pub fn labels(pairs: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = pairs
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escape_quoted(value)))
        .collect();
    pairs.join(",")
}

/// Text of labels, and of OpenMetrics' help: as [`escape`], and with quotation marks escaped.
fn escape_quoted(text: &str) -> String {
    escape(text).replace('"', "\\\"")
}

/// Text with line breaks and backslashes escaped. Other control characters, which a terminal might act on, are replaced.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            c if c.is_control() => escaped.push(char::REPLACEMENT_CHARACTER),
            c => escaped.push(c),
        }
    }
    escaped
}
