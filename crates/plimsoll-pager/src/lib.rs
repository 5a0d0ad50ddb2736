//! A user-space memory manager for Linux.
#![warn(missing_docs)]

pub mod pool;
