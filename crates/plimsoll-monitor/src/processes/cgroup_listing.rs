//! List of cgroups with rates between two snapshots.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::snapshot::Snapshot;

/// A cgroup with processes in it or below it. Values include the cgroups below it. None means unknown.
#[derive(Debug, Clone, PartialEq)]
pub struct CgroupEntry {
    pub folder: PathBuf,
    /// Path below the mount of the memory controller, with a slash before it. Not sanitized.
    pub name: String,
    /// Number of the snapshot's processes.
    pub processes: usize,
    /// Charged bytes: `memory.current`, or `memory.usage_in_bytes` of v1.
    pub usage: Option<u64>,
    pub swap: Option<u64>,
    /// Refaulted pages per second. None for the root cgroup of the machine.
    pub refaults_per_s: Option<f64>,
    /// Time in which some task waited for memory, in percent (v2).
    pub stalled_percent: Option<f64>,
}

/// The cgroups of `after`, by folder. Rates are unknown for a cgroup that is missing in `before`.
pub(super) fn between(before: &Snapshot, after: &Snapshot) -> Vec<CgroupEntry> {
    let seconds = after.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
    let rate = |before: Option<u64>, after: Option<u64>| {
        let (before, after) = before.zip(after).filter(|_| seconds > 0.0)?;
        Some(after.saturating_sub(before) as f64 / seconds)
    };
    let mount = after.mount();
    let mut inside: HashMap<&PathBuf, usize> = HashMap::new();
    for folder in after
        .processes
        .iter()
        .flat_map(|process| after.cgroups_of(process))
    {
        *inside.entry(folder).or_default() += 1;
    }
    let entries = after.cgroups.iter().map(|(folder, cgroup)| {
        let earlier = before.cgroups.get(folder);
        let stalled = rate(earlier.and_then(|cgroup| cgroup.stalled_us), cgroup.stalled_us);
        CgroupEntry {
            folder: folder.clone(),
            name: name_below(mount, folder),
            processes: inside.get(folder).copied().unwrap_or(0),
            usage: cgroup.usage,
            swap: cgroup.swap,
            refaults_per_s: rate(earlier.and_then(|cgroup| cgroup.refaults()), cgroup.refaults()),
            // One microsecond per second is a ten-thousandth of a percent. Two readings a little apart can seem to
            // hold more than their time.
            stalled_percent: stalled.map(|us_per_s| (us_per_s / 1e4).min(100.0)),
        }
    });
    entries.collect()
}

fn name_below(mount: Option<&Path>, folder: &Path) -> String {
    let below = mount.and_then(|mount| folder.strip_prefix(mount).ok());
    match below {
        Some(below) => format!("/{}", below.display()),
        None => folder.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::cgroup::Cgroup;
    use super::super::process::{Depth, Process};
    use super::*;

    fn this_process() -> Process {
        Process::read(std::process::id(), Depth::Sizes).unwrap()
    }

    #[test]
    fn rates_and_names_come_from_both_snapshots() {
        let cgroup = |refaults, stalled_us| Cgroup {
            usage: Some(1 << 20),
            refaults_anon: Some(refaults),
            refaults_file: Some(0),
            stalled_us: Some(stalled_us),
            ..Cgroup::default()
        };
        let at = |at_ns, refaults, stalled_us| {
            let cgroups = vec![
                ("/cg/a/b", cgroup(refaults, stalled_us)),
                ("/cg/a", cgroup(refaults, 0)),
                ("/cg", Cgroup::default()),
            ];
            Snapshot::made_up(at_ns, vec![this_process()], cgroups)
        };
        let listed = between(&at(0, 10, 0), &at(2_000_000_000, 30, 1_000_000));
        let names: Vec<&str> = listed.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["/", "/a", "/a/b"]);
        let inner = &listed[2];
        assert_eq!((inner.processes, inner.usage), (1, Some(1 << 20)));
        assert_eq!(
            (inner.refaults_per_s, inner.stalled_percent),
            (Some(10.0), Some(50.0))
        );
        assert_eq!((listed[0].usage, listed[0].refaults_per_s), (None, None));
    }

    #[test]
    fn a_new_cgroup_has_no_rates() {
        let cgroup = Cgroup {
            refaults_anon: Some(5),
            refaults_file: Some(5),
            ..Cgroup::default()
        };
        let before = Snapshot::made_up(0, Vec::new(), Vec::new());
        let after = Snapshot::made_up(1_000_000_000, vec![this_process()], vec![("/cg/new", cgroup)]);
        assert_eq!(between(&before, &after)[0].refaults_per_s, None);
    }
}
