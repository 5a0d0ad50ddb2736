//! Helpers that the tests of several crates share.
//!
//! | module | content |
//! |---|---|
//! | `child` | child processes in a known state, and lines of their output |
//! | `this_program` | a new process of the test program for one test |
//! | `forked` | children of a `fork` without `exec` |
//! | `fleets` | results of a fleet that never ran; with the feature `recordings` |
//! | `program` | programs and scripts to start |
//! | `recordings` | a recording of a run that never happened, and stored recordings; with the feature `recordings` |
//! | `other_readers` | pyarrow and DuckDB on a recording; with the feature `recordings` |
//! | [`open_metrics`] | strict parser of OpenMetrics |
//! | `require` | capabilities that a test needs |
//! | `sized` | a recording of a search of the RAM that a program needs; with the feature `recordings` |
//! | [`rseq`] | check for usable restartable sequences |
//! | `seccomp` | filters that refuse system calls, as containers have them |
//!
//! A test program inherits the state of its caller: `nohup` ignores SIGHUP, a background job of a non-interactive shell
//! ignores SIGINT, cron sets a locale, a service manager a umask. That changes the behaviour of a program under test, so
//! tests start every child by [`command`]. `tests/children.rs` checks that, and the state that [`command`] sets. A copy of
//! the test program keeps the variables that `PLIMSOLL_TEST_KEPT` names.

mod child;
#[cfg(feature = "recordings")]
pub mod fleets;
mod forked;
pub mod open_metrics;
#[cfg(feature = "recordings")]
pub mod other_readers;
mod program;
#[cfg(feature = "recordings")]
pub mod recordings;
mod require;
pub mod rseq;
mod seccomp;
#[cfg(feature = "recordings")]
pub mod sized;
mod this_program;

pub use child::{command, next_line};
pub use forked::{fork, status_of_fork};
pub use program::{copy_program, write_script};
pub use require::capability;
pub use seccomp::refuse_userfaultfd;
pub use this_program::{again, is_emulated_without, role, this_program};
