//! Processes: working set, swap, faults, caps, and the fault-storm detector.
//!
//! ```text
//! /proc, cgroups -> Observer -> Snapshot -+-> storms()
//!                                         +-> Listing -> render()
//! cgroups        -> CgroupTree -> CgroupListing -> render_cgroups()
//! ```
//!
//! Invariant: reading (`Observer`, `list`), computing (`storms`, `Listing::between`) and rendering (`render`) are
//! separate.

mod cgroup;
mod cgroup_table;
mod cgroup_tree;
mod columns;
mod compression;
mod listing;
mod pager;
mod pass_on;
mod process;
mod rates;
mod snapshot;
mod storm;
mod table;
mod users;
mod walk;

pub use cgroup::{Cap, CapKind, Cgroup};
pub(crate) use cgroup_table::cap;
pub use cgroup_table::render_cgroups;
pub(crate) use cgroup_tree::branches;
pub use cgroup_tree::{
    CGROUP_BOUNDS, CGROUPS_SCHEMA, CgroupListing, CgroupOrder, CgroupRow, CgroupTree, RowCap,
};
pub use compression::{Compressed, KnownOf, SwapStore};
pub use listing::{Entry, LISTING_SCHEMA, Listing, OwnLimit, PssCost};
pub use pager::Paged;
pub use pass_on::pass_signals_on;
pub use process::{Depth, Detail, Process, Proportional};
pub use rates::Rates;
pub use snapshot::{Observer, Snapshot};
pub use storm::{
    MOST_US_PER_REFAULT, PINNED_SHARE, PINNED_SLACK, REFAULTS_PER_S, STALLED_PERCENT, SYSTEM_PERCENT, Storm,
    StormProcess, pinned_from, storms,
};
pub(crate) use table::cpus;
pub use table::{render, width_without_terminal};
pub use users::Users;
pub use walk::{Found, descendants, list};
