//! The heap from outside, by topic.
//!
//! | module | what it tests |
//! |---|---|
//! | `model` | any sequence of calls against a map of the blocks in use, contents included |
//! | `edges` | what no program should ask for, and what many do |
//! | `hardened` | the hardened profile as a heap; who notices which mistake is tested with the library for C |
//! | `inspect` | what is told of heaps, here and from another process, and what is found damaged |
//! | `threads` | many threads that free each other's blocks |
//! | `crowds` | hundreds of threads, idle and at work |
//! | `signals` | handlers of signals in the middle of a call |
//! | `fork` | forks of a process whose threads are within the heap |
//! | `footprint` | what is given back to the system, and when |
//! | `huge_pages` | where huge pages are used, and where not |
//! | `mistakes` | what the heap notices of mistakes, and how the process ends then |
//! | `damage` | the same of large blocks, of Standard, and of heaps that check themselves; handlers of that end |
//! | `returned` | pages that are given back, or cannot be, while others fork, lock and look |
//! | `limits` | a process that has no memory left |
//! | `ulimit` | growth where limits leave little room |
//!
//! What concerns a whole process runs in one of its own: see `child`.

mod blocks;
mod cases;
mod child;
mod crowds;
mod damage;
mod edges;
mod footprint;
mod fork;
mod forked;
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
mod this_program;
mod threads;
mod ulimit;

#[path = "../../../plimsoll/tests/it/require.rs"]
#[allow(unreachable_pub)]
mod require;
#[path = "../../../plimsoll-os/tests/system_rseq/mod.rs"]
mod system_rseq;
