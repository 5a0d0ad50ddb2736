//! Process discovery.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use plimsoll_proc::{PidStat, pids};

use super::process::{Depth, Process};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// The readable processes by pid, without kernel threads.
    pub processes: Vec<Process>,
    /// Number of processes that this user may not see.
    pub denied: u32,
}

/// The processes that this user can see. Skips processes that end meanwhile.
///
/// # Errors
///
/// If `/proc` cannot be listed.
pub fn list(depth: Depth) -> io::Result<Found> {
    Ok(read_all(pids::all()?, depth))
}

/// Reads the processes of `pids` that still run.
pub(super) fn read_all(pids: impl IntoIterator<Item = u32>, depth: Depth) -> Found {
    let mut found = Found::default();
    let mut buffer = Vec::with_capacity(4096);
    for pid in pids {
        match Process::read_with(pid, depth, &mut buffer) {
            Ok(process) if process.kernel_thread => {}
            Ok(process) => found.processes.push(process),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => found.denied += 1,
            // The process has ended.
            Err(_) => {}
        }
    }
    found
}

/// `pid` first, then its descendants in ascending order. Only `pid` if it has ended.
///
/// Reads `children` of each thread, so that it visits only the descendants. A kernel without CONFIG_PROC_CHILDREN needs
/// a scan of all processes.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut family = BTreeSet::new();
    let mut next = vec![pid];
    while let Some(parent) = next.pop() {
        match pids::children(parent) {
            Ok(pids) => next.extend(
                pids.into_iter()
                    .filter(|child| *child != pid && family.insert(*child)),
            ),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => return descendants_among_all(pid),
            // The process has ended.
            Err(_) => {}
        }
    }
    std::iter::once(pid).chain(family).collect()
}

fn descendants_among_all(pid: u32) -> Vec<u32> {
    let mut by_parent: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut buffer = Vec::with_capacity(4096);
    for process in pids::all().unwrap_or_default() {
        if let Ok(stat) = PidStat::read(process, &mut buffer) {
            by_parent.entry(stat.parent).or_default().push(process);
        }
    }
    let mut family = BTreeSet::new();
    let mut next = vec![pid];
    while let Some(parent) = next.pop() {
        let children = by_parent.remove(&parent).unwrap_or_default();
        next.extend(
            children
                .into_iter()
                .filter(|child| *child != pid && family.insert(*child)),
        );
    }
    std::iter::once(pid).chain(family).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_find_descendants_agree() {
        let mut shell = plimsoll_testkit::command("sh")
            .args(["-c", "sh -c 'sleep 60; :' & wait"])
            .spawn()
            .unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let mut family = descendants(shell.id());
        while family.len() < 3 && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(5));
            family = descendants(shell.id());
        }
        let other = descendants_among_all(shell.id());
        for pid in family[1..].iter().rev().chain([&shell.id()]) {
            let pid = rustix::process::Pid::from_raw(*pid as i32).unwrap();
            // The shell may already have ended, since its child was killed first.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        shell.wait().unwrap();
        assert_eq!(family.len(), 3, "shell, shell, sleep: {family:?}");
        assert_eq!((family[0], &family), (shell.id(), &other));
    }
}
