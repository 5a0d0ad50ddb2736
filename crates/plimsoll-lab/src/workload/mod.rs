//! Worker processes: their memory, their probes, and the protocol that the runner drives them by. The requests of one
//! workload are in its module in [`crate::run`].
//!
//! The runner holds a [`Worker`], which speaks the [`protocol`] with `serve` in the worker process; that owns the
//! memory, which a [`fill`] writes.
//!
//! Invariant: a worker never reads the system as a whole and never prints; it answers the runner. Kept by review.

mod area;
mod calibrate;
mod cost;
mod crew;
pub mod fill;
mod handle;
mod memory;
mod memory_error;
mod parts;
mod pool;
pub mod probe;
pub mod protocol;
mod work;
mod worker;
mod working_set;

pub(crate) use area::{
    BudgetError, PAGER_FAULTS, PagerError, above_budget, set_budget, since as pager_since,
};
pub use area::{PagerBudget, PagerRequest};
pub use calibrate::{CalibrationError, calibrate};
pub(crate) use cost::Stopwatch;
pub use cost::{Cost, Findings};
pub use crew::CrewError;
pub(crate) use crew::each as in_threads;
pub(crate) use fill::mix;
pub use handle::{Residency, Usage, Worker, WorkerError, WorkerOptions};
#[cfg(test)]
pub(crate) use memory::FillRequest;
pub(crate) use memory::{Memory, Whole};
pub(crate) use memory_error::MemoryError;
pub(crate) use parts::Writable;
pub(crate) use plimsoll_os::UsageScope;
pub use pool::{PoolRequest, TrialPool};
pub(crate) use work::{NoRequests, Work, WorkError, typed};
pub(crate) use worker::serve;
pub(crate) use working_set::WorkingSet;
