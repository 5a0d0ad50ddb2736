//! The `plimsoll` command, on top of all other crates (see ARCHITECTURE.md).

pub mod cli;
pub mod command;
pub mod completion;
pub mod doctor;
pub mod exec;
pub mod heap;
pub mod libraries;
pub mod manual;
pub mod pager;
pub mod program;
mod progress;
