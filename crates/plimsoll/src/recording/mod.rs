//! What is kept of a run: a folder with a manifest, samples, events, trials and results.
//!
//! Invariant: the format is in [`model`] and the column table alone; writer and reader hold no names of their own.

pub mod host;
pub mod model;

pub use host::host;
