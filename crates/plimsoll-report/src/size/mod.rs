//! The RAM that a program needs: the result of a search of its knee, the settings that follow from it, and their words.
//!
//! ```text
//! trials of `command` -> result (knees of the repeats, interval, recommended limit) -> advice -> words of every format
//! ```
//!
//! - Invariant: the result follows from the recording alone, and the order of its trials changes nothing. Checked by
//!   `the_order_of_trials_changes_nothing`.

mod advice;
mod result;
mod words;

pub(crate) use result::of;
pub(crate) use words::{Block, HEADS, TITLE, blocks, conditions, notes, row};
