//! The facts of this machine that sizes are checked against.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use plimsoll_proc::cgroup::Hierarchy;
use plimsoll_proc::{Tree, meminfo, mounts, read_ahead};

use plimsoll_model::quantity;
use plimsoll_model::scenario::Machine;

use super::error::EnvironmentError;

/// Share of a disk that stays free, in percent, and the most that this reserve takes.
const DISK_RESERVE_PERCENT: u64 = 5;
const DISK_RESERVE_MOST: u64 = 1 << 30;

/// Space of a file system in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DiskSpace {
    /// Free for this user.
    pub(super) available: u64,
    /// Bytes that stay free.
    pub(super) reserve: u64,
}

/// This machine as it is now.
///
/// # Errors
/// When `/proc/meminfo` cannot be read.
pub fn machine() -> Result<Machine, EnvironmentError> {
    let path = Path::new(meminfo::PATH);
    let text = fs::read(path).map_err(|source| EnvironmentError::reading(path, source))?;
    let field = |name: &str| {
        meminfo::bytes(&text, name).ok_or_else(|| {
            let source = io::Error::new(io::ErrorKind::InvalidData, format!("it has no {name}"));
            EnvironmentError::reading(path, source)
        })
    };
    Ok(Machine {
        ram: field("MemTotal")?,
        available: field("MemAvailable")?,
        cgroup_limit: Hierarchy::of_this_process()
            .ok()
            .and_then(|hierarchy| hierarchy.limit()),
        cpus: std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
        allocators: super::allocators::set(),
    })
}

/// Bytes that a swap file in `folder` may take: the space that is free for this user less a reserve of 5 % of the
/// disk, at most 1 GiB.
///
/// # Errors
/// When `statvfs` fails.
pub fn disk_free(folder: &Path) -> Result<u64, EnvironmentError> {
    let space = disk_space(folder).map_err(|source| EnvironmentError::reading(folder, source))?;
    Ok(space.available.saturating_sub(space.reserve))
}

/// Bytes of the disk of `folder` that are free for this user.
///
/// # Errors
/// When `statvfs` fails.
pub fn disk_available(folder: &Path) -> Result<u64, EnvironmentError> {
    let space = disk_space(folder).map_err(|source| EnvironmentError::reading(folder, source))?;
    Ok(space.available)
}

/// The file system of a folder, its source, and the most that a fault of a mapped file reads ahead, as
/// `ext4 on /dev/vda, read-ahead 128 KiB`; `None` where the kernel does not say.
pub fn file_system(folder: &Path) -> Option<String> {
    let tree = Tree::live();
    let folder = fs::canonicalize(folder).ok()?;
    let mounts = mounts::of(&tree);
    let mount = mounts::holding(&mounts, &folder)?;
    let device = fs::metadata(&folder).ok()?.dev();
    let ahead = read_ahead::bytes(&tree, device).map_or(String::new(), |bytes| {
        format!(", read-ahead {}", quantity::bytes(bytes as f64))
    });
    Some(format!("{} on {}{ahead}", mount.kind, mount.source))
}

pub(super) fn disk_space(folder: &Path) -> io::Result<DiskSpace> {
    let stat = rustix::fs::statvfs(folder)?;
    let total = stat.f_blocks.saturating_mul(stat.f_frsize);
    Ok(DiskSpace {
        available: stat.f_bavail.saturating_mul(stat.f_frsize),
        reserve: (total / 100 * DISK_RESERVE_PERCENT).min(DISK_RESERVE_MOST),
    })
}
