//! `/proc/sys`: settings and facts of the kernel, a value a file.

use std::io;
use std::path::{Path, PathBuf};

use super::{ControlError, Tree, control};

/// How readily anonymous pages are taken rather than file pages.
pub const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
/// Logarithm of the pages that are read from swap at once.
pub const PAGE_CLUSTER: &str = "/proc/sys/vm/page-cluster";
/// See [`drop_caches`].
pub const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";
/// Whether users may handle faults of the kernel's own accesses.
pub const UNPRIVILEGED_USERFAULTFD: &str = "/proc/sys/vm/unprivileged_userfaultfd";
/// Performance events that users may measure.
pub const PERF_EVENT_PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";
/// Whether the kernel keeps an account of delays: 1 for on.
pub const TASK_DELAY_ACCOUNTING: &str = "/proc/sys/kernel/task_delayacct";
/// Release of the kernel, as `uname -r` prints it.
pub const RELEASE: &str = "/proc/sys/kernel/osrelease";
/// Version of the kernel, as `uname -v` prints it.
pub const VERSION: &str = "/proc/sys/kernel/version";
/// Name of the machine.
pub const HOST_NAME: &str = "/proc/sys/kernel/hostname";
/// The kernel's name for this boot.
pub const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The file of a setting that is named as `vm/swappiness`.
pub fn file(name: &str) -> PathBuf {
    Path::new("/proc/sys").join(name)
}

/// Whether the kernel keeps an account of delays. Tasks that started before it was turned on have no values.
///
/// # Errors
/// When the file cannot be read: the kernel is built without the account.
pub fn has_delay_accounting() -> io::Result<bool> {
    control::read(Path::new(TASK_DELAY_ACCOUNTING)).map(|text| text == "1")
}

/// The caches that the kernel drops on request, by their value in [`DROP_CACHES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caches {
    /// Clean page cache.
    Pages = 1,
    /// Reclaimable kernel objects.
    Slab = 2,
}

/// Drops caches through `file`, which is [`DROP_CACHES`] on a machine. Returns after the kernel has dropped them.
///
/// # Errors
/// When the system refuses.
pub fn drop_caches(file: &Path, caches: Caches) -> io::Result<()> {
    control::write(file, &(caches as u8).to_string())
}

/// Release and version of the kernel.
pub fn kernel(tree: &Tree) -> String {
    let release = tree.read(RELEASE).unwrap_or_default();
    let version = tree.read(VERSION).unwrap_or_default();
    format!("{release} {version}").trim().to_owned()
}

/// Major and minor number of the kernel's release; `None` of a release without them.
pub fn release(tree: &Tree) -> Option<(u32, u32)> {
    let release = tree.read(RELEASE)?;
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The kernel's name for this boot.
///
/// # Errors
/// When it cannot be read.
pub fn boot_id() -> Result<String, ControlError> {
    let path = Path::new(BOOT_ID);
    control::read(path).map_err(|source| ControlError::read(path, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_two_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(RELEASE.trim_start_matches('/'));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        for (text, expected) in [
            ("6.18.44-fc\n", Some((6, 18))),
            ("5.4.0-150-generic\n", Some((5, 4))),
            ("7.0\n", Some((7, 0))),
            ("7\n", None),
            ("rolling", None),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(release(&Tree::below(folder.path())), expected, "{text}");
        }
    }
}
