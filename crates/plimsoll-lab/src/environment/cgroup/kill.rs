//! The end of all processes of a cgroup.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plimsoll_os::Pidfd;
use plimsoll_proc::PidStat;
use plimsoll_proc::cgroup::members;

use super::patience::POLL;

/// The living processes of a cgroup and of those below it. None of a cgroup that does not exist.
pub(super) fn living(cgroup: &Path) -> io::Result<Vec<u32>> {
    let mut found = match members(cgroup) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    found.retain(|pid| PidStat::read(*pid, &mut Vec::new()).is_ok_and(|stat| stat.is_alive()));
    Ok(found)
}

/// Kills all processes of a cgroup and of those below it (v2), since Linux 5.14: none of them can start another one in
/// between.
const KILL: &str = "cgroup.kill";

/// Kills all processes of a cgroup and of those below it, also those that they start meanwhile. Returns those that still
/// live after `within`.
pub(super) fn kill_all(cgroup: &Path, within: Duration) -> io::Result<Vec<u32>> {
    let deadline = Instant::now() + within;
    // Without the file, one after the other.
    let _ = plimsoll_proc::write(&cgroup.join(KILL), "1");
    loop {
        let remaining = living(cgroup)?;
        if remaining.is_empty() || Instant::now() >= deadline {
            return Ok(remaining);
        }
        let open = |pid: u32| Some((pid, Pidfd::open(pid).ok()?));
        let opened: Vec<(u32, Pidfd)> = remaining.into_iter().filter_map(open).collect();
        // Again: the descriptors are those of the processes which have the numbers now.
        let still = living(cgroup)?;
        for (_, process) in opened.iter().filter(|(pid, _)| still.contains(pid)) {
            // One that has ended meanwhile is no error.
            let _ = process.send_signal(libc::SIGKILL);
        }
        std::thread::sleep(POLL);
    }
}

/// Removes the empty cgroups below a cgroup, the lowest first.
pub(super) fn remove_below(cgroup: &Path) {
    let Ok(entries) = fs::read_dir(cgroup) else { return };
    let folders = entries.filter_map(Result::ok).filter(|entry| {
        // No link: it would lead elsewhere.
        entry.file_type().is_ok_and(|kind| kind.is_dir())
    });
    let below: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
    for path in below {
        remove_below(&path);
        // A cgroup that stays keeps its parent: the removal of the parent then reports the reason.
        let _ = fs::remove_dir(&path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processes that start others as fast as they end escaped a kill of one after the other.
    #[test]
    fn the_kernel_kills_all_at_once_where_it_can() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(KILL);
        fs::write(&file, "").unwrap();
        assert_eq!(
            kill_all(folder.path(), Duration::ZERO).unwrap(),
            Vec::<u32>::new()
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), "1");
        fs::remove_file(&file).unwrap();
        assert_eq!(
            kill_all(folder.path(), Duration::ZERO).unwrap(),
            Vec::<u32>::new()
        );
        assert!(!file.exists());
    }
}
