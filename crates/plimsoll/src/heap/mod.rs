//! Runs unmodified programs on Plimsoll's heap, and inspects the heaps of running programs without stopping them.
//!
//! ```text
//! /proc/PID/maps -> control block -> stat() -> HeapSurvey -+-> render()
//!                                                          +-> html()
//! ```
//!
//! Invariant: `stat` and `stat_all` read without formatting, `render` and `html` format without reading;
//! `plimsoll_lfh::inspect` counts.

mod error;
mod find;
mod html;
mod launch;
mod model;
mod picture;
mod program;
mod report;
mod stat;
mod text;

#[cfg(test)]
mod tests;

pub use error::HeapStatError;
pub use html::html;
pub use launch::{HeapFrontEnd, Launch};
pub use model::{
    BucketReport, Cell, CellKind, DamageReport, FrontReport, HEAP_SCHEMA, HeapReport, HeapSurvey,
    ProcessHeaps, RangeReport, ValidationReport,
};
pub use program::{Obstacle, Program, ProgramError};
pub use stat::{Stat, stat, stat_all};
pub use text::{HeapDetail, render};
