//! Runs unmodified programs on Plimsoll's heap, and inspects the heaps of running programs without stopping them.
//!
//! ```text
//! /proc/PID/maps -> control block -> stat() -> HeapSurvey -+-> render()
//!                                                          +-> html()
//! ```
//!
//! Invariant: `stat` and `stat_all` read without formatting, `render` and `html` format without reading;
//! `plimsoll_lfh::inspect` counts.
//!
//! # A new value of `heap stat`
//!
//! A field of `HeapStatistics` in `plimsoll-lfh/src/inspect/statistics.rs`, and of the document in `model.rs`; a line in
//! `report.rs` and in `text.rs`; a row in `docs/src/heap-stat.md`.
//!
//! # A new fault that the heap detects
//!
//! In a call of the program: a variant of `Damage` in `plimsoll-lfh/src/integrity.rs`, and a row in `docs/src/heap.md`. In a walk: a
//! variant of `Fault` in `inspect/validate/damage.rs` there, its check in a file beside it, and a row in `docs/src/heap-stat.md`.

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
