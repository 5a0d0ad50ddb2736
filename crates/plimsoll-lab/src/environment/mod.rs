//! What a run is done to: cgroup, swap devices, sysctls; set up, journalled first, undone after.
//!
//! A [`Session`] is a run's right to change this machine: the machine lock, and a journal of every change. An
//! [`Environment`] is what one trial is done to. All undoing, whether at the end of a trial, after an error or by
//! [`cleanup`] after a `kill -9`, goes through the journal's entries, newest first.
//!
//! Invariant: no change of the system without a journal entry that was on the disk before it.
//! Invariant: nothing is undone that does not still look as this program left it.

mod allocators;
mod cgroup;
mod change;
mod cleanup;
mod error;
mod holder;
mod journal;
mod lock;
mod machine;
mod prepare;
mod process;
mod requirements;
mod reserve;
mod session;
mod swap_device;
mod swap_file;
mod sysctl;
mod undo;
mod zram;
mod zswap;

pub use allocators::{allocator_library, found_below as allocators_below};
pub use cgroup::{Cgroup, Reclaimed};
pub use cleanup::{CleanupReport, RunCleanup, RunState, cleanup, cleanup_in};
pub use error::{EnvironmentError, Missing, MissingKind};
pub use holder::Holder;
pub use machine::{disk_free, machine};
pub use prepare::{CgroupDescription, Description, Environment, SwapDescription, ValueDescription};
pub use requirements::{can_prepare, missing};
pub use reserve::{Misfit, TooLarge, Tripwire, memory_reserve, safe_size};
pub use session::Session;
pub use swap_device::{SwapDevice, SwapKind};
pub use undo::{Left, UndoReport};
pub use zswap::ZswapDescription;
