//! The runs to compare and the values of their groups.

use super::model::Side;
use plimsoll_model::recording::Recording;
use plimsoll_model::recording::model::Results;

#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    pub recording: &'a Recording,
    pub results: &'a Results,
}

/// The values of a group by metric.
#[derive(Debug, Clone)]
pub struct GroupValues {
    /// Identity.
    pub group: String,
    pub label: String,
    /// How many trials failed; empty if none did.
    pub note: String,
    /// In the order of the reports.
    pub sides: Vec<(String, Side)>,
}

/// A run of many hosts, each with one value of a metric of a group.
#[derive(Debug, Clone)]
pub struct Fleet {
    pub name: String,
    pub folder: String,
    pub scenario: String,
    /// Start in UTC, RFC 3339.
    pub started: String,
    /// Tasks.
    pub tasks: usize,
    /// Tasks without a result.
    pub failed: usize,
    pub groups: Vec<GroupValues>,
}

/// A, B ... Z, then R27 and so on.
pub(super) fn letter(index: usize) -> String {
    match u8::try_from(index) {
        Ok(index) if index < 26 => char::from(b'A' + index).to_string(),
        _ => format!("R{}", index + 1),
    }
}
