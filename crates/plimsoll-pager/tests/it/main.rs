//! The crate as an embedder uses it.
//!
//! | module | topic |
//! |---|---|
//! | `allocations` | the heap is never entered where a page is read |
//! | `cap` | the budget as the kernel counts it |
//! | `children` | forked children and shared words of a test |
//! | `killed` | a process that is killed |
//! | `page_file` | files, systems and kernels that refuse, fail or are full |
//! | `pages` | contents of pages, and their check |
//! | `pool` | processes that share a budget: kills, stops, forks, exec |
//! | `pool_files` | files of a pool: refused, damaged, removed |
//! | `refused` | systems that refuse userfaultfd |
//! | `signals` | other handlers of SIGBUS, and forks |
//! | `stress` | sixteen threads that do everything at once |

mod allocations;
mod cap;
mod children;
mod killed;
mod page_file;
mod pages;
mod pool;
mod pool_files;
mod refused;
mod signals;
mod stress;
