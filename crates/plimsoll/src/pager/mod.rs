//! Reads the pagers of running processes without stopping them.
//!
//! ```text
//! /proc/PID/maps -> records -> stat() -> PagerSurvey -> render()
//! ```
//!
//! Invariant: `stat` reads without formatting, `render` formats without reading; `plimsoll_pager::published` counts and
//! checks.

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
