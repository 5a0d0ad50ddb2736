//! Helpers that the tests of several crates share.
//!
//! | module | content |
//! |---|---|
//! | `child` | child processes in a known state, whatever state the test program was started in |
//! | `this_program` | the test program, started again for one test |
//! | `forked` | children of a `fork` without `exec` |
//! | `program` | copies of programs |
//! | `require` | capabilities that a test needs |
//! | [`rseq`] | whether restartable sequences are usable here |
//!
//! A test program inherits the state of its caller: `nohup` ignores SIGHUP, a background job of a non-interactive shell
//! ignores SIGINT, cron has a locale of its own, a service manager a umask. A program under test behaves otherwise then,
//! so tests start every child by [`command`]. `tests/children.rs` checks that, and that [`command`] does what it says.

mod child;
mod forked;
mod program;
mod require;
pub mod rseq;
mod this_program;

pub use child::command;
pub use forked::status_of_fork;
pub use program::copy_program;
pub use require::capability;
pub use this_program::{again, is_emulated_without, role, this_program};
