//! Tests of the kernel files, one file a topic.

mod cgroups;
mod hostile;
mod keyed_lines;
mod oracle;
mod process_files;
#[path = "../../../plimsoll/tests/it/require.rs"]
#[allow(unreachable_pub)]
mod require;
mod swap_headers;
