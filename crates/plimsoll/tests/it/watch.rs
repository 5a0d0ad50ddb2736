//! The monitor and its user interfaces.

mod core;
mod serve;
pub(crate) mod terminal;
