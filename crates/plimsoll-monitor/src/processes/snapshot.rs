//! All processes and their cgroups at one moment.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll_proc::cgroup::{CgroupVersion, Hierarchy};
use plimsoll_proc::{Tree, mounts, vmstat};

use super::cgroup::{Cap, Cgroup};
use super::compression::SwapStore;
use super::process::{Depth, Process};
use super::walk::{self, Found};
use plimsoll_sample::monotonic_ns;

/// Takes snapshots, and caches the constant parts.
pub struct Observer {
    mountinfo: String,
    /// Key: the text of `/proc/PID/cgroup`.
    homes: HashMap<String, Option<Arc<Home>>>,
}

/// Place of a process in the memory hierarchy.
#[derive(Debug, PartialEq)]
struct Home {
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
    homes: HashMap<String, Option<Arc<Home>>>,
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
            homes: HashMap::new(),
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
        let mut homes = HashMap::new();
        let mut cgroups = BTreeMap::new();
        for text in found
            .processes
            .iter()
            .filter_map(|process| process.cgroups.as_ref())
        {
            if homes.contains_key(text) {
                continue;
            }
            let home = self.home(text);
            for folder in home.iter().flat_map(|home| &home.folders) {
                if !cgroups.contains_key(folder)
                    && let Some(home) = &home
                {
                    cgroups.insert(folder.clone(), Cgroup::read(folder, home.version));
                }
            }
            homes.insert(text.clone(), home);
        }
        // Cgroups come and go: the cache keeps only those with a process in this snapshot.
        self.homes.clone_from(&homes);
        Snapshot {
            at_ns: monotonic_ns(),
            processes: found.processes,
            denied: found.denied,
            hides: mounts::hide_processes(&mounts::parse(&self.mountinfo))
                && !rustix::process::geteuid().is_root(),
            cgroups,
            refaults: vmstat::refaults(&Tree::live()),
            swap_store: SwapStore::read(),
            homes,
        }
    }

    fn home(&self, text: &str) -> Option<Arc<Home>> {
        if let Some(known) = self.homes.get(text) {
            return known.clone();
        }
        let hierarchy = Hierarchy::parse(&self.mountinfo, text).ok()?;
        Some(Arc::new(Home {
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
        let home = process.cgroups.as_ref().and_then(|text| self.homes.get(text));
        home.and_then(Option::as_ref).map_or(&[], |home| &home.folders)
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
    pub(super) fn made_up(at_ns: u64, processes: Vec<Process>, cgroups: Vec<(&str, Cgroup)>) -> Snapshot {
        let home = Home {
            version: CgroupVersion::V2,
            folders: cgroups.iter().map(|(folder, _)| PathBuf::from(folder)).collect(),
        };
        let homes = processes.iter().filter_map(|process| process.cgroups.clone());
        let home = Arc::new(home);
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
            homes: homes.map(|text| (text, Some(Arc::clone(&home)))).collect(),
            processes,
        }
    }
}
