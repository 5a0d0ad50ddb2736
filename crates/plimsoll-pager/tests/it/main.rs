//! The crate as an embedder uses it.
//!
//! | module | topic |
//! |---|---|
//! | `allocations` | the heap is never entered where a page is read |
//! | `cap` | the budget as the kernel counts it |
//! | `children` | forked children and shared words of a test |
//! | `page_file` | files, systems and kernels that refuse, fail or are full |
//! | `pool` | processes that share a budget: kills, stops, forks, exec |
//! | `pool_files` | files of a pool: refused, damaged, removed |
//! | `refused` | systems that refuse userfaultfd |
//! | `signals` | other handlers of SIGBUS, and forks |
//! | `tiers` | a pager with a page file on a real disk |

mod allocations;
mod cap;
mod children;
mod page_file;
mod pool;
mod pool_files;
mod refused;
mod signals;
mod tiers;
