//! Values of keys, and their text.

use std::fmt;
use std::path::PathBuf;

use super::block_sizes::BlockSizes;
use super::kind::{INSTALLED, Kind, SYSTEM};
use super::level::Level;
use super::model::{FillClass, Subject};
use super::size::SizeExpr;
use super::workload_kind::WorkloadKind;

/// A value of a key. Trial ids and parameters have its text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Workload(WorkloadKind),
    Subject(Subject),
    /// Every allocator of the machine.
    Installed,
    Class(FillClass),
    BlockSizes(BlockSizes),
    Size(SizeExpr),
    Level(Level),
    Seconds(f64),
    Number(f64),
    Choice(&'static str),
    Flag(bool),
    Integer(u64),
    /// Leave it as the system has it.
    System,
    Folder(PathBuf),
    Text(String),
}

/// A text as a TOML string.
pub fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

impl Value {
    pub(super) fn bytes(bytes: u64) -> Value {
        Value::Size(SizeExpr::Bytes(bytes))
    }

    /// The bytes of a size that is no share.
    pub(super) fn as_bytes(&self) -> Option<u64> {
        match self {
            Value::Size(SizeExpr::Bytes(bytes)) => Some(*bytes),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Workload(workload) => f.write_str(workload.name()),
            Value::Subject(subject) => subject.fmt(f),
            Value::Installed => f.write_str(INSTALLED),
            Value::Class(class) => class.fmt(f),
            Value::BlockSizes(sizes) => sizes.fmt(f),
            Value::Size(size) => size.fmt(f),
            Value::Level(level) => level.fmt(f),
            // The debug form of a float is the shortest that reads back as the same, and always a TOML float.
            Value::Seconds(number) | Value::Number(number) if number.fract() == 0.0 => write!(f, "{number}"),
            Value::Seconds(number) | Value::Number(number) => write!(f, "{number:?}"),
            Value::Choice(name) => f.write_str(name),
            Value::Flag(flag) => flag.fmt(f),
            Value::Integer(number) => number.fmt(f),
            Value::System => f.write_str(SYSTEM),
            Value::Folder(path) => path.display().fmt(f),
            Value::Text(text) => f.write_str(text),
        }
    }
}

/// The value of the default of a row, from its text; none if the row is wrong.
pub(super) fn of_text(kind: Kind, text: &str) -> Option<Value> {
    Some(match kind {
        Kind::Workload => Value::Workload(WorkloadKind::of_name(text)?),
        Kind::Subject if text == INSTALLED => Value::Installed,
        Kind::Subject => Value::Subject(text.parse().ok()?),
        Kind::Class => Value::Class(text.parse().ok()?),
        Kind::Size => Value::Size(text.parse().ok()?),
        Kind::Level => Value::Level(text.parse().ok()?),
        Kind::Seconds { .. } => Value::Seconds(text.parse().ok()?),
        Kind::Number { .. } => Value::Number(text.parse().ok()?),
        Kind::BlockSizes => Value::BlockSizes(text.parse().ok()?),
        Kind::Choice(names) => Value::Choice(names.iter().find(|name| **name == text)?),
        Kind::Flag => Value::Flag(text.parse().ok()?),
        Kind::Integer { .. } => Value::Integer(text.parse().ok()?),
        Kind::Folder => Value::Folder(PathBuf::from(text)),
        Kind::Text => Value::Text(text.to_owned()),
    })
}

/// A text of the user, shortened so that a message stays one line.
pub(super) fn short(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(40)
        .collect();
    if text.chars().nth(40).is_some() {
        shown.push_str("...");
    }
    shown
}
