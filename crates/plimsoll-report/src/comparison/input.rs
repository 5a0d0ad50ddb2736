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
pub(super) struct GroupValues {
    pub(super) group: String,
    pub(super) label: String,
    /// How many trials failed; empty if none did.
    pub(super) note: String,
    /// In the order of the reports.
    pub(super) sides: Vec<(String, Side)>,
}

/// A, B ... Z, then R27 and so on.
pub(super) fn letter(index: usize) -> String {
    match u8::try_from(index) {
        Ok(index) if index < 26 => char::from(b'A' + index).to_string(),
        _ => format!("R{}", index + 1),
    }
}
