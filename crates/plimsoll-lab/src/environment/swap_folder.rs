//! The folder of swap files: one in which no other user can replace a file of root, on a file system that can hold swap.

use std::io;
use std::path::{Path, PathBuf};

use plimsoll_proc::{Distrust, TrustedFolder};
use rustix::fs::fstatfs;

/// `TMPFS_MAGIC`, `RAMFS_MAGIC`, `BTRFS_SUPER_MAGIC`, ... of `<linux/magic.h>`.
mod magic {
    pub(super) const TMPFS: u64 = 0x0102_1994;
    pub(super) const RAMFS: u64 = 0x8584_58f6;
    pub(super) const OVERLAYFS: u64 = 0x794c_7630;
    pub(super) const NFS: u64 = 0x6969;
    pub(super) const SQUASHFS: u64 = 0x7371_7368;
}

/// Why a folder cannot hold a swap file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SwapFolderDefect {
    /// The caller of sudo owns it or a folder above it, and could replace the swap file of root.
    #[error(
        "{} belongs to user {user}, who called sudo: the swap file would be root's, and that user could put another file in \
         its place; {}", path.display(), root_folder(.beside)
    )]
    OfCaller {
        path: PathBuf,
        user: u32,
        /// A folder on the way up that is root's alone, where root can make one for swap files.
        beside: Option<PathBuf>,
    },
    #[error("{0}: another user could put another file in place of the swap file")]
    Untrusted(Distrust),
    #[error("its file system cannot be examined: {0}")]
    Unknown(io::Error),
    #[error("it is in memory itself (tmpfs), so that swapping to it would free nothing")]
    InMemory,
    #[error("it is on overlayfs, which the kernel cannot swap to")]
    Overlay,
    #[error("it is on a network file system")]
    Network,
    #[error("its file system is read-only")]
    ReadOnly,
}

/// The remedy for a folder of the caller.
fn root_folder(beside: &Option<PathBuf>) -> String {
    match beside {
        Some(parent) => {
            let made = parent.join("plimsoll-swap");
            let made = made.display();
            format!("make a folder of root with `sudo mkdir -m 700 {made}`, and use `swap-dir={made}`")
        }
        None => "use a folder of root, like the default `/var/tmp`".to_owned(),
    }
}

impl SwapFolderDefect {
    /// The defect of a folder that is not trusted, when the user `caller` called sudo.
    fn of(folder: &Path, distrust: Distrust, caller: Option<u32>) -> SwapFolderDefect {
        match distrust {
            Distrust::OfAnother(path, user) if Some(user) == caller => {
                let mut above = folder.ancestors().skip(1);
                let beside = above.find(|parent| examined(parent).is_ok());
                SwapFolderDefect::OfCaller {
                    path,
                    user,
                    beside: beside.map(Path::to_owned),
                }
            }
            other => SwapFolderDefect::Untrusted(other),
        }
    }
}

fn sudo_caller() -> Option<u32> {
    std::env::var("SUDO_UID").ok()?.parse().ok()
}

/// Why files in this folder are in memory alone, or cannot be looked at; `None` of a folder on a disk.
pub(crate) fn not_on_disk(folder: &Path) -> Option<String> {
    match rustix::fs::statfs(folder) {
        Ok(stat) => matches!(stat.f_type as u64, magic::TMPFS | magic::RAMFS)
            .then(|| "it is in memory itself (tmpfs), so that no page would leave RAM".to_owned()),
        Err(error) => Some(format!("it cannot be looked at: {error}")),
    }
}

/// Opens a folder that can hold a swap file.
///
/// A folder of another user is refused, the caller of sudo included: root must not write to a file that this user can
/// replace.
pub(super) fn suitable(folder: &Path) -> Result<TrustedFolder, SwapFolderDefect> {
    suitable_for(folder, sudo_caller())
}

fn suitable_for(folder: &Path, caller: Option<u32>) -> Result<TrustedFolder, SwapFolderDefect> {
    examined(folder).map_err(|defect| match defect {
        SwapFolderDefect::Untrusted(distrust) => SwapFolderDefect::of(folder, distrust, caller),
        other => other,
    })
}

fn examined(folder: &Path) -> Result<TrustedFolder, SwapFolderDefect> {
    let place = TrustedFolder::shared(folder).map_err(SwapFolderDefect::Untrusted)?;
    let stat = fstatfs(&place).map_err(|errno| SwapFolderDefect::Unknown(errno.into()))?;
    match stat.f_type as u64 {
        magic::TMPFS | magic::RAMFS => Err(SwapFolderDefect::InMemory),
        magic::OVERLAYFS => Err(SwapFolderDefect::Overlay),
        magic::NFS => Err(SwapFolderDefect::Network),
        magic::SQUASHFS => Err(SwapFolderDefect::ReadOnly),
        _ => Ok(place),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_swap_file_on_tmpfs_is_refused() {
        if Path::new("/dev/shm").is_dir() {
            let shared_memory = suitable(Path::new("/dev/shm"));
            assert!(matches!(shared_memory, Err(SwapFolderDefect::InMemory)));
        }
        assert!(suitable(Path::new("/not/there")).is_err());
    }

    /// `sudo plimsoll run --set swap-dir=$HOME/swap` was refused as if the folder were a stranger's.
    #[test]
    fn a_folder_of_the_caller_of_sudo_is_refused_with_one_that_works() {
        if !plimsoll_testkit::capability(
            "chown",
            rustix::process::geteuid().is_root(),
            "needs root to give a folder to another user",
        ) {
            return;
        }
        let disk = tempfile::tempdir_in("/var/tmp").unwrap();
        let home = disk.path().join("home");
        let folder = home.join("swap");
        fs::create_dir_all(&folder).unwrap();
        for owned in [&folder, &home] {
            std::os::unix::fs::chown(owned, Some(1000), None).unwrap();
        }
        let Err(SwapFolderDefect::OfCaller { path, user, beside }) = suitable_for(&folder, Some(1000)) else {
            panic!("a folder of the caller is taken");
        };
        assert_eq!((path.as_path(), user), (home.as_path(), 1000));
        let beside = beside.expect("/var/tmp can hold swap files");
        assert!(suitable_for(&beside, Some(1000)).is_ok(), "{}", beside.display());
        for caller in [None, Some(1001)] {
            let refused = suitable_for(&folder, caller);
            assert!(
                matches!(
                    refused,
                    Err(SwapFolderDefect::Untrusted(Distrust::OfAnother(_, 1000)))
                ),
                "{refused:?}"
            );
        }
    }
}
