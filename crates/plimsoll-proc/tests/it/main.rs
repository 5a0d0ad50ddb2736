//! Tests of the kernel files, one file a topic.

mod swap_headers;
