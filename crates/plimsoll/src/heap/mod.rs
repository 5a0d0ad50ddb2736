//! The heap of this project under programs that know nothing of it: its library, how a program is started with it, and
//! what the heaps of running programs hold, read without stopping them.
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
mod launch;
mod library;
mod model;
mod picture;
mod program;
mod report;
mod stat;
mod text;

#[cfg(test)]
mod tests;

pub use error::HeapStatError;
pub use html::page;
pub use launch::{HeapFrontEnd, Launch};
pub use library::{LibraryError, unpack};
pub use model::{
    BucketReport, Cell, CellKind, DamageReport, FrontReport, HEAP_SCHEMA, HeapReport, HeapSurvey,
    ProcessHeaps, RangeReport, ValidationReport,
};
pub use program::{Program, ProgramError};
pub use stat::{Stat, stat, stat_all};
pub use text::{HeapDetail, render};
