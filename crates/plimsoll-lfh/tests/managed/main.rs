//! Heaps over a `Memory`: that of `arena`, for every heap of this program.
//!
//! A system call on the arena's addresses that is not the arena's own ends the process (`filter`). So the tests of `tests/it`
//! that are repeated here show that heaps make none, besides that they work.
//!
//! | module | topic |
//! |---|---|
//! | `arena` | the `Memory` of this program: an arena of 256 GiB, which counts calls and refuses them on request |
//! | `filter` | the end of processes whose heaps make plain calls |
//! | `taken_away` | pages whose accesses fault, as those of a pager do |

mod arena;
mod filter;
mod taken_away;

#[allow(dead_code, reason = "the tests of `tests/it` use the rest")]
#[path = "../it/blocks.rs"]
mod blocks;
#[path = "../it/cases.rs"]
mod cases;
#[path = "../it/child.rs"]
mod child;
#[path = "../it/damage.rs"]
mod damage;
#[path = "../it/edges.rs"]
mod edges;
#[path = "../it/fork.rs"]
mod fork;
#[path = "../it/hardened.rs"]
mod hardened;
#[path = "../it/inspect.rs"]
mod inspect;
#[path = "../it/mistakes.rs"]
mod mistakes;
#[path = "../it/model.rs"]
mod model;
#[path = "../it/numbers.rs"]
mod numbers;
#[path = "../it/returned.rs"]
mod returned;
#[path = "../it/seen_lock.rs"]
mod seen_lock;
#[path = "../it/signals.rs"]
mod signals;
#[allow(dead_code, reason = "the tests of `tests/it` use the rest")]
#[path = "../it/this_process.rs"]
mod this_process;
#[allow(dead_code, reason = "the tests of `tests/it` use the rest")]
#[path = "../it/threads.rs"]
mod threads;

/// Whether the purge of the heaps under test has a helper thread.
pub(crate) const HAS_HELPER: bool = false;
