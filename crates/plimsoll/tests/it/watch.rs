//! The monitor and its faces.

mod core;
mod serve;
pub(crate) mod terminal;
