//! Memory cgroups of other programs: caps, usage, refaults.

use std::path::{Path, PathBuf};

use plimsoll_proc::cgroup::{self, CgroupVersion, Field, MemoryCgroup};
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapKind {
    /// Above it, the OOM killer runs: `memory.max` (v2), `memory.limit_in_bytes` (v1).
    Limit,
    /// Above it, the kernel throttles processes and reclaims: `memory.high` (v2).
    High,
    /// Above it, global reclaim takes the cgroup's pages first: `memory.soft_limit_in_bytes` (v1). It limits no process
    /// by itself.
    Soft,
}

impl CapKind {
    fn of(kind: cgroup::CapKind) -> CapKind {
        match kind {
            cgroup::CapKind::Limit => CapKind::Limit,
            cgroup::CapKind::High => CapKind::High,
            cgroup::CapKind::Soft => CapKind::Soft,
        }
    }

    /// Short form for a table.
    pub fn word(self) -> &'static str {
        match self {
            CapKind::Limit => "limit",
            CapKind::High => "high",
            CapKind::Soft => "soft",
        }
    }
}

/// A cap on the memory of a cgroup and its descendants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cap {
    pub kind: CapKind,
    pub bytes: u64,
    /// Bytes in use by the capped cgroup.
    pub usage: Option<u64>,
    pub file: PathBuf,
}

/// A memory cgroup at one moment. A value is None if the cgroup version lacks it or this user may not read it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cgroup {
    /// Caps set on the cgroup itself, not on its ancestors.
    pub caps: Vec<Cap>,
    /// Bytes in use, with its descendants.
    pub usage: Option<u64>,
    /// Refaulted anonymous pages, with its descendants. None for the root cgroup, whose counter is the machine's.
    pub refaults_anon: Option<u64>,
    /// Refaulted file pages, likewise.
    pub refaults_file: Option<u64>,
    /// Bytes of swap, compressed or not, with its descendants.
    pub swap: Option<u64>,
    /// Bytes in zswap, before compression (v2).
    pub zswapped: Option<u64>,
    /// Bytes in zswap, after compression (v2).
    pub zswap: Option<u64>,
    /// Microseconds in which some task waited for memory (v2's `memory.pressure`).
    pub stalled_us: Option<u64>,
}

impl Cgroup {
    /// Reads the cgroup at `folder`. A missing file gives None.
    pub fn read(folder: &Path, version: CgroupVersion) -> Cgroup {
        let group = MemoryCgroup::new(folder, version);
        let usage = group.usage().ok();
        let stat = group.stat().unwrap_or_default();
        let own = |field: Field| stat.get(field).filter(|_| !group.is_root_of_machine());
        let caps = group.caps().map(|(kind, bytes, name)| Cap {
            kind: CapKind::of(kind),
            bytes,
            usage,
            file: folder.join(name),
        });
        let swap = match version {
            CgroupVersion::V1 => stat.get(Field::Swap),
            CgroupVersion::V2 => group.swap().ok().flatten(),
        };
        Cgroup {
            caps: caps.collect(),
            usage,
            refaults_anon: own(Field::RefaultsAnon),
            refaults_file: own(Field::RefaultsFile),
            swap,
            zswapped: stat.get(Field::Zswapped),
            zswap: stat.get(Field::Zswap),
            stalled_us: group.stalled_us(),
        }
    }

    /// All refaulted pages, if the kernel counts them.
    pub fn refaults(&self) -> Option<u64> {
        Some(self.refaults_anon? + self.refaults_file?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn v1_counts_descendants_and_treats_a_huge_limit_as_none() {
        let folder = folder(&[
            ("memory.usage_in_bytes", "4096\n"),
            ("memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory.soft_limit_in_bytes", "8192\n"),
            (
                "memory.stat",
                "workingset_refault_anon 1\ntotal_workingset_refault_anon 7\ntotal_workingset_refault_file 5\n",
            ),
        ]);
        let cgroup = Cgroup::read(folder.path(), CgroupVersion::V1);
        assert_eq!(cgroup.caps.len(), 1);
        assert_eq!((cgroup.caps[0].kind, cgroup.caps[0].bytes), (CapKind::Soft, 8192));
        assert_eq!(cgroup.caps[0].usage, Some(4096));
        assert_eq!(cgroup.refaults(), Some(12));
    }

    #[test]
    fn v2_has_high_zswap_and_pressure() {
        let folder = folder(&[
            ("memory.current", "4096\n"),
            ("memory.max", "max\n"),
            ("memory.high", "8192\n"),
            ("memory.swap.current", "12288\n"),
            (
                "memory.stat",
                "zswap 100\nzswapped 400\nworkingset_refault_anon 1\nworkingset_refault_file 2\n",
            ),
            (
                "memory.pressure",
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\nfull avg10=0 avg60=0 avg300=0 total=9\n",
            ),
        ]);
        let cgroup = Cgroup::read(folder.path(), CgroupVersion::V2);
        assert_eq!(cgroup.caps.len(), 1);
        assert_eq!((cgroup.caps[0].kind, cgroup.caps[0].bytes), (CapKind::High, 8192));
        assert_eq!(
            (cgroup.zswapped, cgroup.zswap, cgroup.swap),
            (Some(400), Some(100), Some(12288))
        );
        assert_eq!((cgroup.refaults(), cgroup.stalled_us), (Some(3), Some(1234)));
    }

    #[test]
    fn refaults_of_the_root_cgroup_are_the_machines_and_not_shown() {
        let stat = "workingset_refault_anon 1\nworkingset_refault_file 2\n";
        let total = "total_workingset_refault_anon 1\ntotal_workingset_refault_file 2\n";
        let root = folder(&[("memory.stat", stat), ("cgroup.procs", "1\n")]);
        assert_eq!(Cgroup::read(root.path(), CgroupVersion::V2).refaults(), None);
        let below = folder(&[("memory.stat", stat), ("cgroup.type", "domain\n")]);
        assert_eq!(Cgroup::read(below.path(), CgroupVersion::V2).refaults(), Some(3));
        let root = folder(&[("memory.stat", total), ("release_agent", "\n")]);
        assert_eq!(Cgroup::read(root.path(), CgroupVersion::V1).refaults(), None);
        let below = folder(&[("memory.stat", total)]);
        assert_eq!(Cgroup::read(below.path(), CgroupVersion::V1).refaults(), Some(3));
    }

    #[test]
    fn a_removed_cgroup_has_no_values() {
        let gone = Cgroup::read(Path::new("/nowhere"), CgroupVersion::V2);
        assert_eq!(gone, Cgroup::default());
    }
}
