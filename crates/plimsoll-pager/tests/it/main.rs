//! The crate as an embedder uses it.
//!
//! | module | topic |
//! |---|---|
//! | `cap` | the budget as the kernel counts it |
//! | `children` | forked children and shared words of a test |
//! | `pool` | processes that share a budget: kills, stops, forks, exec |
//! | `pool_files` | files of a pool: refused, damaged, removed |
//! | `refused` | systems that refuse userfaultfd |
//! | `signals` | other handlers of SIGBUS, and forks |

mod cap;
mod children;
mod pool;
mod pool_files;
mod refused;
mod signals;
