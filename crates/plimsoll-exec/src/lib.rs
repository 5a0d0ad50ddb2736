//! The library that `plimsoll exec` preloads. It serves the anonymous memory of an unmodified program from a pager in the
//! program's own process.
//!
//! # Modules
//!
//! From the lowest to the highest: a module uses those above it in the table.
//!
//! | module | content |
//! |---|---|
//! | `lock`, `unmanaged` | locks; the allocator of the library itself |
//! | `trampoline`, `signals_blocked`, `next_symbol` | system calls from one instruction; signal masks; the C library's own symbols |
//! | `handlers` | the program's own handlers of SIGBUS and SIGSYS |
//! | `addresses`, `arena` | the addresses of the program's memory, at a fixed place, and the pager behind them |
//! | `capabilities` | file capabilities, which make the dynamic linker ignore the library |
//! | `configuration` | the settings, of the variable `PLIMSOLL_EXEC` |
//! | `pool` | the budget that all processes of the program share |
//! | `statistics` | counters at the end of the process |
//! | `mappings` | calls on the address space, for addresses of the arena |
//! | `program_heap` | the heap's memory, of the arena |
//! | `callers`, `blocks` | the program's blocks: of the heap, or unmanaged if the C library asks for its own |
//! | `background` | the thread that ends the periods of the heap's purge |
//! | `calls` | system calls on absent pages, without privilege |
//! | `symbols` | the exported symbols of C |
//! | `start` | the constructor |
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
mod background;
mod blocks;
mod callers;
#[cfg_attr(not(target_arch = "x86_64"), path = "calls/unsupported.rs")]
mod calls;
mod configuration;
mod handlers;
mod lock;
mod mappings;
mod next_symbol;
mod own_calls;
mod pool;
mod program_heap;
mod signals_blocked;
mod start;
mod statistics;
#[cfg(not(test))]
mod symbols;
#[cfg_attr(not(target_arch = "x86_64"), path = "trampoline/unsupported.rs")]
mod trampoline;
mod unmanaged;

/// The allocator of the library, and of the pager in it. A test keeps its own.
#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: unmanaged::LibraryAllocator = unmanaged::LibraryAllocator;
