//! The memory cgroup of a run, on either version of the interface.

mod drain;
mod kill;
mod v1;
mod v2;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_proc::PidStat;
use plimsoll_proc::cgroup::{
    CgroupFolder, CgroupVersion, Field, Hierarchy, MemoryCgroup, MemoryStat, PROCESSES, PeakUsage,
};
use serde::Serialize;

use super::undo::{UndoError, Undone};

use super::change::Change;
use super::error::EnvironmentError;
use super::journal::Journal;

pub(super) use v2::{find_parent, undo_controller};

/// A cgroup is named `plimsoll-<run>-<number>`.
const PREFIX: &str = "plimsoll-";

/// How long the processes of a cgroup may take to be gone before those that remain are moved out.
const EMPTY_WITHIN: Duration = Duration::from_secs(3);
/// How long an emptied cgroup may be busy: the kernel still frees the memory of its processes.
const REMOVED_WITHIN: Duration = Duration::from_secs(10);
/// Bytes of one reclaim request: the write returns only after the kernel has tried.
const STEP: u64 = 64 << 20;
/// Time for the disk to take the pages of files that a limit has no room for.
const WRITTEN_WITHIN: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Copy)]
pub(super) struct CgroupSettings {
    pub(super) limit: u64,
    /// Its own swappiness, where the version has one (v1).
    pub(super) swappiness: Option<u32>,
    /// Whether its pages may go to swap.
    pub(super) swap: bool,
    /// Whether all processes in it are the run's: they are killed with it.
    pub(super) kill: bool,
}

#[derive(Debug, Clone)]
pub struct Cgroup(MemoryCgroup);

/// Result of [`Cgroup::reclaim`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reclaimed {
    pub asked: u64,
    /// Bytes that the cgroup used before.
    pub before: u64,
    /// Bytes that it used after.
    pub after: u64,
    /// Whether the kernel reclaimed all of `asked`. A partial reclaim is no error.
    pub complete: bool,
    /// The control file that did it: `memory.reclaim`, `memory.high` or `memory.limit_in_bytes`.
    pub mechanism: &'static str,
}

impl Reclaimed {
    /// Bytes that the cgroup uses less than before.
    pub fn bytes(&self) -> u64 {
        self.before.saturating_sub(self.after)
    }
}

impl Cgroup {
    /// Makes `plimsoll-<run>` where `hierarchy` has room for it. Undone through the journal.
    pub(super) fn create(
        journal: &mut Journal,
        hierarchy: &Hierarchy,
        settings: CgroupSettings,
    ) -> Result<Cgroup, EnvironmentError> {
        let parent = match hierarchy.version {
            CgroupVersion::V1 => hierarchy.own.clone(),
            CgroupVersion::V2 => v2::parent(journal, hierarchy)?,
        };
        // The number of the change makes the name unique among the trials of a run.
        let path = parent.join(format!("{PREFIX}{}-{}", journal.run(), journal.next_number()));
        let number = journal.record(Change::Cgroup {
            path: path.clone(),
            kill: settings.kill,
        })?;
        if let Err(source) = fs::create_dir(&path) {
            journal.record_undone(number)?;
            return Err(EnvironmentError::system(
                format!("make the cgroup {}", path.display()),
                source,
            ));
        }
        let group = MemoryCgroup::new(path, hierarchy.version);
        configure(&group, settings)?;
        Ok(Cgroup(group))
    }

    pub fn version(&self) -> CgroupVersion {
        self.0.version()
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Files that a process id is written to so that the process moves in.
    pub fn procs_paths(&self) -> Vec<PathBuf> {
        vec![self.0.file(PROCESSES)]
    }

    /// Bytes of memory that it uses.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn usage(&self) -> Result<u64, EnvironmentError> {
        Ok(self.0.usage()?)
    }

    /// Bytes of swap that it uses, or `None` where the kernel does not account them.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn swap(&self) -> Result<Option<u64>, EnvironmentError> {
        Ok(self.0.swap()?)
    }

    /// Bytes of page cache that are not on the disk; `None` where the kernel does not count them.
    pub fn dirty(&self) -> Option<u64> {
        let stat = self.0.stat().ok()?;
        Some(
            stat.get(Field::Dirty)?
                .saturating_add(stat.get(Field::Writeback)?),
        )
    }

    /// Pages of files that were reclaimed and read again; `None` where the kernel does not count them.
    pub fn file_refaults(&self) -> Option<u64> {
        self.0.stat().ok()?.get(Field::RefaultsFile)
    }

    /// Processes of it that the OOM killer has killed.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn oom_kills(&self) -> Result<u64, EnvironmentError> {
        Ok(self.0.oom_kills()?)
    }

    /// How often a charge met its limit; `None` where the kernel does not say.
    pub fn limit_hits(&self) -> Option<u64> {
        self.0.limit_hits().ok().flatten()
    }

    /// Its limit in bytes; `None` without a limit.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn limit(&self) -> Result<Option<u64>, EnvironmentError> {
        Ok(self.0.limit()?)
    }

    /// Sets its limit; the kernel reclaims the memory above it. The limit ends with the cgroup and needs no undoing.
    ///
    /// # Errors
    /// [`EnvironmentError::LimitNotReached`] where the kernel cannot reclaim enough; the limit is then as it was.
    /// [`EnvironmentError::ReclaimTimedOut`] and [`EnvironmentError::Interrupted`] while it reclaims, and an error of
    /// the system when the kernel refuses.
    pub fn set_limit(
        &self,
        bytes: u64,
        timeout: Duration,
        interrupted: &AtomicBool,
    ) -> Result<(), EnvironmentError> {
        let patience = Patience::new(timeout, interrupted);
        let set = || match self.version() {
            CgroupVersion::V1 => v1::set_limit(&self.0, bytes, &patience),
            CgroupVersion::V2 => v2::set_limit(&self.0, bytes, &patience),
        };
        if while_unwritten(&patience, || self.dirty().unwrap_or(0), set)? {
            return Ok(());
        }
        Err(EnvironmentError::LimitNotReached {
            limit: bytes,
            used: self.usage()?,
        })
    }

    /// The same for a cgroup whose pages may not go to swap: v1 limits memory and swap together, so that both limits
    /// change. It must hold next to nothing.
    ///
    /// # Errors
    /// As [`Cgroup::set_limit`].
    pub fn set_limit_without_swap(
        &self,
        bytes: u64,
        timeout: Duration,
        interrupted: &AtomicBool,
    ) -> Result<(), EnvironmentError> {
        // The limit of both together is never below that of memory.
        if self.limit()?.is_some_and(|limit| limit < bytes) {
            self.0.forbid_swap(bytes)?;
        }
        self.set_limit(bytes, timeout, interrupted)?;
        Ok(self.0.forbid_swap(bytes)?)
    }

    /// Sets its soft ceiling (`memory.high`), above which the kernel throttles its processes and reclaims; `None`
    /// removes it.
    ///
    /// # Errors
    /// [`EnvironmentError::NoHigh`] on v1, which has none; [`EnvironmentError::ReclaimTimedOut`] and
    /// [`EnvironmentError::Interrupted`] while it reclaims, and an error of the system when the kernel refuses.
    pub fn set_high(
        &self,
        bytes: Option<u64>,
        timeout: Duration,
        interrupted: &AtomicBool,
    ) -> Result<(), EnvironmentError> {
        match self.version() {
            CgroupVersion::V1 => Err(EnvironmentError::NoHigh),
            CgroupVersion::V2 => v2::set_high(&self.0, bytes, &Patience::new(timeout, interrupted)),
        }
    }

    /// The control file that holds its limit: `memory.limit_in_bytes` (v1), `memory.max` (v2).
    pub fn limit_file(&self) -> &'static str {
        self.version().limit_file()
    }

    /// Waits until it holds nothing of ended processes, neither memory nor swap. Its living processes must hold next to
    /// nothing.
    ///
    /// # Errors
    /// [`EnvironmentError::NotDrained`] after `timeout`, [`EnvironmentError::Interrupted`], and an error of the system when
    /// a file cannot be read.
    pub fn drain(&self, timeout: Duration, interrupted: &AtomicBool) -> Result<(), EnvironmentError> {
        drain::drain(&self.0, &Patience::new(timeout, interrupted))
    }

    /// The living processes in it and in cgroups below it.
    ///
    /// # Errors
    /// When the files cannot be read.
    pub fn processes(&self) -> Result<Vec<u32>, EnvironmentError> {
        kill::living(self.path()).map_err(|source| EnvironmentError::reading(self.path(), source))
    }

    /// Whether a living process is in it, or in a cgroup below it. True of a process that has ended: it has not moved.
    pub fn holds(&self, pid: u32) -> bool {
        let Ok(text) = fs::read(format!("/proc/{pid}/cgroup")) else {
            return true;
        };
        let name = self.path().file_name().and_then(OsStr::to_str);
        let is_own = |part: &str| Some(part) == name;
        // A zombie's file is empty, and a process that frees its memory at its end is shown in the root.
        text.is_empty() || cgroups_of(&String::from_utf8_lossy(&text)).any(is_own) || has_ended(pid)
    }

    /// Kills all processes in it, and in the cgroups below it, which it removes.
    ///
    /// # Errors
    /// [`EnvironmentError::Unkillable`] with those that live on after `within`.
    pub fn kill(&self, within: Duration) -> Result<(), EnvironmentError> {
        let remaining = kill::kill_all(self.path(), within)
            .map_err(|source| EnvironmentError::reading(self.path(), source))?;
        if !remaining.is_empty() {
            return Err(EnvironmentError::Unkillable {
                within,
                processes: remaining,
            });
        }
        kill::remove_below(self.path());
        Ok(())
    }

    /// Its counters and levels; none where they cannot be read.
    pub fn stat(&self) -> Option<MemoryStat> {
        self.0.stat().ok()
    }

    /// The kernel's counter of its most memory, from now on; none where the kernel has none.
    pub fn peak(&self) -> Option<PeakUsage> {
        PeakUsage::start(&self.0)
    }

    /// Has the kernel reclaim `bytes`, in steps, so that the reclaim ends soon after `timeout` or `interrupted`. The
    /// limit afterwards equals the limit before, also after an error.
    ///
    /// # Errors
    /// [`EnvironmentError::ReclaimTimedOut`], [`EnvironmentError::Interrupted`], and an error of the system when the
    /// kernel refuses, or the limit cannot be put back. A partial reclaim is not an error.
    pub fn reclaim(
        &self,
        bytes: u64,
        timeout: Duration,
        interrupted: &AtomicBool,
    ) -> Result<Reclaimed, EnvironmentError> {
        let patience = Patience::new(timeout, interrupted);
        let before = self.usage()?;
        let (complete, mechanism) = match self.version() {
            CgroupVersion::V1 => v1::reclaim(&self.0, before, bytes, &patience)?,
            CgroupVersion::V2 => v2::reclaim(&self.0, before, bytes, &patience)?,
        };
        Ok(Reclaimed {
            asked: bytes,
            before,
            after: self.usage()?,
            complete,
            mechanism,
        })
    }
}

/// Whether a process exits or has exited.
fn has_ended(pid: u32) -> bool {
    let mut buffer = Vec::new();
    PidStat::read(pid, &mut buffer).map_or(true, |stat| stat.exiting || !stat.is_alive())
}

fn configure(cgroup: &MemoryCgroup, settings: CgroupSettings) -> Result<(), EnvironmentError> {
    cgroup.set_limit(settings.limit)?;
    // All workers of a trial are one thing: when one is killed, the trial has failed.
    if cgroup.version() == CgroupVersion::V2 {
        cgroup.kill_as_one()?;
    }
    if !settings.swap {
        cgroup.forbid_swap(settings.limit)?;
    }
    if cgroup.version() == CgroupVersion::V1
        && let Some(swappiness) = settings.swappiness
    {
        cgroup.set_swappiness(swappiness)?;
    }
    Ok(())
}

#[derive(Debug)]
struct Patience<'a> {
    start: Instant,
    timeout: Duration,
    interrupted: &'a AtomicBool,
}

impl<'a> Patience<'a> {
    fn new(timeout: Duration, interrupted: &'a AtomicBool) -> Self {
        Patience {
            start: Instant::now(),
            timeout,
            interrupted,
        }
    }

    /// An error where the reclaim has to end.
    fn check(&self) -> Result<(), EnvironmentError> {
        if self.interrupted.load(Ordering::Acquire) {
            return Err(EnvironmentError::Interrupted);
        }
        if self.start.elapsed() >= self.timeout {
            return Err(EnvironmentError::ReclaimTimedOut {
                timeout: self.timeout,
            });
        }
        Ok(())
    }
}

/// Reclaims until it succeeds, while pages of files are not on the disk yet (`dirty`): the kernel reclaims those once they are.
/// Returns whether it succeeded.
fn while_unwritten(
    patience: &Patience<'_>,
    dirty: impl Fn() -> u64,
    mut reclaim: impl FnMut() -> Result<bool, EnvironmentError>,
) -> Result<bool, EnvironmentError> {
    let begin = Instant::now();
    loop {
        if reclaim()? {
            return Ok(true);
        }
        if dirty() == 0 || begin.elapsed() >= WRITTEN_WITHIN {
            return Ok(false);
        }
        patience.check()?;
        thread::sleep(POLL);
    }
}

/// Goes through `bytes` in steps of [`STEP`]; `step` gets the bytes of each as a range, and returns whether to go on.
/// Returns whether the end was reached.
fn stepwise(
    bytes: u64,
    patience: &Patience<'_>,
    mut step: impl FnMut(Range<u64>) -> Result<bool, EnvironmentError>,
) -> Result<bool, EnvironmentError> {
    let mut done = 0;
    while done < bytes {
        patience.check()?;
        let end = done.saturating_add(STEP).min(bytes);
        if !step(done..end)? {
            return Ok(false);
        }
        done = end;
    }
    Ok(true)
}

/// Whether the cgroup has a name that a run gives.
pub(super) fn is_our_name(path: &Path) -> bool {
    path.file_name()
        .and_then(OsStr::to_str)
        .is_some_and(|name| name.starts_with(PREFIX))
}

/// Whether the text of `/proc/<pid>/cgroup` shows the process in a cgroup of the run.
pub(super) fn holds_process_of(run: &str, text: &str) -> bool {
    let of_run = |name: &str| {
        let number = name.strip_prefix(PREFIX).and_then(|name| name.strip_prefix(run));
        let number = number.and_then(|rest| rest.strip_prefix('-'));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    cgroups_of(text).any(of_run)
}

/// The names of all cgroups on the way to a process, from the text of `/proc/<pid>/cgroup`.
fn cgroups_of(text: &str) -> impl Iterator<Item = &str> {
    let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.flat_map(|path| path.split('/'))
}

/// Removes the cgroup. With `kill` all processes in it are the run's, and are killed. Else they get some time to end; those
/// that remain were not started by the run (its own are in the journal and were killed before) and are moved to the
/// parent rather than killed.
pub(super) fn undo(path: &Path, kill: bool) -> Result<Undone, UndoError> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(UndoError::Outside("this is no path of a cgroup"));
    };
    let Some(parent) = open_folder(parent)? else {
        return Ok(Undone::Gone);
    };
    let cgroup = parent.child(name);
    if kill {
        let remaining =
            kill::kill_all(cgroup.path(), EMPTY_WITHIN).map_err(UndoError::system("list its processes"))?;
        if !remaining.is_empty() {
            return Err(UndoError::Occupied(remaining));
        }
        kill::remove_below(cgroup.path());
    }
    let start = Instant::now();
    loop {
        match parent.remove_child(name) {
            Ok(()) => return Ok(Undone::Gone),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Undone::Gone),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            Err(source) => return Err(UndoError::system("remove it")(source)),
        }
        let remaining = cgroup.processes().unwrap_or_default();
        if start.elapsed() >= REMOVED_WITHIN {
            return Err(match remaining.is_empty() {
                true => UndoError::Busy,
                false => UndoError::Occupied(remaining),
            });
        }
        if start.elapsed() >= EMPTY_WITHIN {
            for pid in remaining {
                // A process that cannot move appears in the error above once the time is over.
                let _ = parent.group().add_process(pid);
            }
        }
        thread::sleep(POLL);
    }
}

/// Kills the processes of a cgroup. The undoing of the cgroup says which of them live on.
pub(super) fn end_processes(path: &Path) {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return;
    };
    if let Ok(Some(parent)) = open_folder(parent) {
        let _ = kill::kill_all(parent.child(name).path(), EMPTY_WITHIN);
    }
}

/// The folder of a cgroup; `None` if it does not exist.
pub(super) fn open_folder(path: &Path) -> Result<Option<CgroupFolder>, UndoError> {
    match CgroupFolder::open(path) {
        Ok(Some(folder)) => Ok(Some(folder)),
        Ok(None) => Err(UndoError::Outside("this path is not in a cgroup file system")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(UndoError::system("open its folder")(source)),
    }
}

/// Whether the error says that a cgroup is not there any more.
pub(super) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENODEV)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A limit of 8 MiB was refused where a program had just written 16 MiB of a file, while the disk was busy.
    #[test]
    fn a_limit_waits_for_the_disk_and_for_nothing_else() {
        let attempts = |dirty: u64, reached_at: u32| {
            let flag = AtomicBool::new(false);
            let patience = Patience::new(Duration::from_secs(60), &flag);
            let count = std::cell::Cell::new(0);
            let reached = while_unwritten(
                &patience,
                || dirty,
                || {
                    count.set(count.get() + 1);
                    Ok(count.get() == reached_at)
                },
            );
            (reached.unwrap(), count.get())
        };
        assert_eq!(attempts(4096, 1), (true, 1));
        assert_eq!(attempts(4096, 3), (true, 3));
        assert_eq!(attempts(0, 3), (false, 1));
    }

    #[test]
    fn only_a_cgroup_of_the_run_proves_a_process_to_be_its_own() {
        let inside = "5:memory:/user/plimsoll-killed-12/inner\n0::/\n";
        assert!(holds_process_of("killed", inside));
        assert!(!holds_process_of("kill", inside) && !holds_process_of("killed-1", inside));
        assert!(!holds_process_of("", inside) && !holds_process_of("killed", "0::/plimsoll-killed-\n"));
        assert!(!holds_process_of(
            "killed",
            "0::/plimsoll-killed-1x\n9:name=plimsoll-killed-1:/\n"
        ));
        assert!(holds_process_of("killed", "0::/a:b/plimsoll-killed-1\n"));
    }

    #[test]
    fn undo_removes_no_folder_outside_of_a_cgroup_file_system() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plimsoll-run-1");
        fs::create_dir(&path).unwrap();
        assert!(matches!(undo(&path, true), Err(UndoError::Outside(_))));
        assert!(matches!(undo_controller(&path), Err(UndoError::Outside(_))));
        assert!(path.exists());
        assert_eq!(
            undo(&path.join("absent/plimsoll-run-1"), true).unwrap(),
            Undone::Gone
        );
    }

    #[test]
    fn a_stop_ends_a_reclaim_between_two_steps() {
        let stop = AtomicBool::new(false);
        let patience = Patience::new(Duration::from_secs(60), &stop);
        let mut steps = Vec::new();
        let ended = stepwise(10 * STEP, &patience, |step| {
            steps.push(step);
            stop.store(steps.len() == 2, Ordering::Release);
            Ok(true)
        });
        assert!(matches!(ended, Err(EnvironmentError::Interrupted)), "{ended:?}");
        assert_eq!(steps, [0..STEP, STEP..2 * STEP]);
    }

    #[test]
    fn a_timeout_ends_a_reclaim_between_two_steps() {
        let stop = AtomicBool::new(false);
        let patience = Patience::new(Duration::from_millis(20), &stop);
        let mut steps = 0;
        let ended = stepwise(10 * STEP, &patience, |_| {
            steps += 1;
            thread::sleep(Duration::from_millis(30));
            Ok(true)
        });
        assert_eq!(steps, 1);
        let text = ended.unwrap_err().to_string();
        assert!(
            text.contains("`phase-timeout`") && text.contains("0.0 s"),
            "{text}"
        );
    }

    #[test]
    fn steps_cover_all_bytes_once_and_end_without_progress() {
        let stop = AtomicBool::new(false);
        let patience = Patience::new(Duration::MAX, &stop);
        for (bytes, expected) in [(0, 0), (1, 1), (STEP, 1), (2 * STEP + 1, 3)] {
            let (mut count, mut covered) = (0, 0);
            let reached = stepwise(bytes, &patience, |step| {
                assert_eq!(step.start, covered);
                (count, covered) = (count + 1, step.end);
                Ok(true)
            });
            assert_eq!((reached.unwrap(), count, covered), (true, expected, bytes));
        }
        let mut count = 0;
        let reached = stepwise(u64::MAX, &patience, |_| {
            count += 1;
            Ok(count < 4)
        });
        assert_eq!((reached.unwrap(), count), (false, 4));
    }
}
