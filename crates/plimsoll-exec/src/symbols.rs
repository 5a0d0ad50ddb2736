//! The exported symbols of C. The dynamic linker finds them before those of the C library.
#![allow(unreachable_pub, reason = "the symbols are reached by their names")]

#[cfg(target_arch = "x86_64")]
mod clone;
mod descriptors;
mod errors;
mod fork;
mod forker;
mod malloc;
mod mapping;
mod signals;
mod spawn;
#[cfg(target_arch = "x86_64")]
mod stacks;
#[cfg(target_arch = "x86_64")]
mod threads;
mod transfers;
mod vectors;

pub(crate) use descriptors::{LowNumbers, protect};

/// Finds the C library's functions that are called when it may not search. Called at the start.
pub(crate) fn prepare() {
    signals::prepare();
    transfers::prepare();
    fork::prepare();
    #[cfg(target_arch = "x86_64")]
    clone::prepare();
}
