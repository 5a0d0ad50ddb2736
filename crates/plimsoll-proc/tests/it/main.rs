//! Tests of the kernel files, one file a topic.

mod cgroups;
mod hostile;
mod kept_files;
mod keyed_lines;
mod oracle;
mod process_files;
mod swap_headers;
