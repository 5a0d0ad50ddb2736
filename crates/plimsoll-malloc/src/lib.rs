//! The C symbols of malloc over `plimsoll-lfh`, to be preloaded: `LD_PRELOAD=libplimsoll_malloc.so program`.
//!
//! Thin: what a symbol promises in C (errno, sizes of 0, alignments, overflow) stands here, the heap itself in
//! `plimsoll-lfh`. The library to preload is built with the profile `malloc`: it aborts on panic, is `no_std`, needs
//! nothing but the C library and has no thread-local storage. Where panics unwind (the workspace's own profiles) it
//! links `std`, so that the workspace builds; that one is checked, not shipped.
//!
//! Nothing here calls an exported symbol, neither `malloc` nor `memset` on its result: the optimiser knows both by name
//! and would make `calloc` of them, which here would be `calloc` calling itself.
#![cfg_attr(panic = "abort", no_std)]

pub mod aligned;
pub mod basic;
mod errno;
mod fork;
pub mod heap_object;
pub mod information;
pub mod operator_delete;
pub mod operator_new;
mod standard_error;
