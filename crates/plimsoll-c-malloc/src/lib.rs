//! The C symbols of malloc: their list and their contracts (errno, sizes of 0, alignments, overflow), over any [`Source`] of
//! blocks.
//!
//! The crate defines no symbol itself. A library to preload does, by the lists [`allocating_symbols`], [`other_symbols`],
//! [`operators_new`] and [`dynamic_loading_symbols`]: `plimsoll-malloc` over the heap alone, `plimsoll-exec` over the heap and
//! over memory that no pager manages.
//!
//! Nothing here calls an exported symbol, neither `malloc` nor `memset` on its result: the optimiser knows both by name
//! and would make `calloc` of them, which here would be `calloc` calling itself.
#![warn(missing_docs)]
#![no_std]

mod aligned;
mod basic;
pub mod dynamic_loading;
pub mod errno;
pub mod information;
mod operators;
mod source;
mod standard_error;
mod symbols;

pub use aligned::{aligned_alloc, memalign, posix_memalign, pvalloc, valloc};
pub use basic::{calloc, free, free_with, free_with_two, malloc, realloc, reallocarray};
pub use operators::{Nothrow, no_runtime};
pub use source::Source;
pub use standard_error::{StandardError, fatal};
