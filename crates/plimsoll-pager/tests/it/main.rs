//! The crate as an embedder uses it.
//!
//! | module | topic |
//! |---|---|
//! | `allocations` | the heap is never entered where a page is read |
//! | `cap` | the budget as the kernel counts it |
//! | `children` | forked children and shared words of a test |
//! | `page_file` | files, systems and kernels that refuse, fail or are full |
//! | `policies` | priorities, contents that are given up, suspended regions |
//! | `pool` | processes that share a budget: kills, stops, forks, exec |
//! | `pool_files` | files of a pool: refused, damaged, removed |
//! | `refused` | systems that refuse userfaultfd |
//! | `resize` | a budget that changes, as the kernel counts it |
//! | `shared_budget` | pagers of several processes under one budget, as the kernel counts it |
//! | `signals` | other handlers of SIGBUS, and forks |

mod allocations;
mod cap;
mod children;
mod page_file;
mod policies;
mod pool;
mod pool_files;
mod refused;
mod resize;
mod shared_budget;
mod signals;
