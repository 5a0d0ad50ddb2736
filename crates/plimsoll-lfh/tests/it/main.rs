//! The heap from outside, by topic.
//!
//! | module | topic |
//! |---|---|
//! | `model` | any sequence of calls against a map of the blocks in use, contents included |
//! | `edges` | impossible requests, and unusual but common ones |
//! | `hardened` | the hardened profile as a heap; the tests of the C library check the mistakes that it detects |
//! | `inspect` | statistics of heaps, from here and from another process, and the faults that a walk finds |
//! | `layers` | the layers of the crate's modules, and the tests that invariants name |
//! | `threads` | many threads that free each other's blocks |
//! | `crowds` | hundreds of threads, idle and at work |
//! | `signals` | handlers of signals in the middle of a call |
//! | `fork` | forks of a process whose threads are within the heap |
//! | `footprint` | return of memory to the kernel, and its time |
//! | `huge_pages` | use of huge pages, and of base pages |
//! | `mistakes` | mistakes that the heap detects, and the end of the process |
//! | `damage` | the same of large blocks, of Standard, and of heaps that check themselves; handlers of that end |
//! | `returned` | pages that return to the kernel, or cannot, while others fork, lock and walk |
//! | `limits` | a process that has no memory left |
//! | `ulimit` | growth if limits leave little room |
//!
//! Tests of a whole process run in one of its own: see `child`.

mod blocks;
mod cases;
mod child;
mod crowds;
mod damage;
mod edges;
mod footprint;
mod fork;

mod hardened;
mod huge_pages;
mod inspect;
mod layers;
mod limits;
mod mistakes;
mod model;
mod numbers;
mod returned;
mod seen_lock;
mod signals;
mod this_process;
mod threads;
mod ulimit;

/// Whether the purge of the heaps under test has a helper thread.
pub(crate) const HAS_HELPER: bool = true;
