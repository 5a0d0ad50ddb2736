//! The monitor and its faces.

mod serve;
mod terminal;
