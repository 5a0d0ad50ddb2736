//! Integration tests of the pager, one file a topic.
#![allow(unsafe_code)]

mod allocations;
mod page_file;
