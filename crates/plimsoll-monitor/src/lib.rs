//! The monitor, the list of processes, and trim.

mod cells;
pub mod processes;
pub mod trim;
pub mod watch;
