//! A user-space memory manager in the shape of the NT one: working sets, modified and standby lists, a compressed store
//! and a page file, over `userfaultfd(2)`. A program uses more memory than its budget, without swap, root or a kernel
//! module.
//!
//! # Example
//!
//! A vector three times larger than its budget, sorted:
//!
//! ```
//! use plimsoll_pager::{Pager, TrimTo};
//!
//! const MIB: usize = 1 << 20;
//!
//! // 8 MiB of RAM for pages, compressed copies and metadata together.
//! let pager = Pager::builder().ram(8 * MIB as u64).build()?;
//! let mut region = pager.map(24 * MIB)?;
//!
//! // Records of 64 bytes in a scattered order: the key is in the first 8 bytes, most significant byte first.
//! let (records, _) = region.bytes_mut().as_chunks_mut::<64>();
//! let count = records.len() as u64;
//! for (number, record) in (0..count).zip(records.iter_mut()) {
//!     record[..8].copy_from_slice(&(number * 7919 % count).to_be_bytes());
//! }
//! records.sort_unstable();
//! assert!((0..count).zip(&*records).all(|(number, record)| record[..8] == number.to_be_bytes()));
//!
//! // The pager never had more than its budget.
//! let stats = pager.stats();
//! assert!(stats.resident_bytes() <= stats.ram);
//! assert!(stats.hard_faults > 0 && stats.forced_frames == 0);
//!
//! // The region leaves RAM; its contents stay.
//! region.trim(.., TrimTo::Store)?;
//! assert_eq!(pager.stats().active_pages, 0);
//! assert_eq!(region.bytes()[5 * 64 + 7], 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Modules
//!
//! | module | content |
//! |---|---|
//! | [`page`] | a page's word, its states and transitions; the page table |
//! | `backing` | the interface of the compressed store and the page file |
//! | `driver` | acts on page tables: by userfaultfd, with moves or copies, or simulated |
//! | `manager` | the state of a pager: budget, pins, hands, counters |
//! | `trim` | from active to modified, standby and compressed |
//! | `fault` | from any state to active; the signal handler, the thread for faults |
//! | `inspect`, `stats`, `snapshot` | the check of all invariants; counters; the state of every page |
//! | [`published`] | a pager of another process: its record, counters and check |
//! | [`store`] | the compressed store |
//! | [`page_file`] | the encrypted file for pages that the store cannot hold |
//! | `saved` | store and page file as the manager sees them: spills, recompression |
//! | [`pool`] | a RAM budget that processes share; `share` is a pager's membership in it |
//! | `descriptors` | the numbers of files that a pager opens while its program runs |
//! | `signals_blocked`, `own_thread` | signals that a thread blocks; the pager's threads |
//! | `addresses`, `engine`, `gate` | the regions of an arena; a pager of this process, and its forks |
//! | `builder`, `pager`, `region`, `error` | the interface of embedders |
#![warn(missing_docs)]

mod addresses;
mod backing;
mod builder;
mod descriptors;
mod driver;
mod engine;
mod error;
mod fault;
mod gate;
mod inspect;
mod manager;
mod own_thread;
pub mod page;
pub mod page_file;
mod pager;
pub mod pool;
pub mod published;
mod region;
mod saved;
#[cfg(not(loom))]
mod share;
mod signals_blocked;
mod snapshot;
mod stats;
pub mod store;
mod trim;

pub use backing::{Damaged, PageFileUse};
pub use builder::{Codec, PagerBuilder};
pub use descriptors::{owns_descriptor, use_descriptors_from};
pub use driver::FaultMode;
pub use engine::{Forked, LEAST_GRANT, TrimTo};
pub use error::{BuildError, FaultError, ForkError, MapError, RamError, RangeError};
pub use manager::{AgeingState, ThrashControl, ThrashStep, TrimMode, WorkingSetError};
pub use pager::Pager;
pub use region::{CallPin, PinGuard, Region};
#[cfg(not(loom))]
pub use share::Membership;
pub use snapshot::{Snapshot, StateRun};
pub use stats::Stats;

#[cfg(all(test, not(loom)))]
mod tests;

/// The examples of the book.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/embed-pager.md")]
#[doc = include_str!("../../../docs/src/pager.md")]
struct Book;
