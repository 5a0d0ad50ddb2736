//! The C symbols of malloc over `plimsoll-lfh`, to be preloaded: `LD_PRELOAD=libplimsoll_malloc.so program`.
//!
//! This crate is thin: the promises of the C symbols are those of `plimsoll-c-malloc`, the heap itself is `plimsoll-lfh`.
//! The library to preload is built with the profile `malloc`: it aborts on panic, is `no_std`, needs only the C library and
//! has no thread-local storage. With the workspace's own profiles, in which panics unwind, it links `std`, so that the
//! workspace builds; that build is checked, not shipped.
//!
//! Invariants:
//! 1. The preloaded library exports the symbols of malloc, of `plimsoll_heap.h` and of
//!    [`plimsoll_c_malloc::dynamic_loading`] and no others, needs the C library alone, and has no thread-local storage. Checked
//!    by `the_library_has_its_symbols_and_no_others` and
//!    `the_library_needs_the_c_library_alone_and_has_no_thread_local_storage`.
//! 2. The C symbols keep the promises of glibc's own. Checked by `c_programs_get_what_glibc_promises` and
//!    `cpp_programs_get_what_the_standard_promises`.
#![warn(missing_docs)]
#![cfg_attr(panic = "abort", no_std)]

mod fork;
pub mod heap_object;
mod panics;
pub mod symbols;
