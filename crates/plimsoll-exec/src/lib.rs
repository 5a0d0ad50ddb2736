//! The library that `plimsoll exec` preloads. It serves the anonymous memory of an unmodified program from a pager in the
//! program's own process.
//!
//! # Modules
//!
//! | module | content |
//! |---|---|
//! | `start`, `configuration` | the constructor; the settings, of the variable `PLIMSOLL_EXEC` |
//! | `arena`, `addresses` | the addresses of the program's memory, at a fixed place, and the pager behind them |
//! | `mappings` | calls on the address space, for addresses of the arena |
//! | `program_heap` | the heap's memory, of the arena |
//! | `blocks`, `callers` | the program's blocks: of the heap, or unmanaged if the C library asks for its own |
//! | `unmanaged`, `lock` | the allocator of the library itself |
//! | `calls`, `handlers` | system calls on absent pages, without privilege; the program's own handlers of signals |
//! | `symbols` | the exported symbols of C |
//! | `statistics` | counters at the end of the process |
#![cfg_attr(
    test,
    allow(
        dead_code,
        unused_imports,
        reason = "the exported symbols, which use the rest, are no part of a test"
    )
)]

mod addresses;
mod arena;
mod blocks;
mod callers;
#[cfg_attr(not(target_arch = "x86_64"), path = "calls/unsupported.rs")]
mod calls;
mod configuration;
mod handlers;
mod lock;
mod mappings;
mod next_symbol;
mod program_heap;
mod signals_blocked;
mod start;
mod statistics;
#[cfg(not(test))]
mod symbols;
mod unmanaged;

/// The allocator of the library, and of the pager in it. A test keeps its own.
#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: unmanaged::LibraryAllocator = unmanaged::LibraryAllocator;
