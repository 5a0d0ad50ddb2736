//! The memory of a program's processes, from outside.

use std::collections::HashSet;
use std::fmt::{self, Display};
use std::fs;
use std::time::Duration;

use super::MIB;

/// The time between two samples.
pub(super) const INTERVAL: Duration = Duration::from_millis(100);

/// Memory outside of the arena: data of libraries, the first stack, the library's own blocks.
const OUTSIDE: u64 = 16 * MIB;

/// The most memory that samples found, without pages of files: a page that several processes share counts by its share.
#[derive(Debug, Clone, Default)]
pub(super) struct Peak {
    /// Of the largest process.
    process: u64,
    /// Of all processes.
    tree: u64,
    /// The processes of that sample.
    processes: u64,
    /// All processes, in each sample.
    trees: Vec<u64>,
}

impl Peak {
    /// Samples the process and its descendants, also those whose parent has ended in its process group.
    pub(super) fn sample(&mut self, root: u32) {
        let tree = tree(root);
        // Read within a millisecond, so no page moves from one process to another meanwhile; a shared page counts in each process.
        let at_once = || tree.iter().filter_map(|pid| resident(*pid)).sum::<u64>();
        let before = at_once();
        let shares: Vec<u64> = tree.iter().filter_map(|pid| share(*pid)).collect();
        // Those of a busy process take 50 ms each: pages that the pool moved meanwhile count twice, and so do pages that a child shared
        // when it was read, and whose other part its parent had again after the child had executed a program.
        let sum = shares.iter().sum::<u64>().min(before).min(at_once());
        let processes = shares.len() as u64;
        self.trees.push(sum);
        self.process = self.process.max(shares.into_iter().max().unwrap_or(0));
        if sum > self.tree {
            (self.tree, self.processes) = (sum, processes);
        }
    }

    /// Checks that all processes together had no more than the budget, which they share.
    pub(super) fn assert_tree_within(&self, name: &str, ram: u64) {
        assert!(
            self.tree <= most(ram),
            "{name}: {} MiB in {} processes that share {} MiB",
            self.tree / MIB,
            self.processes,
            ram / MIB
        );
    }

    /// As [`Peak::assert_tree_within`], of each process at any time, and of all together in at least half of the samples: pages that
    /// processes share until one of them writes there exceed the budget until the pager has trimmed them.
    pub(super) fn assert_usually_within(&self, name: &str, ram: u64) {
        let mut trees = self.trees.clone();
        trees.sort_unstable();
        let median = trees[trees.len() / 2];
        assert!(
            self.process <= most(ram) && median <= most(ram),
            "{name}: {self}, a median of {} MiB, that share {} MiB",
            median / MIB,
            ram / MIB
        );
    }
}

impl Display for Peak {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes / MIB;
        write!(
            to,
            "{} MiB in the largest process, {} MiB in {}",
            mib(self.process),
            mib(self.tree),
            self.processes
        )
    }
}

/// The most memory of processes under a budget, as seen from outside.
fn most(ram: u64) -> u64 {
    ram + ram / 20 + OUTSIDE
}

/// The process, its process group, and all descendants of these.
fn tree(root: u32) -> HashSet<i32> {
    let root = root.cast_signed();
    let all = procfs::process::all_processes().expect("procfs");
    let stats: Vec<_> = all.flatten().filter_map(|process| process.stat().ok()).collect();
    let mut tree: HashSet<i32> = stats
        .iter()
        .filter(|stat| stat.pid == root || stat.pgrp == root)
        .map(|stat| stat.pid)
        .collect();
    loop {
        let before = tree.len();
        for stat in &stats {
            if tree.contains(&stat.ppid) {
                tree.insert(stat.pid);
            }
        }
        if tree.len() == before {
            return tree;
        }
    }
}

/// Bytes of anonymous and shared memory in RAM and in swap, pages that other processes share included. None for a process that has
/// ended.
fn resident(pid: i32) -> Option<u64> {
    let status = procfs::process::Process::new(pid)
        .and_then(|process| process.status())
        .ok()?;
    let kib = [status.rssanon, status.rssshmem, status.vmswap];
    Some(kib.into_iter().flatten().sum::<u64>() * 1024)
}

/// Bytes of anonymous and shared memory in RAM and in swap, of a shared page its part. None for a process that has ended.
fn share(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let keys = ["Pss_Anon:", "Pss_Shmem:", "SwapPss:"];
    let kib = text.lines().filter_map(|line| {
        let key = keys.iter().find(|key| line.starts_with(**key))?;
        let value = line[key.len()..].trim().strip_suffix(" kB")?;
        value.parse::<u64>().ok()
    });
    Some(kib.sum::<u64>() * 1024)
}
