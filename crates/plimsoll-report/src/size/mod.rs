//! The RAM that a program needs: the result of a search of its knee, as a document, text, Markdown and a part of the HTML report.
//!
//! ```text
//! trials of `command` -> result (knees of the repeats, interval, recommended limit) -> advice -> text, Markdown, HTML
//! ```
//!
//! - Invariant: the result follows from the recording alone, and the order of its trials changes nothing. Checked by
//!   `the_order_of_trials_changes_nothing`.

mod advice;
mod markdown;
mod result;
mod section;
mod text;
mod words;

pub(crate) use markdown::push;
pub(crate) use result::of;
pub(crate) use section::{complete, marks};
pub use text::text;
pub(crate) use words::{Block, blocks};
