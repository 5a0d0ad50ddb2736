//! The memory controller of cgroup v2.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_proc::cgroup::{CgroupVersion, HIGH, Hierarchy, MemoryCgroup, RECLAIM, SUBTREE_CONTROL};

use super::super::undo::{UndoError, Undone};

use super::super::change::Change;
use super::super::error::EnvironmentError;
use super::super::journal::Journal;
use super::patience::{Patience, stepwise};
use super::undo::open_folder;

/// The nearest of our own cgroups, upwards, whose children have the memory controller and in which this user may
/// make cgroups; our own cannot be it while processes are in it (only leaves hold processes).
pub(in super::super) fn find_parent(hierarchy: &Hierarchy) -> Option<PathBuf> {
    hierarchy
        .ancestors()
        .map(|path| MemoryCgroup::new(path, CgroupVersion::V2))
        .find(|cgroup| cgroup.gives_controller() && cgroup.is_writable())
        .map(|cgroup| cgroup.path().to_owned())
}

/// Where the run's cgroup is made; if nowhere on the way up the children have the memory controller, it is enabled
/// for those of the root, which alone may hold processes and children.
pub(super) fn parent(journal: &mut Journal, hierarchy: &Hierarchy) -> Result<PathBuf, EnvironmentError> {
    if let Some(path) = find_parent(hierarchy) {
        return Ok(path);
    }
    let root = hierarchy.mount.clone();
    let group = MemoryCgroup::new(&root, CgroupVersion::V2);
    let number = journal.record(Change::MemoryController { cgroup: root.clone() })?;
    if let Err(error) = group.give_controller(true) {
        journal.record_undone(number)?;
        return Err(EnvironmentError::system_with(
            format!(
                "enable the memory controller in {}",
                group.file(SUBTREE_CONTROL).display()
            ),
            error.into_io(),
            "run inside a delegated cgroup: `systemd-run --scope -p Delegate=yes plimsoll ...`",
        ));
    }
    Ok(root)
}

/// Disables the memory controller for the children of `cgroup`, unless other children use it by now.
pub(in super::super) fn undo_controller(cgroup: &Path) -> Result<Undone, UndoError> {
    match open_folder(cgroup)? {
        Some(folder) => disable_controller(folder.group().path(), cgroup),
        None => Ok(Undone::Gone),
    }
}

/// As [`undo_controller`], in the folder `cgroup`, which messages call `shown`.
fn disable_controller(cgroup: &Path, shown: &Path) -> Result<Undone, UndoError> {
    let of = |path: &Path| MemoryCgroup::new(path, CgroupVersion::V2);
    let group = of(cgroup);
    if !group.gives_controller() {
        return Ok(Undone::Gone);
    }
    let children = fs::read_dir(cgroup).map_err(UndoError::system("list it"))?;
    let limited = children
        .filter_map(Result::ok)
        .map(|entry| of(&entry.path()))
        .find(|child| matches!(child.limit(), Ok(Some(_))) || child.gives_controller());
    if let Some(child) = limited {
        let child = shown.join(child.path().file_name().unwrap_or_default());
        return Ok(Undone::NotOurs(format!("{} uses it now", child.display())));
    }
    group
        .give_controller(false)
        .map_err(|error| UndoError::system("disable it")(error.into_io()))?;
    if group.gives_controller() {
        Err(UndoError::StaysEnabled)
    } else {
        Ok(Undone::Gone)
    }
}

/// Reclaims down to the limit and then sets it. False if the kernel cannot reclaim enough: the limit then stays,
/// since a limit below the usage invokes the OOM killer.
pub(super) fn set_limit(
    cgroup: &MemoryCgroup,
    bytes: u64,
    patience: &Patience<'_>,
) -> Result<bool, EnvironmentError> {
    if !make_room(cgroup, bytes, patience)? {
        return Ok(false);
    }
    cgroup.set_limit(bytes)?;
    Ok(true)
}

/// Reclaims step by step until no more than `bytes` are used. False where the kernel could not reclaim enough.
fn make_room(cgroup: &MemoryCgroup, bytes: u64, patience: &Patience<'_>) -> Result<bool, EnvironmentError> {
    let before = cgroup.usage()?;
    if before <= bytes {
        return Ok(true);
    }
    reclaim(cgroup, before, before - bytes, patience)?;
    Ok(cgroup.usage()? <= bytes)
}

/// Sets the soft ceiling; `None` removes it. Steps reclaim the memory above it before, since the write that sets it
/// would reclaim without a way to interrupt it. The kernel may reclaim the rest.
pub(super) fn set_high(
    cgroup: &MemoryCgroup,
    bytes: Option<u64>,
    patience: &Patience<'_>,
) -> Result<(), EnvironmentError> {
    if let Some(bytes) = bytes {
        make_room(cgroup, bytes, patience)?;
    }
    Ok(cgroup.set_high(bytes)?)
}

/// Through `memory.reclaim` (Linux 5.19), or by lowering `memory.high` for a moment before it.
pub(super) fn reclaim(
    cgroup: &MemoryCgroup,
    used: u64,
    bytes: u64,
    patience: &Patience<'_>,
) -> Result<(bool, &'static str), EnvironmentError> {
    if !cgroup.has(RECLAIM) {
        return reclaim_by_high(cgroup, used, bytes, patience);
    }
    let complete = stepwise(bytes, patience, |step| {
        match cgroup.reclaim(step.end - step.start) {
            Ok(()) => Ok(true),
            // A partial reclaim (EAGAIN), or a signal during it (EINTR).
            Err(error) if matches!(error.errno(), Some(libc::EAGAIN | libc::EINTR)) => {
                patience.check()?;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    })?;
    Ok((complete, RECLAIM))
}

fn reclaim_by_high(
    cgroup: &MemoryCgroup,
    used: u64,
    bytes: u64,
    patience: &Patience<'_>,
) -> Result<(bool, &'static str), EnvironmentError> {
    let before = cgroup.high()?;
    let lowered = stepwise(bytes.min(used), patience, |step| {
        let target = used - step.end;
        cgroup.set_high(Some(target))?;
        Ok(cgroup.usage()? <= target)
    });
    cgroup.set_high(before)?;
    Ok((lowered?, HIGH))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use plimsoll_proc as control_file;

    use super::super::{Cgroup, CgroupSettings, configure};
    use super::*;

    const USAGE: &str = CgroupVersion::V2.usage_file();
    const LIMIT: &str = CgroupVersion::V2.limit_file();
    const CHILDREN: &str = SUBTREE_CONTROL;
    const SWAP_USAGE: &str = "memory.swap.current";

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
                inner: "/".into(),
                own,
            },
        )
    }

    fn cgroup(files: &[(&str, &str)]) -> (tempfile::TempDir, Cgroup) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let group = MemoryCgroup::new(folder.path(), CgroupVersion::V2);
        (folder, Cgroup::of(group))
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
    fn limits_are_written_to_existing_files_only() {
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
            kill: false,
            as_one: true,
        };
        configure(&group.group, settings).unwrap();
        // A control file takes one write; a plain file keeps the tail of its previous content.
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
        let (_folder, bare) = cgroup(&[]);
        assert!(
            configure(&bare.group, settings).is_err(),
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
        assert_eq!(group.limit_hits(), Some(9));
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
    fn the_controller_stays_while_another_cgroup_uses_it() {
        let (_folder, hierarchy) = tree();
        fs::write(hierarchy.mount.join(CHILDREN), "memory\n").unwrap();
        fs::write(hierarchy.mount.join("system").join(LIMIT), "4096\n").unwrap();
        assert!(matches!(
            disable_controller(&hierarchy.mount, &hierarchy.mount),
            Ok(Undone::NotOurs(_))
        ));
        fs::write(hierarchy.mount.join(CHILDREN), "cpu\n").unwrap();
        let disabled = disable_controller(&hierarchy.mount, &hierarchy.mount);
        assert_eq!(disabled.unwrap(), Undone::Gone);
    }

    #[test]
    fn a_limit_below_the_usage_is_not_set() {
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
        // A step before has requested the rest.
        assert!(!read("memory.reclaim").is_empty());
        group.set_high(None, minute, &stop).unwrap();
        assert!(read(HIGH).starts_with("max"));
        stop.store(true, std::sync::atomic::Ordering::Release);
        let ended = group.set_high(Some(40_000_000), minute, &stop);
        assert!(matches!(ended, Err(EnvironmentError::Interrupted)), "{ended:?}");
        assert!(read(HIGH).starts_with("max"));
        let v1 = Cgroup::of(MemoryCgroup::new(folder.path(), CgroupVersion::V1));
        let text = v1.set_high(Some(1), minute, &stop).unwrap_err().to_string();
        assert!(text.contains("cap-by=limit"), "{text}");
    }
}
