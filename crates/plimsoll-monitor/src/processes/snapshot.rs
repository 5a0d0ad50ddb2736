//! All processes and their cgroups at one moment.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll_proc::cgroup::{CgroupVersion, Hierarchy};
use plimsoll_proc::{Tree, cpus, mounts, vmstat};

use super::cgroup::{Cap, Cgroup};
use super::compression::SwapStore;
use super::process::{Depth, Process};
use super::walk::{self, Found};
use plimsoll_sample::monotonic_ns;

/// Takes snapshots, and caches the constant parts.
pub struct Observer {
    mountinfo: String,
    /// Key: the text of `/proc/PID/cgroup`.
    placements: HashMap<String, Option<Arc<Placement>>>,
}

/// Place of a process in the memory hierarchy.
#[derive(Debug, PartialEq)]
struct Placement {
    version: CgroupVersion,
    /// The cgroup of the process, then its ancestors.
    folders: Vec<PathBuf>,
}

/// Processes and their cgroups at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Time in nanoseconds of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Processes by pid, without kernel threads.
    pub processes: Vec<Process>,
    /// Number of processes that this user may not see.
    pub denied: u32,
    /// Whether `/proc` may hide processes of other users (hidepid).
    pub hides: bool,
    /// Cgroups of the processes, and their ancestors, by folder.
    pub cgroups: BTreeMap<PathBuf, Cgroup>,
    /// Refaulted pages of the whole machine.
    pub refaults: Option<u64>,
    pub swap_store: SwapStore,
    /// Number of online CPUs.
    pub cpus: u32,
    placements: HashMap<String, Option<Arc<Placement>>>,
}

impl Observer {
    /// A new observer.
    ///
    /// # Errors
    ///
    /// If `/proc` is not mounted.
    pub fn new() -> io::Result<Observer> {
        Ok(Observer {
            mountinfo: fs::read_to_string(mounts::PATH)?,
            placements: HashMap::new(),
        })
    }

    /// All processes that this user can see.
    ///
    /// # Errors
    ///
    /// If `/proc` cannot be listed.
    pub fn snapshot(&mut self, depth: Depth) -> io::Result<Snapshot> {
        Ok(self.complete(walk::list(depth)?))
    }

    /// The processes of `pids` that still run.
    pub fn snapshot_of(&mut self, pids: &[u32], depth: Depth) -> Snapshot {
        self.complete(walk::read_all(pids.iter().copied(), depth))
    }

    fn complete(&mut self, mut found: Found) -> Snapshot {
        found.processes.sort_by_key(|process| process.identity.pid);
        let mut placements = HashMap::new();
        let mut cgroups = BTreeMap::new();
        for text in found
            .processes
            .iter()
            .filter_map(|process| process.cgroups.as_ref())
        {
            if placements.contains_key(text) {
                continue;
            }
            let placement = self.placement(text);
            for folder in placement.iter().flat_map(|placement| &placement.folders) {
                if !cgroups.contains_key(folder)
                    && let Some(placement) = &placement
                {
                    cgroups.insert(folder.clone(), Cgroup::read(folder, placement.version));
                }
            }
            placements.insert(text.clone(), placement);
        }
        // Cgroups come and go: the cache keeps only those with a process in this snapshot.
        self.placements.clone_from(&placements);
        Snapshot {
            at_ns: monotonic_ns(),
            processes: found.processes,
            denied: found.denied,
            hides: mounts::hide_processes(&mounts::parse(&self.mountinfo))
                && !rustix::process::geteuid().is_root(),
            cgroups,
            refaults: vmstat::refaults(&Tree::live()),
            swap_store: SwapStore::read(),
            cpus: cpus::online(&Tree::live()),
            placements,
        }
    }

    fn placement(&self, text: &str) -> Option<Arc<Placement>> {
        if let Some(known) = self.placements.get(text) {
            return known.clone();
        }
        let hierarchy = Hierarchy::parse(&self.mountinfo, text).ok()?;
        Some(Arc::new(Placement {
            version: hierarchy.version,
            folders: hierarchy.ancestors().map(Path::to_owned).collect(),
        }))
    }
}

impl Snapshot {
    pub fn process(&self, pid: u32) -> Option<&Process> {
        let at = self
            .processes
            .binary_search_by_key(&pid, |process| process.identity.pid)
            .ok()?;
        Some(&self.processes[at])
    }

    /// Folders of the cgroup of a process of this snapshot, and of its ancestors.
    pub fn cgroups_of(&self, process: &Process) -> &[PathBuf] {
        let placement = process
            .cgroups
            .as_ref()
            .and_then(|text| self.placements.get(text));
        placement
            .and_then(Option::as_ref)
            .map_or(&[], |placement| &placement.folders)
    }

    /// Caps on a process of this snapshot, the tightest first, soft limits last.
    pub fn caps_of(&self, process: &Process) -> Vec<&Cap> {
        let folders = self.cgroups_of(process).iter();
        let mut caps: Vec<&Cap> = folders
            .filter_map(|folder| self.cgroups.get(folder))
            .flat_map(|cgroup| &cgroup.caps)
            .collect();
        caps.sort_by_key(|cap| (cap.kind == super::CapKind::Soft, cap.bytes));
        caps
    }
}

#[cfg(test)]
impl Snapshot {
    /// A snapshot of processes that are all in the innermost of `cgroups`. The innermost is the first.
    pub(super) fn made_up(at_ns: u64, mut processes: Vec<Process>, cgroups: Vec<(&str, Cgroup)>) -> Snapshot {
        for process in &mut processes {
            process.read_ns = at_ns;
        }
        let placement = Placement {
            version: CgroupVersion::V2,
            folders: cgroups.iter().map(|(folder, _)| PathBuf::from(folder)).collect(),
        };
        let placements = processes.iter().filter_map(|process| process.cgroups.clone());
        let placement = Arc::new(placement);
        Snapshot {
            at_ns,
            denied: 0,
            hides: false,
            cgroups: cgroups
                .into_iter()
                .map(|(folder, cgroup)| (folder.into(), cgroup))
                .collect(),
            refaults: None,
            swap_store: SwapStore::default(),
            cpus: 2,
            placements: placements
                .map(|text| (text, Some(Arc::clone(&placement))))
                .collect(),
            processes,
        }
    }
}
