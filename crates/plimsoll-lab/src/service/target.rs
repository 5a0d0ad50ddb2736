//! The cgroup of the service, from its path or from a process in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use plimsoll_model::sanitize::sanitize;
use plimsoll_proc::cgroup::{CgroupVersion, Hierarchy, HierarchyError, members};
use plimsoll_proc::{PidStat, ProcessId};

use super::error::ServiceSizeError;

/// The service, as the user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceChoice {
    /// A memory cgroup: its folder, or a path below the mount.
    Cgroup(PathBuf),
    /// The cgroup of this process.
    Pid(u32),
}

/// A cgroup that can be sized.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) folder: PathBuf,
    /// Path below the mount, sanitized.
    pub(super) name: String,
    pub(super) version: CgroupVersion,
    /// The process that the user named.
    pub(super) process: Option<ProcessId>,
    /// Other processes in the cgroup of that process which are not its descendants.
    pub(super) strangers: Vec<u32>,
}

impl Target {
    pub(super) fn find(choice: &ServiceChoice) -> Result<Target, ServiceSizeError> {
        let own = Hierarchy::of_this_process().map_err(ServiceSizeError::NoHierarchy)?;
        let (hierarchy, path, process) = match choice {
            ServiceChoice::Cgroup(path) => (own, path.clone(), None),
            ServiceChoice::Pid(pid) => {
                let process = ProcessId::of(*pid).map_err(|_| ServiceSizeError::NoProcess { pid: *pid })?;
                let hierarchy = Hierarchy::of_process(*pid).map_err(|error| match error {
                    HierarchyError::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                        ServiceSizeError::NoProcess { pid: *pid }
                    }
                    HierarchyError::Unreadable { source, .. } => {
                        ServiceSizeError::Process { pid: *pid, source }
                    }
                    error => ServiceSizeError::NoHierarchy(error),
                })?;
                let path = hierarchy.own.clone();
                (hierarchy, path, Some(process))
            }
        };
        let (group, name) = hierarchy.find(&path).map_err(ServiceSizeError::NoCgroup)?;
        let mount = fs::canonicalize(&hierarchy.mount).unwrap_or(hierarchy.mount);
        let name = sanitize(&name).into_owned();
        if group.path() == mount || group.is_root_of_machine() {
            return Err(ServiceSizeError::Root {
                what: match choice {
                    ServiceChoice::Cgroup(_) => format!("the cgroup {name}"),
                    ServiceChoice::Pid(pid) => format!("process {pid}"),
                },
            });
        }
        let members = members_of(group.path())?;
        if members.contains(&std::process::id()) {
            return Err(ServiceSizeError::OwnSession { cgroup: name });
        }
        if members.is_empty() {
            return Err(ServiceSizeError::Empty { cgroup: name });
        }
        let strangers = process.map_or(Vec::new(), |process| strangers(process.pid, &members));
        Ok(Target {
            folder: group.path().to_owned(),
            name,
            version: group.version(),
            process,
            strangers,
        })
    }
}

fn members_of(folder: &Path) -> Result<Vec<u32>, ServiceSizeError> {
    members(folder).map_err(|source| {
        let path = folder.to_owned();
        ServiceSizeError::NoCgroup(HierarchyError::NoSuchCgroup { path, source })
    })
}

/// Members that are neither the process nor its descendants.
fn strangers(pid: u32, members: &[u32]) -> Vec<u32> {
    let parent = |pid: u32| PidStat::read(pid, &mut Vec::new()).ok().map(|stat| stat.parent);
    let belongs = |member: &u32| {
        let mut above = Some(*member);
        // Depth of a tree of processes: a pid that is reused meanwhile must not make a circle of it.
        for _ in 0..1000 {
            match above {
                Some(found) if found == pid => return true,
                Some(0 | 1) | None => return false,
                Some(found) => above = parent(found),
            }
        }
        false
    };
    members
        .iter()
        .copied()
        .filter(|member| !belongs(member))
        .collect()
}
