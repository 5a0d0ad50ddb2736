//! The samples next to a phase.

use super::model::Phase;
use super::samples::Samples;
use crate::columns::Row;

/// The samples next to a phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PhaseRows {
    pub before: Row,
    pub after: Row,
}

/// The samples next to a phase, found in a recording: the last that was begun before it, the first begun after it.
pub fn rows_around(samples: &Samples, phase: &Phase) -> Option<PhaseRows> {
    Some(PhaseRows {
        before: samples.row(samples.at_or_before(phase.span_ns.0)?),
        after: samples.row(samples.at_or_after(phase.span_ns.1)?),
    })
}
