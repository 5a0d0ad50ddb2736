//! A user-space memory manager.
#![warn(missing_docs)]

pub mod page_file;
