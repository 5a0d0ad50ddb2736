//! Integration tests of the pager, one file a topic.

mod allocations;
mod page_file;
