//! The environment of a trial: cgroup, swap devices, sysctls.
//!
//! A [`Session`] is a run's right to change this machine: the machine lock, and a journal of every change. An
//! [`Environment`] belongs to one trial. All undoing, whether at the end of a trial, after an error or by [`cleanup`]
//! after a `kill -9`, goes through the journal's entries, newest first. An [`Enclosure`] is the cgroup of a program of the
//! user, and a [`Vigil`] the stops and throttles of a guard: journals without the machine lock, so that they neither wait for a run nor let
//! one wait.
//!
//! Invariant: no change of the system without a journal entry that was on the disk before it.
//! Checked by `zram_of_a_killed_run_is_undone`, `zswap_and_swap_file_of_a_killed_run_are_undone` and
//! `a_journal_torn_anywhere_undoes_its_whole_lines`.
//!
//! Invariant: no undoing of a change that another program has overwritten since. Checked by
//! `a_value_is_restored_unless_another_process_changed_it`, `a_device_that_another_process_took_over_stays` and
//! `a_recreated_cgroup_is_not_the_capped_one`.
//!
//! Invariant: no undoing of a change that a run cannot have made, even if a journal names it. Checked by
//! `a_planted_change_of_any_kind_is_not_obeyed`.
//!
//! Layers, from the bottom: `change`, `undo` (nouns) and `error`; `locked_file`, `state` and `journal`; one module for each kind of
//! change, which records it and undoes it; `confine`; `cleanup`, which calls the module of a change; `session`, `enclosure`, `vigil`;
//! `prepare`.

mod allocators;
mod cap;
mod cgroup;
mod change;
mod cleanup;
mod confine;
mod enclosure;
mod error;
mod holder;
mod journal;
mod lock;
mod locked_file;
mod machine;
mod modules;
mod oom_killer;
mod prepare;
mod process;
mod requirements;
mod reserve;
mod session;
mod state;
mod stopped;
mod swap_device;
mod swap_file;
mod swap_folder;
mod sysctl;
mod throttle;
mod undo;
mod vigil;
mod zram;
mod zswap;

pub use allocators::{allocator_library, found_below as allocators_below};
pub use cap::{Cap, CapError};
pub use cgroup::{Cgroup, Reclaimed};
pub use cleanup::{CleanupReport, RunCleanup, RunState, cleanup, cleanup_in, cleanup_of};
pub use enclosure::{Enclosure, OwnSwap};
pub use error::{EnvironmentError, Missing, MissingKind};
pub use holder::Holder;
pub use machine::{disk_available, disk_free, file_system, machine};
pub use prepare::{CgroupDescription, Description, Environment, SwapDescription, ValueDescription};
pub use requirements::{can_prepare, cgroup_missing, missing, missing_beside, zram_algorithms_known};
pub use reserve::{Misfit, TooLarge, Trip, Tripwire, memory_reserve, safe_size};
pub use session::Session;
#[cfg(test)]
pub(crate) use stopped::Jobs;
pub(crate) use stopped::{is_stopped, resume_parent};
pub use swap_device::{SwapDevice, SwapKind};
pub use swap_folder::SwapFolderDefect;
pub(crate) use swap_folder::not_on_disk;
pub use undo::{Left, LeftCause, UndoReport};
pub use vigil::Vigil;
pub use zswap::ZswapDescription;
