//! A low-fragmentation heap for Linux.
//!
//! A heap has two ends. The *back end* keeps extents of whole units and coalesces them. The *front end*
//! is one of two: *Standard*, one lock over coalescing blocks with their size in front of them, as heaps were; or
//! *low-fragmentation*: blocks of 64 sizes ("buckets") are cut from subsegments of the back end, and an array of free
//! blocks for each bucket and *affinity slot* (the slot of the processor that runs the thread, bounded by the number
//! of processors and never by that of threads) makes most calls a restartable sequence without a lock.
//!
//! Layers, from the bottom: `lock`, `settings`, `set_once`, `bucket`, `remote_free`, `unit`, `pages` and `integrity`
//! (nouns); `arena` (address space); `backend`, `run_cache` and `large`; `standard`; `affinity`, `subsegment` and
//! `front_end` (low-fragmentation); `record`, `hardened`, `purge`, `heap` and `fork`; `inspect`. A few calls lead upwards:
//! whoever keeps or gives back free memory asks `purge` for its helper, or whether a period is over, and gives pages back
//! by it; the cache of runs puts some into the front end's slots, and large blocks have these drained where no memory is
//! left; a subsegment tells `hardened` where it begins; the front end knows the number of the process's heap; a record
//! names the options of `heap`, and has `fork` register its handlers.
//!
//! Nothing here allocates from another heap, uses thread-local storage or calls anything that may.
#![no_std]

#[cfg(test)]
extern crate std;

mod affinity;
mod arena;
mod backend;
mod bucket;
mod fork;
mod front_end;
mod hardened;
mod heap;
pub mod inspect;
mod integrity;
mod large;
mod lock;
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
    Directory, FIRST_UNIT, HEAPS, MAGIC, RECORD, SEGMENT, SEGMENT_UNITS, Segment, UNITS, WINDOW,
};
pub use bucket::{BUCKETS, Bucket, LARGEST_BLOCK, SMALLEST_BLOCK};
pub use heap::{FrontEnd, FrontEndError, Heap, HeapError, HeapOptions, Lfh};
pub use remote_free::{Home, RemoteFree, Standing};
pub use unit::{UNIT, Unit, UnitIndex, UnitKind};

/// Version of what another process may read of a heap: [`Unit`] and what leads to it.
pub const LAYOUT: u32 = 2;

/// The book's chapter on the heap, whose lines of Rust are programs.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/heap.md")]
pub struct Chapter;
