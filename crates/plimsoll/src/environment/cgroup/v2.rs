//! The memory controller of cgroup v2.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::super::cleanup::Undone;
use super::super::control_file::{read, read_field, read_number, write};
use super::super::error::{EnvironmentError, UndoError};
use super::super::journal::Change;
use super::super::session::Session;
use super::hierarchy::writable;
use super::{CgroupSettings, Hierarchy, Patience, stepwise};

pub(super) const USAGE: &str = "memory.current";
pub(super) const SWAP_USAGE: &str = "memory.swap.current";
pub(super) const LIMIT: &str = "memory.max";
const HIGH: &str = "memory.high";
const CHILDREN: &str = "cgroup.subtree_control";

/// Whether the memory controller is available in a cgroup.
pub(super) fn has_memory(cgroup: &Path) -> bool {
    lists_memory(cgroup, "cgroup.controllers")
}

fn lists_memory(cgroup: &Path, name: &str) -> bool {
    read(&cgroup.join(name)).is_ok_and(|text| text.split_whitespace().any(|word| word == "memory"))
}

/// The nearest of our own cgroups, upwards, whose children have the memory controller and in which this user may
/// make cgroups; our own cannot be it while processes are in it (only leaves hold processes).
pub(in super::super) fn find_parent(hierarchy: &Hierarchy) -> Option<PathBuf> {
    hierarchy
        .ancestors()
        .find(|path| lists_memory(path, CHILDREN) && writable(path))
        .map(Path::to_owned)
}

/// Where the run's cgroup is made; if nowhere on the way up the children have the memory controller, it is enabled
/// for those of the root, which alone may hold processes and children.
pub(super) fn parent(session: &mut Session, hierarchy: &Hierarchy) -> Result<PathBuf, EnvironmentError> {
    if let Some(path) = find_parent(hierarchy) {
        return Ok(path);
    }
    let root = hierarchy.mount.clone();
    let control = root.join(CHILDREN);
    let number = session.record(Change::MemoryController { cgroup: root.clone() })?;
    if let Err(source) = write(&control, "+memory") {
        session.record_undone(number)?;
        return Err(EnvironmentError::system_with(
            format!("enable the memory controller in {}", control.display()),
            source,
            "run inside a delegated cgroup: `systemd-run --scope -p Delegate=yes plimsoll ...`",
        ));
    }
    Ok(root)
}

/// Disables the memory controller for the children of `cgroup`, unless other children use it by now.
pub(in super::super) fn undo_controller(cgroup: &Path) -> Result<Undone, UndoError> {
    if !lists_memory(cgroup, CHILDREN) {
        return Ok(Undone::Gone);
    }
    let children = fs::read_dir(cgroup).map_err(UndoError::system("list it"))?;
    let limited = children
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(|child| matches!(limit(child), Ok(Some(_))) || lists_memory(child, CHILDREN));
    if let Some(child) = limited {
        return Ok(Undone::NotOurs(format!("{} uses it by now", child.display())));
    }
    write(&cgroup.join(CHILDREN), "-memory").map_err(UndoError::system("disable it"))?;
    if lists_memory(cgroup, CHILDREN) {
        Err(UndoError::StaysEnabled)
    } else {
        Ok(Undone::Gone)
    }
}

pub(super) fn configure(cgroup: &Path, settings: CgroupSettings) -> Result<(), EnvironmentError> {
    set(cgroup, LIMIT, &settings.limit.to_string())?;
    // All workers of a trial are one thing: when one is killed, the trial has failed. Linux 4.19 and later.
    if cgroup.join("memory.oom.group").exists() {
        set(cgroup, "memory.oom.group", "1")?;
    }
    if !settings.swap && cgroup.join("memory.swap.max").exists() {
        set(cgroup, "memory.swap.max", "0")?;
    }
    Ok(())
}

pub(super) fn limit(cgroup: &Path) -> Result<Option<u64>, EnvironmentError> {
    let path = cgroup.join(LIMIT);
    match read(&path) {
        Ok(text) => Ok(text.parse().ok()),
        // The root, and cgroups for which the controller is not enabled, have no such file.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(EnvironmentError::reading(&path, source)),
    }
}

pub(super) fn swap(cgroup: &Path) -> Result<Option<u64>, EnvironmentError> {
    let path = cgroup.join(SWAP_USAGE);
    match read_number(&path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(EnvironmentError::reading(&path, source)),
    }
}

pub(super) fn oom_kills(cgroup: &Path) -> Result<u64, EnvironmentError> {
    let path = cgroup.join("memory.events");
    let kills = read_field(&path, "oom_kill").map_err(|source| EnvironmentError::reading(&path, source))?;
    Ok(kills.unwrap_or(0))
}

/// Sets the limit once no more than that is used. False where the kernel could not reclaim enough: the limit is then
/// as it was, since one that cannot be kept ends in the OOM killer.
pub(super) fn set_limit(
    cgroup: &Path,
    bytes: u64,
    patience: &Patience<'_>,
) -> Result<bool, EnvironmentError> {
    if !make_room(cgroup, bytes, patience)? {
        return Ok(false);
    }
    set(cgroup, LIMIT, &bytes.to_string())?;
    Ok(true)
}

/// Reclaims step by step until no more than `bytes` are used. False where the kernel could not reclaim enough.
fn make_room(cgroup: &Path, bytes: u64, patience: &Patience<'_>) -> Result<bool, EnvironmentError> {
    let usage = cgroup.join(USAGE);
    let used = || read_number(&usage).map_err(|source| EnvironmentError::reading(&usage, source));
    let before = used()?;
    if before <= bytes {
        return Ok(true);
    }
    reclaim(cgroup, before, before - bytes, patience)?;
    Ok(used()? <= bytes)
}

/// Sets the soft ceiling; `None` is no ceiling. What is above it is reclaimed step by step before, as the write that sets
/// it would do in one go that nothing ends. What then is left above it the kernel may reclaim.
pub(super) fn set_high(
    cgroup: &Path,
    bytes: Option<u64>,
    patience: &Patience<'_>,
) -> Result<(), EnvironmentError> {
    let Some(bytes) = bytes else {
        return set(cgroup, HIGH, "max");
    };
    make_room(cgroup, bytes, patience)?;
    set(cgroup, HIGH, &bytes.to_string())
}

/// Through `memory.reclaim` (Linux 5.19), or by lowering `memory.high` for a moment before it.
pub(super) fn reclaim(
    cgroup: &Path,
    used: u64,
    bytes: u64,
    patience: &Patience<'_>,
) -> Result<(bool, &'static str), EnvironmentError> {
    const RECLAIM: &str = "memory.reclaim";
    let path = cgroup.join(RECLAIM);
    if !path.exists() {
        return reclaim_by_high(cgroup, used, bytes, patience);
    }
    let complete = stepwise(bytes, patience, |step| {
        let length = (step.end - step.start).to_string();
        match write(&path, &length) {
            Ok(()) => Ok(true),
            // It reclaimed what it could (EAGAIN), or was interrupted while it did (EINTR).
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => {
                patience.check()?;
                Ok(false)
            }
            Err(source) => Err(EnvironmentError::writing(&path, &length, source)),
        }
    })?;
    Ok((complete, RECLAIM))
}

fn reclaim_by_high(
    cgroup: &Path,
    used: u64,
    bytes: u64,
    patience: &Patience<'_>,
) -> Result<(bool, &'static str), EnvironmentError> {
    let path = cgroup.join(HIGH);
    let before = read(&path).map_err(|source| EnvironmentError::reading(&path, source))?;
    let usage = cgroup.join(USAGE);
    let lowered = stepwise(bytes.min(used), patience, |step| {
        let target = used - step.end;
        set(cgroup, HIGH, &target.to_string())?;
        let now = read_number(&usage).map_err(|source| EnvironmentError::reading(&usage, source))?;
        Ok(now <= target)
    });
    set(cgroup, HIGH, &before)?;
    Ok((lowered?, HIGH))
}

fn set(cgroup: &Path, name: &str, value: &str) -> Result<(), EnvironmentError> {
    let path = cgroup.join(name);
    write(&path, value).map_err(|source| EnvironmentError::writing(&path, value, source))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use super::super::super::control_file;
    use super::super::{Cgroup, CgroupVersion};
    use super::*;

    /// A cgroup v2 tree of plain files: `root/system/service`, with this process in `service`.
    fn tree() -> (tempfile::TempDir, Hierarchy) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_owned();
        let own = root.join("system/service");
        for path in [root.clone(), root.join("system"), own.clone()] {
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("cgroup.procs"), "").unwrap();
            fs::write(path.join(CHILDREN), "").unwrap();
            fs::write(path.join("cgroup.controllers"), "cpu memory\n").unwrap();
        }
        (
            folder,
            Hierarchy {
                version: CgroupVersion::V2,
                mount: root,
                own,
            },
        )
    }

    fn cgroup(files: &[(&str, &str)]) -> (tempfile::TempDir, Cgroup) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let path = folder.path().to_owned();
        (
            folder,
            Cgroup {
                version: CgroupVersion::V2,
                path,
            },
        )
    }

    #[test]
    fn the_nearest_ancestor_with_memory_for_its_children_is_the_parent() {
        let (_folder, hierarchy) = tree();
        assert_eq!(find_parent(&hierarchy), None);
        fs::write(hierarchy.mount.join(CHILDREN), "cpu memory\n").unwrap();
        assert_eq!(find_parent(&hierarchy), Some(hierarchy.mount.clone()));
        fs::write(hierarchy.mount.join("system").join(CHILDREN), "memory\n").unwrap();
        assert_eq!(find_parent(&hierarchy), Some(hierarchy.mount.join("system")));
    }

    #[test]
    fn the_tightest_limit_of_the_ancestors_counts() {
        let (_folder, hierarchy) = tree();
        assert_eq!(hierarchy.limit(), None);
        fs::write(hierarchy.own.join(LIMIT), "max\n").unwrap();
        fs::write(hierarchy.mount.join("system").join(LIMIT), "1073741824\n").unwrap();
        assert_eq!(hierarchy.limit(), Some(1 << 30));
    }

    #[test]
    fn limits_are_written_to_the_files_that_there_are() {
        let files = [
            (LIMIT, "max\n"),
            ("memory.oom.group", "0\n"),
            ("memory.swap.max", "max\n"),
        ];
        let (folder, group) = cgroup(&files);
        let settings = CgroupSettings {
            limit: 64 << 20,
            swappiness: Some(60),
            swap: false,
        };
        configure(folder.path(), settings).unwrap();
        // A control file takes one write; a plain file keeps the tail of what was there before.
        assert!(
            control_file::read(&folder.path().join(LIMIT))
                .unwrap()
                .starts_with("67108864")
        );
        assert!(
            control_file::read(&folder.path().join("memory.oom.group"))
                .unwrap()
                .starts_with('1')
        );
        assert!(
            control_file::read(&folder.path().join("memory.swap.max"))
                .unwrap()
                .starts_with('0')
        );
        assert_eq!(group.limit().unwrap(), Some(64 << 20));
        let (bare, _) = cgroup(&[]);
        assert!(
            configure(bare.path(), settings).is_err(),
            "a cgroup without memory.max was accepted"
        );
    }

    #[test]
    fn usage_swap_and_kills_are_read() {
        let (_folder, group) = cgroup(&[
            (USAGE, "4096\n"),
            (SWAP_USAGE, "8192\n"),
            (
                "memory.events",
                "low 0\nhigh 3\nmax 9\noom 2\noom_kill 1\noom_group_kill 1\n",
            ),
        ]);
        assert_eq!(
            (
                group.usage().unwrap(),
                group.swap().unwrap(),
                group.oom_kills().unwrap()
            ),
            (4096, Some(8192), 1)
        );
        let (_folder, bare) = cgroup(&[]);
        assert_eq!(bare.swap().unwrap(), None);
        assert!(bare.usage().is_err());
    }

    #[test]
    fn memory_high_is_put_back_when_the_reclaim_is_interrupted() {
        let (folder, group) = cgroup(&[(USAGE, "1000\n"), ("memory.high", "max\n")]);
        let ended = group.reclaim(400, Duration::from_secs(60), &AtomicBool::new(true));
        assert!(matches!(ended, Err(EnvironmentError::Interrupted)), "{ended:?}");
        let ended = group.reclaim(400, Duration::ZERO, &AtomicBool::new(false));
        assert!(
            matches!(ended, Err(EnvironmentError::ReclaimTimedOut { .. })),
            "{ended:?}"
        );
        assert_eq!(
            control_file::read(&folder.path().join("memory.high")).unwrap(),
            "max"
        );
    }

    fn reclaim(group: &Cgroup) -> Result<super::super::Reclaimed, EnvironmentError> {
        group.reclaim(400, Duration::from_secs(60), &AtomicBool::new(false))
    }

    #[test]
    fn reclaim_uses_memory_high_where_memory_reclaim_is_not() {
        let (folder, group) = cgroup(&[(USAGE, "1000\n"), ("memory.reclaim", "")]);
        assert_eq!(reclaim(&group).unwrap().mechanism, "memory.reclaim");
        assert_eq!(
            control_file::read(&folder.path().join("memory.reclaim")).unwrap(),
            "400"
        );
        let (folder, group) = cgroup(&[(USAGE, "1000\n"), ("memory.high", "max\n")]);
        let reclaimed = reclaim(&group).unwrap();
        assert_eq!(
            (reclaimed.mechanism, reclaimed.complete, reclaimed.bytes()),
            ("memory.high", false, 0)
        );
        assert!(
            control_file::read(&folder.path().join("memory.high"))
                .unwrap()
                .starts_with("max")
        );
    }

    #[test]
    fn the_controller_stays_where_others_use_it_by_now() {
        let (_folder, hierarchy) = tree();
        fs::write(hierarchy.mount.join(CHILDREN), "memory\n").unwrap();
        fs::write(hierarchy.mount.join("system").join(LIMIT), "4096\n").unwrap();
        assert!(matches!(
            undo_controller(&hierarchy.mount),
            Ok(Undone::NotOurs(_))
        ));
        fs::write(hierarchy.mount.join(CHILDREN), "cpu\n").unwrap();
        assert_eq!(undo_controller(&hierarchy.mount).unwrap(), Undone::Gone);
    }

    #[test]
    fn a_limit_below_what_stays_in_use_is_not_set() {
        let stop = AtomicBool::new(false);
        let files = [
            (LIMIT, "999999999\n"),
            (USAGE, "50000000\n"),
            ("memory.reclaim", ""),
        ];
        let (folder, group) = cgroup(&files);
        let read_limit = || control_file::read(&folder.path().join(LIMIT)).unwrap();
        let minute = Duration::from_secs(60);
        // Plain files reclaim nothing.
        let error = group.set_limit(40_000_000, minute, &stop).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("40000000") && text.contains("swap-size"), "{text}");
        assert!(read_limit().starts_with("999999999"), "it stays as it was");
        group.set_limit(60_000_000, minute, &stop).unwrap();
        assert!(read_limit().starts_with("60000000"));
        stop.store(true, std::sync::atomic::Ordering::Release);
        assert!(group.set_limit(1, minute, &stop).is_err());
    }

    #[test]
    fn the_soft_ceiling_is_a_number_or_max() {
        let stop = AtomicBool::new(false);
        let minute = Duration::from_secs(60);
        let files = [(HIGH, "max\n"), (USAGE, "50000000\n"), ("memory.reclaim", "")];
        let (folder, group) = cgroup(&files);
        let read = |name: &str| control_file::read(&folder.path().join(name)).unwrap();
        group.set_high(Some(40_000_000), minute, &stop).unwrap();
        assert!(read(HIGH).starts_with("40000000"));
        // What is above it was asked for before.
        assert!(!read("memory.reclaim").is_empty());
        group.set_high(None, minute, &stop).unwrap();
        assert!(read(HIGH).starts_with("max"));
        stop.store(true, std::sync::atomic::Ordering::Release);
        let ended = group.set_high(Some(40_000_000), minute, &stop);
        assert!(matches!(ended, Err(EnvironmentError::Interrupted)), "{ended:?}");
        assert!(read(HIGH).starts_with("max"));
        let v1 = Cgroup {
            version: CgroupVersion::V1,
            path: folder.path().to_owned(),
        };
        let text = v1.set_high(Some(1), minute, &stop).unwrap_err().to_string();
        assert!(text.contains("cap-by=limit"), "{text}");
    }
}
