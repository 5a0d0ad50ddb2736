//! The target and its current processes.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use plimsoll_proc::ProcessId;
use plimsoll_proc::cgroup::{Hierarchy, HierarchyError, members};
use plimsoll_proc::swaps;
use plimsoll_proc::zram::Zram;

use super::error::WatchError;
use super::options::TargetChoice;
use crate::processes::{Depth, Process, descendants};
use crate::trim::What;
use plimsoll_model::sanitize::sanitize;
use plimsoll_sample::CgroupFiles;

/// Most processes that the sampler reads on each tick, at about 10 us each.
pub(super) const READ_ON_TICKS: usize = 64;

/// A target that the monitor follows.
pub(super) enum Followed {
    Nothing,
    Family(Family),
    Cgroup(Group),
}

pub(super) struct Family {
    root: ProcessId,
    /// Running processes of the family, by pid.
    known: BTreeMap<u32, ProcessId>,
    /// Name and executable of the first process.
    runs: (String, Option<PathBuf>),
    title: String,
    root_ended: bool,
    /// Whether the monitor started the first process. Another thread then waits for it and reports its end.
    ours: bool,
    /// Open files of the cgroup that the started program entered.
    cgroup: Option<CgroupFiles>,
}

/// A memory cgroup and its descendants.
pub(super) struct Group {
    folder: PathBuf,
    files: CgroupFiles,
    title: String,
    /// Whether its removal was reported.
    removed: bool,
}

/// Result of a check.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Look {
    /// Running processes, the first one first.
    pub(super) pids: Vec<u32>,
    /// Text of a mark for a change of the target.
    pub(super) news: Option<String>,
    /// Description of its end.
    pub(super) ended: Option<String>,
    /// Reason for missing values.
    pub(super) error: Option<String>,
}

impl Followed {
    /// Resolves the user's choice.
    pub(super) fn choose(choice: &TargetChoice) -> Result<Followed, WatchError> {
        match choice {
            TargetChoice::None => Ok(Followed::Nothing),
            TargetChoice::Pid(pid) => {
                let failed = |error: io::Error| {
                    let reason = match error.kind() {
                        io::ErrorKind::NotFound => return WatchError::NoSuchProcess { pid: *pid },
                        io::ErrorKind::PermissionDenied => "permission denied; run as root".to_owned(),
                        _ => error.to_string(),
                    };
                    WatchError::Target {
                        what: format!("process {pid}"),
                        reason,
                    }
                };
                let process = Process::read(*pid, Depth::Counters).map_err(failed)?;
                let title = format!("pid {pid} {}", sanitize(&process.name));
                Ok(Followed::Family(Family::of(process, title, false)))
            }
            TargetChoice::Cgroup(path) => Group::find(path).map(Followed::Cgroup),
        }
    }

    /// The family of a program that the monitor started, in a cgroup of its own or not.
    pub(super) fn program(identity: ProcessId, title: String, cgroup: Option<CgroupFiles>) -> Followed {
        Followed::Family(Family {
            root: identity,
            known: BTreeMap::from([(identity.pid, identity)]),
            runs: (String::new(), None),
            title,
            root_ended: false,
            ours: true,
            cgroup,
        })
    }

    /// Title for display; None for no target.
    pub(super) fn title(&self) -> Option<&str> {
        match self {
            Followed::Nothing => None,
            Followed::Family(family) => Some(&family.title),
            Followed::Cgroup(group) => Some(&group.title),
        }
    }

    /// Open files of the cgroup.
    pub(super) fn cgroup(&self) -> Option<&CgroupFiles> {
        match self {
            Followed::Nothing => None,
            Followed::Family(family) => family.cgroup.as_ref(),
            Followed::Cgroup(group) => Some(&group.files),
        }
    }

    pub(super) fn folder(&self) -> Option<PathBuf> {
        match self {
            Followed::Cgroup(group) => Some(group.folder.clone()),
            _ => None,
        }
    }

    /// Target of a trim; None without processes.
    pub(super) fn trimmable(&self) -> Option<What> {
        match self {
            Followed::Nothing => None,
            Followed::Family(family) => {
                // The monitor may be a descendant of its target, and needs its own pages.
                let others = family.known.values().filter(|one| one.pid != std::process::id());
                let mut all: Vec<ProcessId> = others.copied().collect();
                // The first process names the group.
                all.sort_by_key(|process| process.pid != family.root.pid);
                (!all.is_empty()).then_some(What::Family(all))
            }
            Followed::Cgroup(group) => Some(What::Cgroup(group.folder.clone())),
        }
    }

    /// Processes of a family.
    pub(super) fn identities(&self) -> Vec<ProcessId> {
        match self {
            Followed::Family(family) => family.known.values().copied().collect(),
            _ => Vec::new(),
        }
    }

    /// Whether the monitor started the target.
    pub(super) fn is_ours(&self) -> bool {
        matches!(self, Followed::Family(family) if family.ours)
    }

    pub(super) fn look(&mut self) -> Look {
        match self {
            Followed::Nothing => Look::default(),
            Followed::Family(family) => family.look(),
            Followed::Cgroup(group) => group.look(),
        }
    }
}

impl Family {
    fn of(process: Process, title: String, ours: bool) -> Family {
        let root = process.identity;
        Family {
            root,
            known: BTreeMap::from([(root.pid, root)]),
            runs: (process.name, program_file(root.pid)),
            title,
            root_ended: false,
            ours,
            cgroup: None,
        }
    }

    fn look(&mut self) -> Look {
        let mut look = Look::default();
        self.renew();
        if !self.known.contains_key(&self.root.pid) && !self.root_ended {
            self.root_ended = true;
            if !self.ours {
                look.news = Some(match self.known.len() {
                    0 => format!("{} ended", self.title),
                    rest => format!("{} ended; {rest} of its descendants still run", self.title),
                });
            }
        } else if !self.root_ended {
            look.news = self.became();
        }
        if self.known.is_empty() && !self.ours {
            look.ended = Some("ended".to_owned());
        }
        look.pids = self.known.keys().copied().collect();
        // The first process stays first: it has a column of its own.
        if let Some(at) = look.pids.iter().position(|pid| *pid == self.root.pid) {
            look.pids[..=at].rotate_right(1);
        }
        look
    }

    /// Adds new descendants and removes ended ones. A child of an ended parent stays.
    fn renew(&mut self) {
        let mut found: BTreeMap<u32, ProcessId> = BTreeMap::new();
        if self.root.is_alive() {
            self.add_descendants(self.root.pid, &mut found);
        }
        let lost: Vec<ProcessId> = self.known.values().copied().collect();
        for process in lost {
            if !found.contains_key(&process.pid) && process.is_alive() {
                self.add_descendants(process.pid, &mut found);
            }
        }
        self.known = found;
    }

    fn add_descendants(&self, pid: u32, found: &mut BTreeMap<u32, ProcessId>) {
        for pid in descendants(pid) {
            // A pid that is already known means the known process: another process with it is no descendant.
            let known = self.known.get(&pid).copied();
            if let Some(process) = known.or_else(|| ProcessId::of_any(pid).ok()) {
                found.insert(pid, process);
            }
        }
    }

    /// Text for a first process that has executed another program.
    fn became(&mut self) -> Option<String> {
        let process = Process::read(self.root.pid, Depth::Counters).ok()?;
        let now = (process.name, program_file(self.root.pid));
        if process.identity != self.root || now == self.runs {
            return None;
        }
        let before = std::mem::replace(&mut self.runs, now);
        let name = sanitize(&self.runs.0).into_owned();
        let pid = self.root.pid;
        // Before its `exec`, a started program was a copy of the monitor.
        if before.0.is_empty() {
            return None;
        }
        if !self.ours {
            self.title = format!("pid {pid} {name}");
        }
        Some(if before.1 != self.runs.1 {
            format!("pid {pid} executed another program: {name}")
        } else {
            format!("pid {pid} calls itself {name} now")
        })
    }
}

/// Executable of a process, if this user may read it.
fn program_file(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// Reason for which the memory of a process is unreadable, if that is a missing permission.
pub(super) fn unreadable(pid: u32) -> Option<String> {
    let error = fs::File::open(format!("/proc/{pid}/statm")).err()?;
    (error.kind() == io::ErrorKind::PermissionDenied)
        .then(|| format!("cannot read process {pid}: permission denied; run as root"))
}

impl Group {
    /// Finds a cgroup by its folder or by its path below the mount.
    fn find(path: &Path) -> Result<Group, WatchError> {
        let not_found = |source: HierarchyError| WatchError::Cgroup { source };
        let hierarchy = Hierarchy::of_this_process().map_err(not_found)?;
        let (group, name) = hierarchy.find(path).map_err(not_found)?;
        let files = CgroupFiles::of(group.path(), group.version());
        if !files.stat.exists() {
            return Err(WatchError::Target {
                what: format!("the cgroup {}", path.display()),
                reason: format!(
                    "{} does not exist; name a cgroup of the memory controller, below {}",
                    files.stat.display(),
                    hierarchy.mount.display()
                ),
            });
        }
        Ok(Group {
            title: format!("cgroup {}", sanitize(&name)),
            folder: group.path().to_owned(),
            files,
            removed: false,
        })
    }

    fn look(&mut self) -> Look {
        match members(&self.folder) {
            Ok(pids) => Look {
                pids,
                ..Look::default()
            },
            // ENODEV: the cgroup was removed while its file was open.
            Err(error) if !self.folder.exists() || error.raw_os_error() == Some(libc::ENODEV) => {
                let known = std::mem::replace(&mut self.removed, true);
                Look {
                    news: (!known).then(|| format!("{} was removed", self.title)),
                    ended: Some("was removed".to_owned()),
                    ..Look::default()
                }
            }
            Err(error) => Look {
                error: Some(format!(
                    "cannot read the members of {}: {error}",
                    self.folder.display()
                )),
                ..Look::default()
            },
        }
    }
}

/// The files of a memory cgroup.
pub(super) fn files_of(folder: &Path) -> Result<CgroupFiles, WatchError> {
    Group::find(folder).map(|group| group.files)
}

/// The zram device with the most used swap; the first of several.
pub(super) fn busiest_zram() -> Option<String> {
    let swaps = swaps::active().ok()?;
    let zram = swaps
        .iter()
        .filter_map(|area| area.zram().map(|device| (area.used, device)));
    // `max_by_key` returns the last of equal elements, so iterate in reverse.
    let zram: Vec<_> = zram.collect();
    let (_, device) = zram.iter().rev().max_by_key(|(used, _)| *used)?;
    Some(Zram::of(*device).name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_a_reused_pid_is_not_the_target() {
        let mut child = plimsoll_testkit::command("sleep").arg("60").spawn().unwrap();
        let now = ProcessId::of(child.id()).unwrap();
        let before = ProcessId {
            start_ticks: now.start_ticks - 1,
            ..now
        };
        let mut gone = Family {
            root: before,
            known: BTreeMap::from([(before.pid, before)]),
            runs: ("sleep".to_owned(), None),
            title: "pid".to_owned(),
            root_ended: false,
            ours: false,
            cgroup: None,
        };
        let look = gone.look();
        let mut there = Followed::program(now, "pid".to_owned(), None);
        let seen = there.look();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((look.pids.len(), look.ended.as_deref()), (0, Some("ended")));
        assert_eq!(look.news.as_deref(), Some("pid ended"));
        assert_eq!(gone.look().news, None, "the end is reported once");
        assert_eq!(seen.pids, [now.pid]);
    }
}
