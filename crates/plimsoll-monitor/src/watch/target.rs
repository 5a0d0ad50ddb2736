//! What is watched besides the machine: which processes that is just now.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use plimsoll_proc::cgroup::{Hierarchy, HierarchyError, members};
use plimsoll_proc::swaps;
use plimsoll_proc::zram::Zram;

use super::error::WatchError;
use super::options::TargetChoice;
use crate::processes::{Depth, Identity, Process, descendants};
use crate::trim::What;
use plimsoll_model::sanitize::sanitize;
use plimsoll_sample::CgroupFiles;

/// Processes that are read on every tick; reading one takes about 10 us.
pub(super) const READ_ON_TICKS: usize = 64;

/// What is followed.
pub(super) enum Followed {
    Nothing,
    Family(Family),
    Cgroup(Group),
}

/// A process and its descendants.
pub(super) struct Family {
    root: Identity,
    /// Those that were seen and have not ended, by number.
    known: BTreeMap<u32, Identity>,
    /// Name and file of the program that the first process runs.
    runs: (String, Option<PathBuf>),
    title: String,
    root_ended: bool,
    /// Whether somebody else waits for the first process, and tells how it ended.
    ours: bool,
}

/// A memory cgroup and those below it.
pub(super) struct Group {
    folder: PathBuf,
    files: CgroupFiles,
    title: String,
    /// Whether it was seen to be gone, which is said once.
    removed: bool,
}

/// What there is to be seen just now.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Look {
    /// The processes, the first one first.
    pub(super) pids: Vec<u32>,
    /// Something happened to the target: a mark.
    pub(super) news: Option<String>,
    /// There will be no more of it.
    pub(super) ended: Option<String>,
    /// What cannot be looked at, and why.
    pub(super) trouble: Option<String>,
}

impl Followed {
    /// Finds what was chosen.
    pub(super) fn choose(choice: &TargetChoice) -> Result<Followed, WatchError> {
        match choice {
            TargetChoice::None => Ok(Followed::Nothing),
            TargetChoice::Pid(pid) => {
                let failed = |error: io::Error| WatchError::Target {
                    what: format!("process {pid}"),
                    reason: match error.kind() {
                        io::ErrorKind::NotFound => {
                            "there is no such process; `plimsoll ps` lists those that there are".to_owned()
                        }
                        io::ErrorKind::PermissionDenied => {
                            "this user may not look at it; run as root".to_owned()
                        }
                        _ => error.to_string(),
                    },
                };
                let process = Process::read(*pid, Depth::Counters).map_err(failed)?;
                let title = format!("pid {pid} {}", sanitize(&process.name));
                Ok(Followed::Family(Family::of(process, title, false)))
            }
            TargetChoice::Cgroup(path) => Group::find(path).map(Followed::Cgroup),
        }
    }

    /// The family of a program that was started here.
    pub(super) fn program(identity: Identity, title: String) -> Followed {
        Followed::Family(Family {
            root: identity,
            known: BTreeMap::from([(identity.pid, identity)]),
            runs: (String::new(), None),
            title,
            root_ended: false,
            ours: true,
        })
    }

    /// Words for people; None for nothing.
    pub(super) fn title(&self) -> Option<&str> {
        match self {
            Followed::Nothing => None,
            Followed::Family(family) => Some(&family.title),
            Followed::Cgroup(group) => Some(&group.title),
        }
    }

    /// The files of the cgroup.
    pub(super) fn cgroup(&self) -> Option<&CgroupFiles> {
        match self {
            Followed::Cgroup(group) => Some(&group.files),
            _ => None,
        }
    }

    /// What a trim trims; None where there is nothing.
    pub(super) fn trimmable(&self) -> Option<What> {
        match self {
            Followed::Nothing => None,
            Followed::Family(family) => {
                // The monitor may be a descendant of what it watches, and needs its own pages.
                let others = family.known.values().filter(|one| one.pid != std::process::id());
                let mut all: Vec<Identity> = others.copied().collect();
                // The first process gives its name to all.
                all.sort_by_key(|process| process.pid != family.root.pid);
                (!all.is_empty()).then_some(What::Family(all))
            }
            Followed::Cgroup(group) => Some(What::Cgroup(group.folder.clone())),
        }
    }

    /// Processes of a family.
    pub(super) fn identities(&self) -> Vec<Identity> {
        match self {
            Followed::Family(family) => family.known.values().copied().collect(),
            _ => Vec::new(),
        }
    }

    /// Whether it is the program that was started here.
    pub(super) fn is_ours(&self) -> bool {
        matches!(self, Followed::Family(family) if family.ours)
    }

    /// Looks again.
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
                    rest => format!("{} ended; {rest} of its descendants go on", self.title),
                });
            }
        } else if !self.root_ended {
            look.news = self.became();
        }
        if self.known.is_empty() && !self.ours {
            look.ended = Some("ended".to_owned());
        }
        look.pids = self.known.keys().copied().collect();
        // The first one first: it has a column of its own.
        if let Some(at) = look.pids.iter().position(|pid| *pid == self.root.pid) {
            look.pids[..=at].rotate_right(1);
        }
        look
    }

    /// Finds those that came, and forgets those that ended. A child whose parent ended stays in the family.
    fn renew(&mut self) {
        let mut found: BTreeMap<u32, Identity> = BTreeMap::new();
        if self.root.is_alive() {
            self.add_descendants(self.root.pid, &mut found);
        }
        let lost: Vec<Identity> = self.known.values().copied().collect();
        for process in lost {
            if !found.contains_key(&process.pid) && process.is_alive() {
                self.add_descendants(process.pid, &mut found);
            }
        }
        self.known = found;
    }

    fn add_descendants(&self, pid: u32, found: &mut BTreeMap<u32, Identity>) {
        for pid in descendants(pid) {
            // A number that is in the family already means the same process as before: others are no descendants.
            let known = self.known.get(&pid).copied();
            if let Some(process) = known.or_else(|| Identity::of(pid).ok()) {
                found.insert(pid, process);
            }
        }
    }

    /// What the first process has become, if it runs another program than before.
    fn became(&mut self) -> Option<String> {
        let process = Process::read(self.root.pid, Depth::Counters).ok()?;
        let now = (process.name, program_file(self.root.pid));
        if process.identity != self.root || now == self.runs {
            return None;
        }
        let before = std::mem::replace(&mut self.runs, now);
        let name = sanitize(&self.runs.0).into_owned();
        let pid = self.root.pid;
        // A program that was started here was this one before it became itself.
        if before.0.is_empty() {
            return None;
        }
        if !self.ours {
            self.title = format!("pid {pid} {name}");
        }
        Some(if before.1 != self.runs.1 {
            format!("pid {pid} runs another program now: {name}")
        } else {
            format!("pid {pid} calls itself {name} now")
        })
    }
}

/// The file of the program that a process runs, where this user may know.
fn program_file(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// Why the memory of a process cannot be read, where that is for want of a permission.
pub(super) fn unreadable(pid: u32) -> Option<String> {
    let error = fs::File::open(format!("/proc/{pid}/statm")).err()?;
    (error.kind() == io::ErrorKind::PermissionDenied)
        .then(|| format!("this user may not look at process {pid}; run as root"))
}

impl Group {
    /// Finds a cgroup by its path below the mount, or by its folder.
    fn find(path: &Path) -> Result<Group, WatchError> {
        let failed = |reason: String| WatchError::Target {
            what: format!("the cgroup {}", path.display()),
            reason,
        };
        let not_found = |error: HierarchyError| failed(error.to_string());
        let hierarchy = Hierarchy::of_this_process().map_err(not_found)?;
        let (folder, name) = hierarchy.find(path).map_err(not_found)?;
        let files = CgroupFiles::of(&folder, hierarchy.version);
        if !files.stat.exists() {
            return Err(failed(format!(
                "{} is missing: is it a cgroup of the memory controller, whose hierarchy is at {}?",
                files.stat.display(),
                hierarchy.mount.display()
            )));
        }
        Ok(Group {
            title: format!("cgroup {}", sanitize(&name)),
            folder,
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
            // ENODEV once it has been removed while its file was open.
            Err(error) if !self.folder.exists() || error.raw_os_error() == Some(libc::ENODEV) => {
                let known = std::mem::replace(&mut self.removed, true);
                Look {
                    news: (!known).then(|| format!("{} was removed", self.title)),
                    ended: Some("was removed".to_owned()),
                    ..Look::default()
                }
            }
            Err(error) => Look {
                trouble: Some(format!(
                    "cannot read the members of {}: {error}",
                    self.folder.display()
                )),
                ..Look::default()
            },
        }
    }
}

/// The zram device with the most swap in use, the first of several.
pub(super) fn busiest_zram() -> Option<String> {
    let swaps = swaps::active().ok()?;
    let zram = swaps
        .iter()
        .filter_map(|area| area.zram().map(|device| (area.used, device)));
    // The last of equal ones is the greatest: so from the end.
    let zram: Vec<_> = zram.collect();
    let (_, device) = zram.iter().rev().max_by_key(|(used, _)| *used)?;
    Some(Zram::of(*device).name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_process_of_the_same_number_is_not_the_target() {
        let mut child = plimsoll_testkit::command("sleep").arg("60").spawn().unwrap();
        let now = Identity::of(child.id()).unwrap();
        let before = Identity {
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
        };
        let look = gone.look();
        let mut there = Followed::program(now, "pid".to_owned());
        let seen = there.look();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((look.pids.len(), look.ended.as_deref()), (0, Some("ended")));
        assert_eq!(look.news.as_deref(), Some("pid ended"));
        assert_eq!(gone.look().news, None, "an end is said once");
        assert_eq!(seen.pids, [now.pid]);
    }
}
