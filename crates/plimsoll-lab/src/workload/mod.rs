//! What a worker does: one file an access pattern or experiment, and the protocol the runner drives it by.
//!
//! The runner holds a [`Worker`], which speaks the [`protocol`] with [`serve`] in the worker process; that owns the
//! memory, which a [`fill`] writes.
//!
//! Invariant: a worker never looks at the system as a whole and never prints to people; it answers the runner.

mod balance;
mod calibrate;
pub mod consume;
mod cost;
pub mod fill;
mod handle;
pub mod heap;
pub mod matrix;
mod memory;
mod pattern;
pub mod probe;
pub mod protocol;
pub mod scan;
pub mod visit;
mod worker;

pub use calibrate::{CalibrationError, calibrate};
pub(crate) use cost::Stopwatch;
pub use handle::{Residency, Usage, Worker, WorkerError, WorkerOptions};
pub(crate) use plimsoll_os::UsageScope;
pub use worker::serve;
