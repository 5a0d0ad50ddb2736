//! Memory cgroups of both versions: `memory.*` and `cgroup.*` of a folder (`Documentation/admin-guide/cgroup-v2.rst`,
//! `cgroup-v1/memory.rst`).

pub mod controllers;
mod folder;
mod freezer;
mod hierarchy;
mod memory_stat;
mod peak;
mod walk;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::control::{self, ControlError};
use crate::fields::{number, value_of, words};
use crate::psi;

pub use folder::CgroupFolder;
pub use freezer::Freezer;
pub use hierarchy::{Hierarchy, HierarchyError, paths, unified_path};
pub use memory_stat::{Field, MemoryStat};
pub use peak::PeakUsage;
pub use walk::{Bounds, Found, Walk, walk};

/// The processes of a cgroup, one a line; a process whose number is written to it moves in.
pub const PROCESSES: &str = "cgroup.procs";
/// Counters and levels of a cgroup.
pub const STAT: &str = "memory.stat";
/// Takes bytes to reclaim (v2, Linux 5.19).
pub const RECLAIM: &str = "memory.reclaim";
/// Reclaims all that can be reclaimed when something is written to it (v1).
pub const FORCE_EMPTY: &str = "memory.force_empty";
/// The soft ceiling, above which processes reclaim and are held back (v2).
pub const HIGH: &str = "memory.high";
/// The CPU time of its processes in each period: quota and period in microseconds (v2).
pub const CPU_MAX: &str = "cpu.max";
const CONTROLLERS: &str = "cgroup.controllers";
/// The controllers of its children; takes `+memory` and `-memory` (v2).
pub const SUBTREE_CONTROL: &str = "cgroup.subtree_control";
const SWAP_CURRENT: &str = "memory.swap.current";
const SWAP_MAX: &str = "memory.swap.max";
const SWAPPINESS: &str = "memory.swappiness";
const SOFT_LIMIT: &str = "memory.soft_limit_in_bytes";
const MEMORY_AND_SWAP_LIMIT: &str = "memory.memsw.limit_in_bytes";
const HITS: &str = "memory.failcnt";
/// Whether the OOM killer may kill, and whether tasks wait for memory instead (v1).
pub const OOM_CONTROL: &str = "memory.oom_control";
const EVENTS: &str = "memory.events";
const OOM_GROUP: &str = "memory.oom.group";
const PRESSURE: &str = "memory.pressure";

/// Limits from here on mean "no limit" in v1: the kernel shows the largest multiple of the page size.
pub const UNLIMITED: u64 = i64::MAX as u64 - (1 << 20);

/// Version of the cgroup interface that has the memory controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupVersion {
    /// A hierarchy of its own for memory.
    V1,
    /// The unified hierarchy.
    V2,
}

impl CgroupVersion {
    /// `v1` or `v2`.
    pub const fn name(self) -> &'static str {
        match self {
            CgroupVersion::V1 => "v1",
            CgroupVersion::V2 => "v2",
        }
    }

    /// The file with the bytes of memory used.
    pub const fn usage_file(self) -> &'static str {
        match self {
            CgroupVersion::V1 => "memory.usage_in_bytes",
            CgroupVersion::V2 => "memory.current",
        }
    }

    /// The file with the limit, beyond which the OOM killer comes.
    pub const fn limit_file(self) -> &'static str {
        match self {
            CgroupVersion::V1 => "memory.limit_in_bytes",
            CgroupVersion::V2 => "memory.max",
        }
    }

    /// The file with the bytes of swap used; v1 has them in `memory.stat`.
    pub const fn swap_file(self) -> Option<&'static str> {
        match self {
            CgroupVersion::V1 => None,
            CgroupVersion::V2 => Some(SWAP_CURRENT),
        }
    }

    /// The file with the time that tasks stalled.
    pub const fn pressure_file(self) -> Option<&'static str> {
        match self {
            CgroupVersion::V1 => None,
            CgroupVersion::V2 => Some(PRESSURE),
        }
    }
}

impl std::fmt::Display for CgroupVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A cap on the memory of a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapKind {
    /// Beyond it the OOM killer comes: `memory.max` (v2), `memory.limit_in_bytes` (v1).
    Limit,
    /// Beyond it processes are held up and reclaimed: `memory.high` (v2).
    High,
    /// Beyond it pages go first when the whole machine is short: `memory.soft_limit_in_bytes` (v1).
    Soft,
}

impl CapKind {
    /// Those of a version, with the files that have them.
    pub const fn of(version: CgroupVersion) -> [(CapKind, &'static str); 2] {
        match version {
            CgroupVersion::V1 => [
                (CapKind::Limit, CgroupVersion::V1.limit_file()),
                (CapKind::Soft, SOFT_LIMIT),
            ],
            CgroupVersion::V2 => [
                (CapKind::Limit, CgroupVersion::V2.limit_file()),
                (CapKind::High, HIGH),
            ],
        }
    }
}

/// The state in [`OOM_CONTROL`] (v1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OomControl {
    /// Tasks that meet the limit wait, and are not killed.
    pub kill_disabled: bool,
    /// Tasks wait at the limit, or the OOM killer is at work there.
    pub waiting: bool,
}

impl OomControl {
    fn parse(text: &[u8]) -> OomControl {
        let is_set = |name| value_of(text, name).is_some_and(|value| value != 0);
        OomControl {
            kill_disabled: is_set("oom_kill_disable"),
            waiting: is_set("under_oom"),
        }
    }
}

/// A memory cgroup: a folder of the hierarchy with the memory controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryCgroup {
    version: CgroupVersion,
    path: PathBuf,
}

impl MemoryCgroup {
    pub fn new(path: impl Into<PathBuf>, version: CgroupVersion) -> MemoryCgroup {
        MemoryCgroup {
            version,
            path: path.into(),
        }
    }

    pub fn version(&self) -> CgroupVersion {
        self.version
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn has(&self, name: &str) -> bool {
        self.file(name).exists()
    }

    /// Whether it is the root of the kernel's hierarchy. In a container the top of the mount may be an ordinary
    /// cgroup: the files tell.
    pub fn is_root(&self) -> bool {
        match self.version {
            CgroupVersion::V1 => self.has("release_agent"),
            CgroupVersion::V2 => !self.has("cgroup.events"),
        }
    }

    /// Bytes of memory that it and those below it use.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn usage(&self) -> Result<u64, ControlError> {
        self.number(self.version.usage_file())
    }

    /// Bytes of swap that it uses; None where the kernel does not account them.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn swap(&self) -> Result<Option<u64>, ControlError> {
        match self.version {
            CgroupVersion::V1 => Ok(self.stat()?.get(Field::Swap)),
            CgroupVersion::V2 => absent_as_none(self.number(SWAP_CURRENT)),
        }
    }

    /// Its limit in bytes; None where there is none.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn limit(&self) -> Result<Option<u64>, ControlError> {
        match self.version {
            CgroupVersion::V1 => Ok(self.cap_in(self.version.limit_file())?),
            // The root, and cgroups for which the controller is not enabled, have no such file.
            CgroupVersion::V2 => Ok(absent_as_none(self.cap_in(self.version.limit_file()))?.flatten()),
        }
    }

    /// Its soft ceiling in bytes (v2); None where there is none.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn high(&self) -> Result<Option<u64>, ControlError> {
        self.cap_in(HIGH)
    }

    /// Its caps that are set and may be read.
    pub fn caps(&self) -> impl Iterator<Item = (CapKind, u64, &'static str)> {
        CapKind::of(self.version)
            .into_iter()
            .filter_map(|(kind, name)| Some((kind, self.cap_in(name).ok()??, name)))
    }

    /// The bytes in the file of a cap: `max` in v2, and a number near the largest one in v1, mean none.
    fn cap_in(&self, name: &str) -> Result<Option<u64>, ControlError> {
        let text = self.read(name)?;
        match (text.parse::<u64>(), self.version) {
            (Ok(bytes), _) => Ok((bytes < UNLIMITED).then_some(bytes)),
            (Err(_), CgroupVersion::V2) => Ok(None),
            (Err(_), CgroupVersion::V1) => Err(self
                .number(name)
                .err()
                .unwrap_or_else(|| ControlError::read(&self.file(name), io::ErrorKind::InvalidData.into()))),
        }
    }

    /// Processes of it that the OOM killer has killed.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn oom_kills(&self) -> Result<u64, ControlError> {
        let text = self.read(match self.version {
            CgroupVersion::V1 => OOM_CONTROL,
            CgroupVersion::V2 => EVENTS,
        })?;
        Ok(value_of(text.as_bytes(), "oom_kill").unwrap_or(0))
    }

    /// Whether the OOM killer may kill in it, and whether tasks wait for memory (v1).
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn oom_control(&self) -> Result<OomControl, ControlError> {
        Ok(OomControl::parse(self.read(OOM_CONTROL)?.as_bytes()))
    }

    /// Lets the OOM killer kill at its limit, and wakes the tasks that wait there; or makes tasks wait instead (v1).
    ///
    /// # Errors
    /// When the system refuses.
    pub fn let_oom_kill(&self, may: bool) -> Result<(), ControlError> {
        self.write(OOM_CONTROL, if may { "0" } else { "1" })
    }

    /// How often a charge met its limit: without one, the limit has changed nothing. `None` where swap is forbidden in v1:
    /// the limit on memory and swap together is met first, whose hits Linux 6.18 does not count.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn limit_hits(&self) -> Result<Option<u64>, ControlError> {
        match self.version {
            CgroupVersion::V1 => {
                let together = absent_as_none(self.cap_in(MEMORY_AND_SWAP_LIMIT))?.flatten();
                let is_met_first = together.is_some() && together == self.limit()?;
                Ok((!is_met_first).then_some(self.number(HITS)?))
            }
            CgroupVersion::V2 => Ok(Some(value_of(self.read(EVENTS)?.as_bytes(), "max").unwrap_or(0))),
        }
    }

    /// Its counters and levels.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn stat(&self) -> Result<MemoryStat, ControlError> {
        Ok(MemoryStat::parse(self.read(STAT)?.as_bytes(), self.version))
    }

    /// Microseconds in which some of its tasks waited for memory (v2).
    pub fn stalled_us(&self) -> Option<u64> {
        let text = fs::read(self.file(PRESSURE)).ok()?;
        psi::parse(&text).some.total_us.map(i64::unsigned_abs)
    }

    /// Bytes of swap that it may use at most (v2); `None` without such a limit.
    pub fn swap_limit(&self) -> Option<u64> {
        self.cap_in(SWAP_MAX).ok().flatten()
    }

    /// Whether its pages may not go to swap: swappiness 0 (v1), no swap allowed (v2).
    pub fn forbids_swap(&self) -> bool {
        let name = match self.version {
            CgroupVersion::V1 => SWAPPINESS,
            CgroupVersion::V2 => SWAP_MAX,
        };
        self.number(name).is_ok_and(|value| value == 0)
    }

    /// Whether it counts memory and swap together (v1, not with `swapaccount=0`).
    pub fn counts_memory_and_swap(&self) -> bool {
        self.has(MEMORY_AND_SWAP_LIMIT)
    }

    /// Sets the limit. In v1 the kernel first reclaims the pages above it.
    ///
    /// # Errors
    /// EBUSY where v1 cannot reclaim enough, and other errors of the system.
    pub fn set_limit(&self, bytes: u64) -> Result<(), ControlError> {
        self.write(self.version.limit_file(), &bytes.to_string())
    }

    /// Puts a limit back that was read before; None is none.
    ///
    /// # Errors
    /// As [`MemoryCgroup::set_limit`].
    pub fn restore_limit(&self, limit: Option<u64>) -> Result<(), ControlError> {
        let none = match self.version {
            CgroupVersion::V1 => "-1",
            CgroupVersion::V2 => "max",
        };
        let value = limit.map_or_else(|| none.to_owned(), |bytes| bytes.to_string());
        self.write(self.version.limit_file(), &value)
    }

    /// Sets its soft ceiling (v2); None is none.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn set_high(&self, bytes: Option<u64>) -> Result<(), ControlError> {
        let value = bytes.map_or_else(|| "max".to_owned(), |bytes| bytes.to_string());
        self.write(HIGH, &value)
    }

    /// Lets no page of it go to swap, as far as the kernel accounts swap. In v1 that is a limit of `limit` bytes on
    /// memory and swap together.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn forbid_swap(&self, limit: u64) -> Result<(), ControlError> {
        let (name, value) = match self.version {
            CgroupVersion::V1 => (MEMORY_AND_SWAP_LIMIT, limit),
            CgroupVersion::V2 => (SWAP_MAX, 0),
        };
        if self.has(name) {
            self.write(name, &value.to_string())?;
        }
        Ok(())
    }

    /// Sets its own swappiness (v1).
    ///
    /// # Errors
    /// When the system refuses.
    pub fn set_swappiness(&self, swappiness: u32) -> Result<(), ControlError> {
        self.write(SWAPPINESS, &swappiness.to_string())
    }

    /// Makes the OOM killer take all of its processes or none (v2, Linux 4.19; nothing where the kernel cannot).
    ///
    /// # Errors
    /// When the system refuses.
    pub fn kill_as_one(&self) -> Result<(), ControlError> {
        if self.has(OOM_GROUP) {
            self.write(OOM_GROUP, "1")?;
        }
        Ok(())
    }

    /// Asks the kernel to reclaim `bytes` through [`RECLAIM`]. Returns after the kernel has tried.
    ///
    /// # Errors
    /// EAGAIN where it reclaimed less, EINTR where it was interrupted.
    pub fn reclaim(&self, bytes: u64) -> Result<(), ControlError> {
        self.write(RECLAIM, &bytes.to_string())
    }

    /// Processes in it, those below apart. 0 stands for a process of another pid namespace.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn processes(&self) -> io::Result<Vec<u32>> {
        processes(&self.path)
    }

    /// Moves a process into it.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn add_process(&self, pid: u32) -> Result<(), ControlError> {
        self.write(PROCESSES, &pid.to_string())
    }

    /// Whether the memory controller is available in it (v2).
    pub fn has_controller(&self) -> bool {
        self.lists_memory(CONTROLLERS)
    }

    /// The controllers that are available in it (v2), apart by spaces.
    pub fn controllers(&self) -> Option<String> {
        self.read(CONTROLLERS).ok()
    }

    /// Whether its children have the memory controller (v2).
    pub fn gives_controller(&self) -> bool {
        self.lists_memory(SUBTREE_CONTROL)
    }

    /// Gives its children the memory controller (v2), or takes it from them.
    ///
    /// # Errors
    /// EBUSY where processes are in it, and other errors of the system.
    pub fn give_controller(&self, give: bool) -> Result<(), ControlError> {
        self.write(SUBTREE_CONTROL, if give { "+memory" } else { "-memory" })
    }

    /// Whether this user may switch the controllers of its children (v2).
    pub fn may_give_controllers(&self) -> bool {
        access(self.file(SUBTREE_CONTROL), Access::WRITE_OK).is_ok()
    }

    /// Whether it is the root of the whole machine, whose counters are those of the machine. The root of a container is not.
    pub fn is_root_of_machine(&self) -> bool {
        match self.version {
            // Only the root has this file.
            CgroupVersion::V1 => self.file("release_agent").exists(),
            // The root alone has neither.
            CgroupVersion::V2 => !self.file("cgroup.type").exists() && !self.file("memory.current").exists(),
        }
    }

    /// Whether this user may make cgroups in it.
    pub fn is_writable(&self) -> bool {
        access(&self.path, Access::WRITE_OK | Access::EXEC_OK).is_ok() && self.read(PROCESSES).is_ok()
    }

    fn lists_memory(&self, name: &str) -> bool {
        self.read(name)
            .is_ok_and(|text| text.split_whitespace().any(|word| word == "memory"))
    }

    fn read(&self, name: &str) -> Result<String, ControlError> {
        let path = self.file(name);
        control::read(&path).map_err(|source| ControlError::read(&path, source))
    }

    fn number(&self, name: &str) -> Result<u64, ControlError> {
        let path = self.file(name);
        control::read_number(&path).map_err(|source| ControlError::read(&path, source))
    }

    fn write(&self, name: &str, value: &str) -> Result<(), ControlError> {
        let path = self.file(name);
        control::write(&path, value).map_err(|source| ControlError::write(&path, value, source))
    }
}

/// None for a file that is not there.
fn absent_as_none<T>(result: Result<T, ControlError>) -> Result<Option<T>, ControlError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.io().kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn processes(folder: &Path) -> io::Result<Vec<u32>> {
    let text = fs::read(folder.join(PROCESSES))?;
    let pids = words(&text).filter_map(number);
    Ok(pids.filter_map(|pid| u32::try_from(pid).ok()).collect())
}

/// The processes of a cgroup and of those below it, ascending. A cgroup below that goes away meanwhile is passed over.
///
/// # Errors
/// When the cgroup itself cannot be read.
pub fn members(cgroup: &Path) -> io::Result<Vec<u32>> {
    let found = all_members(cgroup)?;
    Ok(found.into_iter().filter(|pid| *pid != HIDDEN).collect())
}

/// Whether processes of another pid namespace are in a cgroup or below it.
pub fn has_hidden_members(cgroup: &Path) -> bool {
    all_members(cgroup).is_ok_and(|found| found.contains(&HIDDEN))
}

/// The number that stands for a process of another pid namespace.
const HIDDEN: u32 = 0;

fn all_members(cgroup: &Path) -> io::Result<BTreeSet<u32>> {
    let mut found = BTreeSet::new();
    let mut next = vec![cgroup.to_owned()];
    while let Some(folder) = next.pop() {
        let pids = match processes(&folder) {
            Ok(pids) => pids,
            Err(error) if folder == cgroup => return Err(error),
            Err(_) => continue,
        };
        found.extend(pids);
        let entries = fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok);
        next.extend(
            entries
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .map(|entry| entry.path()),
        );
    }
    Ok(found)
}
