//! The heaps of running programs: found, read without stopping them, validated, and told.
//!
//! ```text
//! /proc/PID/maps -> control block -> stat() -> HeapSurvey -+-> render()
//!                                                          +-> page()
//! ```
//!
//! Invariant: reading (`stat`, `stat_all`), and showing (`render`, `page`) are apart; counting is the heap's own
//! (`plimsoll_lfh::inspect`).

mod error;
mod find;
mod html;
mod model;
mod picture;
mod stat;
mod text;

pub use error::HeapStatError;
pub use html::page;
pub use model::{
    BucketReport, Cell, CellKind, DamageReport, FrontReport, HEAP_SCHEMA, HeapReport, HeapSurvey,
    ProcessHeaps, RangeReport, ValidationReport,
};
pub use stat::{Stat, stat, stat_all};
pub use text::{HeapDetail, render};
