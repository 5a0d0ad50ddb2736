//! Tests of the crate from outside.
//!
//! | module | content |
//! |---|---|
//! | `children` | forked children and shared words of a test |
//! | `pool` | processes that share a budget: kills, stops, forks, exec |
//! | `pool_files` | files of a pool: refused, damaged, removed |

mod children;
mod pool;
mod pool_files;
