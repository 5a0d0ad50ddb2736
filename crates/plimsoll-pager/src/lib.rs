//! A user-space memory manager: working sets, a compression store and a page file.
#![warn(missing_docs)]

pub mod store;
