//! The scope of a level, the machine or a cgroup, and its reading.

use std::fs;
use std::path::{Path, PathBuf};

use super::controller::{MOST_TAKEN, Reading};
use super::error::HoldError;
use crate::environment::memory_reserve;
use plimsoll_proc::cgroup::{Field, Hierarchy, MemoryCgroup};
use plimsoll_proc::{Tree, meminfo, psi};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Levels are shares of MemTotal, read from MemAvailable.
    Machine,
    /// Levels are shares of the cgroup's limit. Its inactive page cache counts as available, as the kubelet counts.
    Cgroup(MemoryCgroup),
}

impl Scope {
    pub(super) fn cgroup(&self) -> Option<&MemoryCgroup> {
        match self {
            Scope::Machine => None,
            Scope::Cgroup(cgroup) => Some(cgroup),
        }
    }
}

/// The files of a scope.
#[derive(Debug)]
pub(super) struct Gauge {
    scope: Scope,
    tree: Tree,
    reserve: u64,
    /// Bytes that a share is a share of; `None` in a cgroup without a limit.
    total: Option<u64>,
    /// The cgroups with a limit that the memory counts for besides the scope, with their limits.
    confines: Vec<(MemoryCgroup, u64)>,
}

/// A reading and the values that the tripwire needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) reading: Reading,
    pub(super) machine_available: u64,
    /// Time of the machine in which all tasks stalled.
    pub(super) stalled_us: Option<u64>,
}

/// The least room in the cgroups that the memory counts for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) bytes: u64,
    pub(super) path: PathBuf,
}

impl Gauge {
    /// The gauge of a scope. The machine keeps at least its usual reserve, and `reserve` bytes.
    pub(super) fn new(scope: Scope, tree: Tree, reserve: Option<u64>) -> Result<Gauge, HoldError> {
        let ram = field(&tree, "MemTotal")?;
        let total = match &scope {
            Scope::Machine => Some(ram),
            Scope::Cgroup(cgroup) => cgroup.limit()?.map(|limit| limit.min(ram)),
        };
        Ok(Gauge {
            confines: confines(&scope, &tree),
            scope,
            reserve: memory_reserve(ram).max(reserve.unwrap_or(0)),
            tree,
            total,
        })
    }

    pub(super) fn total(&self) -> Option<u64> {
        self.total
    }

    pub(super) fn reserve(&self) -> u64 {
        self.reserve
    }

    pub(super) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The least room in the cgroups with a limit that the memory counts for.
    pub(super) fn room(&self) -> Result<Option<Room>, HoldError> {
        let mut least: Option<Room> = None;
        for (cgroup, limit) in &self.confines {
            let bytes = limit.saturating_sub(used(cgroup)?);
            if least.as_ref().is_none_or(|room| bytes < room.bytes) {
                let path = cgroup.path().to_owned();
                least = Some(Room { bytes, path });
            }
        }
        Ok(least)
    }

    pub(super) fn look(&self) -> Result<Look, HoldError> {
        let machine_available = field(&self.tree, "MemAvailable")?;
        let spare = machine_available.saturating_sub(self.reserve);
        // The worker, its buffers and the kernel's batches count for these cgroups, too.
        let room = self
            .room()?
            .map_or(u64::MAX, |room| room.bytes.saturating_sub(MOST_TAKEN));
        let spare = spare.min(room);
        let available = match &self.scope {
            Scope::Machine => machine_available,
            Scope::Cgroup(cgroup) => self
                .total
                .unwrap_or(machine_available)
                .saturating_sub(used(cgroup)?)
                .min(machine_available),
        };
        let pressure = self.tree.bytes(psi::MEMORY);
        Ok(Look {
            reading: Reading { available, spare },
            machine_available,
            stalled_us: pressure
                .and_then(|text| psi::parse(&text).full.total_us)
                .map(i64::unsigned_abs),
        })
    }
}

/// Usage without inactive page cache, as the kubelet counts.
fn used(cgroup: &MemoryCgroup) -> Result<u64, HoldError> {
    let reclaimable = cgroup.stat()?.get(Field::InactiveFile).unwrap_or(0);
    Ok(cgroup.usage()?.saturating_sub(reclaimable))
}

/// The cgroups with a limit above the worker, without the scope itself: a hold may fill that one.
fn confines(scope: &Scope, tree: &Tree) -> Vec<(MemoryCgroup, u64)> {
    let Ok(mut hierarchy) = Hierarchy::of(tree) else {
        return Vec::new();
    };
    if let Scope::Cgroup(cgroup) = scope {
        hierarchy.own = cgroup.path().parent().unwrap_or(&hierarchy.mount).to_owned();
    }
    let version = hierarchy.version;
    let above = hierarchy.ancestors().map(|path| MemoryCgroup::new(path, version));
    above
        .filter_map(|cgroup| {
            let limit = cgroup.limit().ok().flatten()?;
            Some((cgroup, limit))
        })
        .collect()
}

fn field(tree: &Tree, key: &'static str) -> Result<u64, HoldError> {
    let path: PathBuf = tree.path(meminfo::PATH);
    let text = fs::read(&path).map_err(|source| HoldError::Unreadable {
        path: path.clone(),
        source,
    })?;
    meminfo::bytes(&text, key).ok_or_else(|| HoldError::Unreadable {
        path: Path::new(meminfo::PATH).to_owned(),
        source: std::io::Error::new(std::io::ErrorKind::InvalidData, format!("it has no {key}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_proc::cgroup::CgroupVersion;

    const GIB: u64 = 1 << 30;

    fn machine(available_kib: u64) -> (tempfile::TempDir, Tree) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("proc")).unwrap();
        let text = format!("MemTotal: {} kB\nMemAvailable: {available_kib} kB\n", 8 << 20);
        fs::write(folder.path().join("proc/meminfo"), text).unwrap();
        let tree = Tree::below(folder.path());
        (folder, tree)
    }

    #[test]
    fn the_machine_gives_all_but_its_reserve() {
        let (_folder, tree) = machine(4 << 20);
        let gauge = Gauge::new(Scope::Machine, tree.clone(), None).unwrap();
        let look = gauge.look().unwrap();
        assert_eq!(gauge.total(), Some(8 * GIB));
        assert_eq!(look.reading.available, 4 * GIB);
        assert_eq!(look.reading.spare, 4 * GIB - gauge.reserve());
        let kept = Gauge::new(Scope::Machine, tree, Some(3 * GIB)).unwrap();
        assert_eq!(kept.look().unwrap().reading.spare, GIB);
    }

    #[test]
    fn inactive_page_cache_of_a_cgroup_is_available() {
        let (folder, tree) = machine(4 << 20);
        let cgroup = folder.path().join("cgroup");
        fs::create_dir(&cgroup).unwrap();
        for (name, text) in [
            ("memory.max", "1073741824\n"),
            ("memory.current", "805306368\n"),
            ("memory.stat", "anon 1\ninactive_file 268435456\n"),
        ] {
            fs::write(cgroup.join(name), text).unwrap();
        }
        let scope = Scope::Cgroup(MemoryCgroup::new(&cgroup, CgroupVersion::V2));
        let gauge = Gauge::new(scope, tree, None).unwrap();
        assert_eq!(gauge.total(), Some(GIB));
        assert_eq!(gauge.look().unwrap().reading.available, GIB / 2);
    }

    /// In a container, a level of the machine needed more than the container's limit, and the OOM killer ended the worker.
    #[test]
    fn the_limit_of_the_own_cgroup_leaves_less_to_take() {
        let (folder, tree) = machine(4 << 20);
        let own = folder.path().join("cgroup");
        fs::create_dir(&own).unwrap();
        for (name, text) in [
            ("memory.max", "1073741824\n"),
            ("memory.current", "805306368\n"),
            ("memory.stat", "anon 1\ninactive_file 268435456\n"),
        ] {
            fs::write(own.join(name), text).unwrap();
        }
        let mut gauge = Gauge::new(Scope::Machine, tree, None).unwrap();
        gauge.confines = vec![(MemoryCgroup::new(&own, CgroupVersion::V2), GIB)];
        let room = gauge.room().unwrap().unwrap();
        assert_eq!((room.bytes, room.path), (GIB / 2, own));
        let reading = gauge.look().unwrap().reading;
        assert_eq!(
            (reading.available, reading.spare),
            (4 * GIB, GIB / 2 - MOST_TAKEN)
        );
    }
}
