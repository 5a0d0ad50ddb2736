//! The `plimsoll` command, on top of all other crates (see ARCHITECTURE.md).

pub mod cli;
pub mod command;
pub mod completion;
pub mod doctor;
pub mod heap;
pub mod manual;
pub mod pager;
mod progress;
