//! The memory cgroup of a run, on either version of the interface.

mod drain;
mod kill;
mod name;
mod patience;
mod statistics;
mod undo;
mod v1;
mod v2;

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use plimsoll_proc::cgroup::{CgroupVersion, Field, Hierarchy, MemoryCgroup, MemoryStat, PeakUsage, paths};
use plimsoll_proc::{PidStat, Tree};
use serde::Serialize;

use super::change::Change;
use super::error::EnvironmentError;
use super::journal::Journal;
use name::{PREFIX, cgroups_of};
use patience::{Patience, while_unwritten};
use statistics::FreshStatistics;

pub(super) use name::{holds_process_of, is_our_name};
pub(super) use undo::{end_processes, is_gone, open_folder, other_cgroup, undo};
pub(super) use v2::{find_parent, undo_controller};

#[derive(Debug, Clone, Copy)]
pub(super) struct CgroupSettings {
    pub(super) limit: u64,
    /// Its own swappiness, where the version has one (v1).
    pub(super) swappiness: Option<u32>,
    /// Whether its pages may go to swap.
    pub(super) swap: bool,
    /// Whether all processes in it are the run's: they are killed with it.
    pub(super) kill: bool,
    /// Whether the OOM killer kills all of its processes or none (v2).
    pub(super) as_one: bool,
}

#[derive(Debug, Clone)]
pub struct Cgroup {
    group: MemoryCgroup,
    /// Where its pages may go to swap.
    _statistics: Option<FreshStatistics>,
}

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
        let statistics = settings
            .swap
            .then(|| FreshStatistics::keep(group.clone()))
            .transpose()?;
        Ok(Cgroup {
            group,
            _statistics: statistics,
        })
    }

    /// Of files that stand for a cgroup.
    #[cfg(test)]
    fn of(group: MemoryCgroup) -> Cgroup {
        Cgroup {
            group,
            _statistics: None,
        }
    }

    pub fn version(&self) -> CgroupVersion {
        self.group.version()
    }

    pub fn path(&self) -> &Path {
        self.group.path()
    }

    /// Its kernel files.
    pub fn group(&self) -> &MemoryCgroup {
        &self.group
    }

    /// Bytes of memory that it uses.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn usage(&self) -> Result<u64, EnvironmentError> {
        Ok(self.group.usage()?)
    }

    /// Bytes of swap that it uses, or `None` where the kernel does not account them.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn swap(&self) -> Result<Option<u64>, EnvironmentError> {
        Ok(self.group.swap()?)
    }

    /// Bytes of page cache that are not on the disk; `None` where the kernel does not count them.
    pub fn dirty(&self) -> Option<u64> {
        let stat = self.group.stat().ok()?;
        Some(
            stat.get(Field::Dirty)?
                .saturating_add(stat.get(Field::Writeback)?),
        )
    }

    /// Pages of files that were reclaimed and read again; `None` where the kernel does not count them.
    pub fn file_refaults(&self) -> Option<u64> {
        self.group.stat().ok()?.get(Field::RefaultsFile)
    }

    /// Processes of it that the OOM killer has killed.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn oom_kills(&self) -> Result<u64, EnvironmentError> {
        Ok(self.group.oom_kills()?)
    }

    /// How often a charge met its limit; `None` where the kernel does not say.
    pub fn limit_hits(&self) -> Option<u64> {
        self.group.limit_hits().ok().flatten()
    }

    /// Its limit in bytes; `None` without a limit.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn limit(&self) -> Result<Option<u64>, EnvironmentError> {
        Ok(self.group.limit()?)
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
            CgroupVersion::V1 => v1::set_limit(&self.group, bytes, &patience),
            CgroupVersion::V2 => v2::set_limit(&self.group, bytes, &patience),
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
            self.group.forbid_swap(bytes)?;
        }
        self.set_limit(bytes, timeout, interrupted)?;
        Ok(self.group.forbid_swap(bytes)?)
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
            CgroupVersion::V2 => v2::set_high(&self.group, bytes, &Patience::new(timeout, interrupted)),
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
        drain::drain(&self.group, &Patience::new(timeout, interrupted))
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
        let paths = paths(&Tree::live(), pid);
        let name = self.path().file_name().and_then(OsStr::to_str);
        let is_own = |part: &str| Some(part) == name;
        // A zombie's file is empty, and a process that frees its memory at its end is shown in the root.
        paths.is_empty() || cgroups_of(&paths).any(is_own) || has_ended(pid)
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
        self.group.stat().ok()
    }

    /// The kernel's counter of its most memory, from now on; none where the kernel has none.
    pub fn peak(&self) -> Option<PeakUsage> {
        PeakUsage::start(&self.group)
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
            CgroupVersion::V1 => v1::reclaim(&self.group, before, bytes, &patience)?,
            CgroupVersion::V2 => v2::reclaim(&self.group, before, bytes, &patience)?,
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
    if settings.as_one && cgroup.version() == CgroupVersion::V2 {
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
