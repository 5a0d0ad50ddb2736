//! Readers and writers of kernel files: `/proc`, `/sys`, and cgroups of both versions.
//!
//! A module is a kernel file, or a noun that several files describe. It has the one parser of the file, and the one
//! typed writer if the file takes values. Nothing here decides anything: limits, journals and undoing are for callers.
//!
//! Three rules hold for every parser:
//! - It takes any bytes or text and never panics. A line that it does not understand counts as absent.
//! - Sizes are bytes and times microseconds, unless the name says otherwise.
//! - A parser that the sampler calls on every tick borrows from its input and does not allocate.
//!
//! Functions that take a [`Tree`] read the files below its root, so that a test can feed them the files of any machine.

pub mod boot;
pub mod capabilities;
pub mod cgroup;
pub mod command_line;
mod control;
pub mod cpu_times;
pub mod cpus;
pub mod crypto;
pub mod damon;
pub mod fields;
mod folder;
pub mod huge_pages;
pub mod iomem;
pub mod kallsyms;
mod kept_file;
pub mod loadavg;
pub mod lru_gen;
pub mod maps;
pub mod meminfo;
pub mod mounts;
pub mod oom;
pub mod page_reporting;
mod pid_stat;
mod pid_status;
pub mod pids;
mod process_id;
pub mod process_memory;
pub mod psi;
pub mod read_ahead;
mod repeated_lines;
pub mod resource_limits;
pub mod schedstat;
pub mod smaps_rollup;
mod statm;
pub mod swap_header;
pub mod swaps;
pub mod sysctl;
pub mod transparent_huge_pages;
mod tree;
mod trusted_folder;
pub mod vmstat;
pub mod zram;
pub mod zswap;

pub use control::{ControlError, chosen, read, read_number, write};
pub use folder::Folder;
pub use kept_file::{BUFFER, KeptFile};
pub use pid_stat::{CLOCK_TICK_US, PidStat, PidStatFile};
pub use pid_status::{PidStatus, Seccomp, Security, swapped};
pub use process_id::ProcessId;
pub use repeated_lines::RepeatedLines;
pub use statm::Statm;
pub use tree::Tree;
pub use trusted_folder::{Distrust, TrustedFolder};
