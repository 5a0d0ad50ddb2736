//! The scope of a level, the machine or a cgroup, and its reading.

use std::fs;
use std::path::{Path, PathBuf};

use super::HoldError;
use super::controller::Reading;
use crate::environment::memory_reserve;
use plimsoll_proc::cgroup::{Field, MemoryCgroup};
use plimsoll_proc::{Tree, meminfo, psi};

/// The place in which a level is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Levels are shares of MemTotal, read from MemAvailable.
    Machine,
    /// Levels are shares of the cgroup's limit. Its inactive page cache counts as available, as the kubelet counts.
    Cgroup(MemoryCgroup),
}

/// The files of a scope.
#[derive(Debug)]
pub(super) struct Gauge {
    scope: Scope,
    tree: Tree,
    reserve: u64,
    /// Bytes that a share is a share of; `None` in a cgroup without a limit.
    total: Option<u64>,
}

/// A reading and the figures that the tripwire needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) reading: Reading,
    pub(super) machine_available: u64,
    pub(super) stalled_us: Option<u64>,
}

impl Gauge {
    pub(super) fn new(scope: Scope, tree: Tree) -> Result<Gauge, HoldError> {
        let ram = field(&tree, "MemTotal")?;
        let total = match &scope {
            Scope::Machine => Some(ram),
            Scope::Cgroup(cgroup) => cgroup.limit()?.map(|limit| limit.min(ram)),
        };
        Ok(Gauge {
            scope,
            reserve: memory_reserve(ram),
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

    pub(super) fn look(&self) -> Result<Look, HoldError> {
        let machine_available = field(&self.tree, "MemAvailable")?;
        let spare = machine_available.saturating_sub(self.reserve);
        let available = match &self.scope {
            Scope::Machine => machine_available,
            Scope::Cgroup(cgroup) => {
                let reclaimable = cgroup.stat()?.get(Field::InactiveFile).unwrap_or(0);
                let used = cgroup.usage()?.saturating_sub(reclaimable);
                self.total
                    .unwrap_or(machine_available)
                    .saturating_sub(used)
                    .min(machine_available)
            }
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
        let gauge = Gauge::new(Scope::Machine, tree).unwrap();
        let look = gauge.look().unwrap();
        assert_eq!(gauge.total(), Some(8 * GIB));
        assert_eq!(look.reading.available, 4 * GIB);
        assert_eq!(look.reading.spare, 4 * GIB - gauge.reserve());
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
        let gauge = Gauge::new(scope, tree).unwrap();
        assert_eq!(gauge.total(), Some(GIB));
        assert_eq!(gauge.look().unwrap().reading.available, GIB / 2);
    }
}
