//! The throttle of a cgroup of other programs (v2): a low [`CPU_MAX`], and a [`Cap`] on its memory. Each of the two is a
//! change of its own in the journal, and is restored unless another program has changed it since.

use std::io;
use std::path::{Path, PathBuf};

use plimsoll_proc::cgroup::{CPU_MAX, Field, MemoryCgroup};
use plimsoll_proc::{ControlError, read, write};

use super::cap::{Cap, CapError};
use super::cgroup::is_gone;
use super::change::Change;
use super::error::EnvironmentError;
use super::journal::Journal;

/// CPU time of a throttled cgroup, in CPUs, as its inverse.
const SHARE: u64 = 20;
/// The least quota that the kernel takes, in microseconds.
const LEAST_QUOTA: u64 = 1000;
/// Share of its memory that a throttled cgroup keeps, as its inverse, and the least bytes beside those of the kernel for it:
/// with fewer, its tasks would sleep at each return to user mode.
const KEPT: u64 = 8;
const LEAST_KEPT: u64 = 16 << 20;

#[derive(Debug)]
pub(super) struct Throttle {
    memory: Cap,
    /// `None` where the cgroup has no CPU controller, or less CPU time already.
    cpu: Option<Cpu>,
    /// Bytes that it keeps.
    kept: u64,
}

impl Throttle {
    /// Opens the cgroup at `cgroup`, and changes nothing. `None` if it is not that with the inode number `id`.
    ///
    /// # Errors
    /// Those of [`Cap::open`].
    pub(super) fn open(cgroup: &Path, id: u64) -> Result<Option<Throttle>, CapError> {
        let memory = Cap::open(cgroup)?;
        let group = memory.group();
        // The path may lead to a later cgroup of the same name.
        if memory.inode() != id {
            return Ok(None);
        }
        let kept = kept(&group).map_err(|error| {
            EnvironmentError::system(
                format!("read the memory of {}", cgroup.display()),
                error.into_io(),
            )
        })?;
        Ok(Some(Throttle {
            cpu: Cpu::open(&group, cgroup, id),
            memory,
            kept,
        }))
    }

    /// Lowers the CPU time at the first call, and the memory until `stop`; a further call goes on with the latter.
    pub(super) fn set(&mut self, journal: &mut Journal, stop: impl Fn() -> bool) -> Result<(), CapError> {
        let group = self.memory.group();
        if let Some(Err(error)) = self.cpu.as_mut().map(|cpu| cpu.lower(&group, journal)) {
            match error {
                CapError::Gone { .. } => return Err(error),
                // The kernel takes no quota below `cpu.max.burst`: the memory is lowered alone.
                _ => self.cpu = None,
            }
        }
        // An own cap that is as low stays.
        let now = self.memory.lowered().or(self.memory.ceiling());
        match now.is_some_and(|now| now <= self.kept) {
            true => Ok(()),
            false => self.memory.set(journal, self.kept, stop).map(drop),
        }
    }

    /// Restores both. Values of other programs stay.
    pub(super) fn lift(&mut self, journal: &mut Journal) -> Result<(), CapError> {
        let group = self.memory.group();
        let cpu = self
            .cpu
            .as_mut()
            .map_or(Ok(()), |cpu| cpu.restore(&group, journal));
        let memory = self.memory.lift(journal);
        if matches!(memory, Err(CapError::Changed { .. } | CapError::Gone { .. })) {
            self.memory.forget(journal)?;
        }
        cpu.and(memory)
    }
}

/// Bytes that a throttled cgroup keeps.
fn kept(group: &MemoryCgroup) -> Result<u64, ControlError> {
    let (usage, stat) = (group.usage()?, group.stat()?);
    let field = |field| stat.get(field).unwrap_or(0);
    let pages = field(Field::Anon).saturating_add(field(Field::File));
    let of_kernel = usage.saturating_sub(pages);
    Ok((usage / KEPT).max(of_kernel.saturating_add(LEAST_KEPT)))
}

/// The file [`CPU_MAX`] of a cgroup.
#[derive(Debug)]
struct Cpu {
    path: PathBuf,
    before: String,
    low: String,
    /// Inode number of the cgroup's folder.
    inode: u64,
    /// Number of the change in the journal, while it is low.
    number: Option<u32>,
}

impl Cpu {
    fn open(group: &MemoryCgroup, cgroup: &Path, inode: u64) -> Option<Cpu> {
        let before = read(&group.file(CPU_MAX)).ok()?;
        Some(Cpu {
            path: cgroup.join(CPU_MAX),
            low: lowered(&before)?,
            before,
            inode,
            number: None,
        })
    }

    fn lower(&mut self, group: &MemoryCgroup, journal: &mut Journal) -> Result<(), CapError> {
        if self.number.is_some() {
            return Ok(());
        }
        let number = journal.record(Change::Cap {
            path: self.path.clone(),
            before: self.before.clone(),
            wrote: [self.before.clone(), self.low.clone()],
            inode: Some(self.inode),
        })?;
        if let Err(source) = write(&group.file(CPU_MAX), &self.low) {
            journal.record_undone(number)?;
            return Err(self.failed("write", source));
        }
        self.number = Some(number);
        Ok(())
    }

    fn restore(&mut self, group: &MemoryCgroup, journal: &mut Journal) -> Result<(), CapError> {
        let Some(number) = self.number.take() else {
            return Ok(());
        };
        let file = group.file(CPU_MAX);
        let restored = match read(&file) {
            Ok(now) if now == self.low => {
                write(&file, &self.before).map_err(|source| self.failed("write", source))
            }
            Ok(found) => Err(CapError::Changed {
                path: self.path.clone(),
                ours: self.low.clone(),
                found,
            }),
            Err(source) => Err(self.failed("read", source)),
        };
        // An undo would find the same.
        if !matches!(restored, Err(CapError::Environment(_))) {
            journal.record_undone(number)?;
        }
        restored
    }

    fn failed(&self, action: &str, source: io::Error) -> CapError {
        if is_gone(&source) {
            let path = self.path.parent().unwrap_or(&self.path).to_owned();
            return CapError::Gone { path };
        }
        if source.kind() == io::ErrorKind::PermissionDenied {
            let path = self.path.clone();
            return CapError::Denied { path };
        }
        EnvironmentError::system(format!("{action} {}", self.path.display()), source).into()
    }
}

/// The quota in a period, in microseconds, that the text of [`CPU_MAX`] stands for; [`u64::MAX`] for none.
pub(super) fn quota_and_period(text: &str) -> Option<(u64, u64)> {
    let (quota, period) = text.split_once(' ')?;
    let period = period.parse().ok().filter(|period| *period > 0)?;
    match quota {
        "max" => Some((u64::MAX, period)),
        quota => Some((quota.parse().ok()?, period)),
    }
}

/// The text for a throttled cgroup, if that is less CPU time.
fn lowered(before: &str) -> Option<String> {
    let (quota, period) = quota_and_period(before)?;
    let low = (period / SHARE).max(LEAST_QUOTA);
    (low < quota).then(|| format!("{low} {period}"))
}

#[cfg(test)]
mod tests {
    use plimsoll_proc::cgroup::CgroupVersion;

    use super::*;

    #[test]
    fn the_journal_names_the_cgroup_of_a_lowered_cpu_time() {
        let (folder, runs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(folder.path().join(CPU_MAX), "max 100000\n").unwrap();
        let group = MemoryCgroup::new(folder.path(), CgroupVersion::V2);
        let mut cpu = Cpu::open(&group, folder.path(), 7).unwrap();
        let mut journal = Journal::for_test(runs.path());
        cpu.lower(&group, &mut journal).unwrap();
        let is_it = |change: &Change| matches!(change, Change::Cap { inode: Some(7), .. });
        assert!(journal.find(is_it).is_some(), "{journal:?}");
    }

    #[test]
    fn a_throttle_only_lowers_the_cpu_time() {
        assert_eq!(lowered("max 100000").as_deref(), Some("5000 100000"));
        assert_eq!(lowered("max 1000").as_deref(), Some("1000 1000"));
        assert_eq!(lowered("200000 50000").as_deref(), Some("2500 50000"));
        assert_eq!(lowered("5000 100000"), None);
        for bad in ["", "max", "max 0", "x 1", "-1 100000", "1 2 3"] {
            assert_eq!(lowered(bad), None, "{bad}");
        }
    }
}
