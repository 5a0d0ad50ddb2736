//! Kinds of things on ships, and ports from a table of the build script.

pub mod kinds;
pub mod ports;
