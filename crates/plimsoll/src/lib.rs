//! The `plimsoll` command over the crates of the laboratory, the monitor and the reports. ARCHITECTURE.md draws them.

pub mod cli;
pub mod command;
pub mod doctor;
pub mod heap;
mod progress;
