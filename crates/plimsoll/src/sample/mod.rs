//! What the system says, on a clock: one file a source, one const table of columns.
//!
//! Invariant: after start the sampling thread neither allocates nor opens files on a tick, and its memory is locked
//! where the system allows it.

pub mod columns;

pub use columns::{COLUMNS, Column, Row, Unit};
