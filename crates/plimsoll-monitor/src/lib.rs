//! The monitor, the list of processes, and trim.

pub mod processes;
pub mod trim;
pub mod watch;
