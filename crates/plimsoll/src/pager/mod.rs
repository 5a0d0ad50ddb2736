//! Reads the pagers of running processes without stopping them.
//!
//! ```text
//! /proc/PID/maps -> records -> stat() -> PagerSurvey -> render()
//! ```
//!
//! Invariant: `stat` reads without formatting, `render` formats without reading; `plimsoll_pager::published` counts and
//! checks.
//!
//! # A new value of a pager
//!
//! 1. In `plimsoll-pager`: a field of `Stats` in `stats.rs`. Its source is an `Event` (`manager/counters.rs`) or `Derived`
//!    (`stats/derived.rs`), which other processes read: `LAYOUT` in `published/root.rs` grows when a value changes its meaning.
//! 2. For `pager stat`: a row in `rows.rs`, and in `docs/src/pager-stat.md`.
//! 3. For embedding programs: `layout.rs` and the header of `plimsoll-pager-c`.
//! 4. For `exec --stats`: `plimsoll-exec/src/statistics.rs`; for the summary of `exec`: `exec/counters.rs`.
//! 5. For a sample column: `plimsoll-sample/src/pagers.rs`; for `ps`: `processes/pager.rs` of `plimsoll-monitor`.
//!
//! Steps 3 to 5 are for values that are wanted there.

mod error;
mod model;
mod rows;
mod stat;
mod text;

#[cfg(test)]
mod tests;

pub use error::PagerStatError;
pub use model::{PAGER_SCHEMA, PageFileReport, PagerReport, PagerSurvey, PagerValidation};
pub use stat::stat;
pub use text::render;
