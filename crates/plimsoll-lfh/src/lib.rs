//! A low-fragmentation heap for Linux.
//!
//! Blocks of 64 sizes (*buckets*, size classes) come from *subsegments* (slabs) of the back end through an array of free
//! blocks for each bucket and *affinity slot* (a per-CPU cache, whose number is bounded by that of processors, not of
//! threads): most calls are a restartable sequence without a lock. The *Standard* front end, one lock over coalescing
//! blocks, is the alternative.
//!
//! # Layers
//!
//! A module uses only modules that stand before it in this list. Checked by `modules_use_lower_layers_alone`.
//!
//! 1. Nouns: `lock`, `set_once`, `memory`, `settings`, `bucket`, `remote_free`, `options`, `fork`, `unit`, `integrity`
//! 2. Address space: `pages`, `guards`, `moves`, `arena`, `block_table`, `purge`
//! 3. Back end: `backend`
//! 4. Front ends: `standard`; `affinity`, `subsegment`, `front_end`
//! 5. Large blocks: `run_cache`, `large`
//! 6. Heaps: `record`, `hardened`, `heap`
//! 7. Inspection: `inspect`
//!
//! Nothing here allocates from another heap, uses thread-local storage or calls a function that may.
#![doc = include_str!("../design.md")]
#![warn(missing_docs)]
#![no_std]

#[cfg(test)]
extern crate std;

mod affinity;
mod arena;
mod backend;
mod block_table;
mod bucket;
mod fork;
mod front_end;
mod guards;
mod hardened;
mod heap;
pub mod inspect;
mod integrity;
mod large;
mod lock;
mod memory;
mod moves;
mod options;
mod pages;
mod purge;
mod record;
mod remote_free;
mod run_cache;
mod set_once;
mod settings;
mod standard;
mod subsegment;
mod unit;

#[cfg(test)]
#[path = "../tests/it/cases.rs"]
mod cases;
#[cfg(test)]
#[path = "../tests/it/numbers.rs"]
mod numbers;
#[cfg(test)]
#[path = "../tests/it/seen_lock.rs"]
mod seen_lock;

pub use arena::{
    Directory, FIRST_UNIT, HEAPS, LAYOUT, LEAST_WINDOW, MAGIC, RECORD, SEGMENT, SEGMENT_UNITS, Segment,
    UNITS, WINDOW,
};
pub use bucket::{BUCKETS, Bucket, LARGEST_BLOCK, SMALLEST_BLOCK};
pub use heap::{Heap, Lfh};
pub use memory::{Access, Memory, set_memory};
pub use options::{FrontEnd, FrontEndError, HeapError, HeapOptions};
pub use remote_free::{FreeBlocks, RemoteFree, SubsegmentState};
pub use unit::{UNIT, Unit, UnitIndex, UnitKind};

/// The book's chapter on the heap, whose lines of Rust are programs.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/heap.md")]
pub struct Chapter;
