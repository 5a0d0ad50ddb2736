//! The monitor and its faces.

mod core;
mod serve;
mod terminal;
