//! A user-space memory manager in the shape of the NT one: working sets, modified and standby lists, a compression store
//! and a page file, over `userfaultfd(2)`. A program uses more memory than it is given, without swap, root or a kernel
//! module.
//!
//! # Modules
//!
//! | module | content |
//! |---|---|
//! | [`page`] | a page's word, its states and transitions; the page table |
//! | `backing` | the interface of the compression store and the page file |
//! | `driver` | acts on page tables: by userfaultfd, or simulated |
//! | `manager` | the state of a pager: budget, pins, hands, counters |
//! | `trim` | from active to modified, standby and compressed |
//! | `fault` | from any state to active; the signal handler |
#![warn(missing_docs)]

mod backing;
mod driver;
pub mod page;

pub use backing::{Damaged, PutError};
