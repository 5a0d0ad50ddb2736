//! The RAM of which `--ram` takes a share.

use std::fs;
use std::io;

use plimsoll_proc::cgroup::Hierarchy;
use plimsoll_proc::meminfo;

/// Bytes of RAM that this process may use: the smallest of the machine's RAM and the limits of the memory cgroups from
/// that of this process to the root.
///
/// # Errors
/// When `/proc/meminfo` cannot be read.
pub fn available_ram() -> io::Result<u64> {
    let text = fs::read(meminfo::PATH)?;
    let ram = meminfo::bytes(&text, "MemTotal").ok_or(io::ErrorKind::InvalidData)?;
    let limit = Hierarchy::of_this_process().ok().and_then(|own| own.limit());
    Ok(limit.map_or(ram, |limit| limit.min(ram)))
}
