//! A budget of RAM that several processes of one user share.
//!
//! A pool is a small file of shared memory, in a folder of the user or in memory alone; there is no daemon. Each process joins
//! as a [`Member`], states its [`Limits`], and calls [`Member::tick`] at least once a second with its [`Usage`]. The tick returns
//! the member's [`Grant`], the bytes that it may have resident. At most four times a second, the member whose tick is the first moves budget
//! from members that refault little to those that refault much (see `balance`).
//!
//! ```
//! use plimsoll_pager::pool::{Limits, Pool, RefaultDistances, Usage};
//! use std::time::Duration;
//!
//! let pool = Pool::in_memory(64 << 20)?;
//! let mut member = pool.join(Limits { minimum: 4 << 20, ..Limits::default() })?;
//! let distances = RefaultDistances::new();
//! let usage = Usage { resident: 4 << 20, wanted: 100 << 20, ..Usage::new(&distances) };
//! let grant = member.tick_now(&usage)?;
//! assert_eq!(grant.bytes(), 64 << 20);
//! // The member trims to the grant, and then says so.
//! member.acknowledge(grant.bytes())?;
//! member.leave()?;
//! # Ok::<(), plimsoll_pager::pool::PoolError>(())
//! ```
//!
//! # The sum of the residents
//!
//! A grant that falls is in force at once, but its pages are charged to the member until it has trimmed them and calls
//! [`Member::acknowledge`]. A grant rises by pages that are charged to none. So the residents of all members together
//! stay within the total at any time, provided that each keeps its promise; a slow or stopped (SIGSTOP) member
//! delays others and never makes the sum exceed the total. See `settle`.
//!
//! # Kills, stops, forks
//!
//! - The table of grants changes by one compare-and-swap from a valid version to the next. A member that is killed or stopped
//!   at any instruction leaves a valid pool, and no other waits for it. There is no lock, see `versioned`.
//! - A member that ends without leaving, by SIGKILL too, is found by its process number and start (`/proc/PID/stat`), which
//!   also tell a new process with its number from it. Its share returns in the next round.
//! - A forked child is no member, and calls of the membership that it has from its parent fail. It joins by
//!   [`Member::join_as_child`]; [`Pager::fork`](crate::Pager::fork) does so. Pages that it still shares with its parent are charged to the parent; when that ends, to the
//!   child that shares most of them.
//! - `execve` keeps the process, not its memory: call [`Member::leave`] before, or [`Member::set_executing`], which keeps the
//!   membership if the call fails. Else the share returns when the new program joins, or ends.
//! - Nothing waits, except [`Member::wait`]; no call holds a lock, so that a signal handler may interrupt any of them.
//!
//! # Trust
//!
//! Members trust each other as processes of one user do: one may write to another's memory. Two users never share a pool; a
//! file of another user, or one that others can open, is refused (see [`Defect`]). Damaged contents are found and reported
//! ([`PoolError::Damaged`]). A file that another process of the user cuts raises SIGBUS at the next access, unless the
//! handler of the embedder calls [`Pool::replace_lost_page`]; the size of a pool in memory is sealed.
//!
//! A member costs 16 KiB of memory of the file, and the pool 24 KiB more, which the total does not count.
//!
//! # Layers
//!
//! `identity` (which uses `lives`), `layout`, `versioned`, `balance` (nouns and the pure split); `table`, `row`, `distances`, `error`; `settle`
//! (grants and charges), `round` (the next table); `file`; `handle` ([`Pool`]), `meter` (gains), `limits`, `usage`, `joining`, `turn`, `member` ([`Member`]), `status`.

mod balance;
mod distances;
mod error;
#[cfg(not(loom))]
mod file;
#[cfg(not(loom))]
mod handle;
mod identity;
#[cfg(not(loom))]
mod joining;
mod layout;
#[cfg(not(loom))]
mod limits;
#[cfg(not(loom))]
mod lives;
#[cfg(not(loom))]
mod looks;
#[cfg(not(loom))]
mod member;
#[cfg(not(loom))]
mod meter;
mod round;
mod row;
mod settle;
#[cfg(not(loom))]
mod status;
mod table;
#[cfg(not(loom))]
mod turn;
#[cfg(not(loom))]
mod usage;
mod versioned;

pub use balance::HIGHEST_PRIORITY;
pub use distances::RefaultDistances;
pub(crate) use distances::{Counts, within};
pub use error::{Defect, PoolError};
#[cfg(not(loom))]
pub use handle::Pool;
pub use identity::Identity;
pub use layout::{FILE_BYTES, MOST_MEMBERS, PAGE};
#[cfg(not(loom))]
pub use limits::Limits;
#[cfg(not(loom))]
pub(crate) use lives::Reader;
#[cfg(not(loom))]
pub use member::{Grant, Member};
#[cfg(not(loom))]
pub(crate) use round::SHARED_PART;
#[cfg(not(loom))]
pub use status::{MemberStatus, PoolStatus};
pub use table::Damage;
#[cfg(not(loom))]
pub use usage::Usage;
