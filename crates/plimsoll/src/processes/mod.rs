//! One process after the other: working set, swap, faults, caps, and the fault-storm detector.

mod folder;
mod identity;
mod process;
mod walk;

/// The parsers of the files of a process, text in, values out.
pub mod parse;

pub use identity::Identity;
pub use process::{Depth, Detail, Process};
pub use walk::{Found, descendants, list, members};
