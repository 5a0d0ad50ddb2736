//! The kernel's counters on a clock: one file a source, one const table of columns.
//!
//! Invariant: after start the sampling thread neither allocates nor opens files on a tick, and its memory is locked
//! where the system allows it. `tests/sample_alloc.rs`, a program of its own, counts the allocations.
//!
//! A new column of /proc/meminfo or /proc/vmstat is a line in `plimsoll_model::columns`; of another source, a line there and one in
//! the file of that source.

mod batch;
mod bench;
mod cgroup;
mod damon;
mod delays;
mod fields;
mod held;
pub mod host;
mod kernel_threads;
mod manifest;
mod meminfo;
pub mod page_flags;
pub mod pagers;
mod process;
mod profile;
mod programs;
mod psi;
mod reader;
mod residency;
mod sampler;
mod schedule;
mod stat;
pub mod stop;
mod swaps;
mod vmstat;
mod zram;

use std::io;

pub use batch::Batch;
pub use bench::{SamplerBench, VmstatCost, VmstatError, bench};
pub use cgroup::CgroupFiles;

pub use delays::{DelayAccounting, Delays, DelaysError};
pub use held::{HeldLook, HeldPost};
pub use manifest::{command_line, new_manifest, now};
pub use profile::{Profile, ProfileError, Profiler, Symbols, kernel_symbols};
pub use programs::Programs;
pub use reader::{Reader, Target};
pub use residency::LockError;
pub use sampler::{MAX_HZ, Sampler, SamplerConfig, monotonic_ns};

/// The parsers of the sources, text in, values out.
pub mod parse {
    pub use super::cgroup::parse_stat as cgroup_stat;
    pub use super::meminfo::parse as meminfo;
    pub use super::stat::parse as stat;
    pub use super::swaps::{OwnDevice, Slots as Swaps};
    pub use super::vmstat::parse as vmstat;
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    #[error("cannot sample {hz} times a second; choose a rate from 1 to {MAX_HZ}")]
    Rate { hz: u32 },
    /// Nothing can be said of memory without this file.
    #[error("cannot read {path}, which every sample needs; mount /proc")]
    Meminfo {
        path: &'static str,
        /// Why it cannot be opened, if that is the reason.
        source: Option<io::Error>,
    },
    #[error("cannot start the sampling thread: {0}; raise the limit on processes (`ulimit -u`)")]
    Thread(#[source] io::Error),
}
