//! The cgroups that may be throttled (v2): the nearest ones with the memory controller of the processes, strictly below the
//! scope, and without an exempt process.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use plimsoll_model::sanitize::sanitize;
use plimsoll_proc::Folder;
use plimsoll_proc::cgroup::{CgroupVersion, HIGH, Hierarchy, unified_path};

use super::error::GuardError;
use super::order::GroupId;
use super::scope::Scope;

#[derive(Debug)]
pub(super) struct Groups {
    hierarchy: Hierarchy,
    /// Only cgroups below it are throttled.
    top: PathBuf,
    /// The cgroups of this look, by the paths of processes.
    paths: HashMap<PathBuf, Option<GroupId>>,
    /// Their folders.
    folders: BTreeMap<GroupId, PathBuf>,
    /// Those of the look before.
    former: BTreeMap<GroupId, PathBuf>,
    /// Those of this look with an exempt process.
    exempt: BTreeSet<GroupId>,
    /// Those whose throttle the kernel or another program refused.
    spared: BTreeSet<GroupId>,
}

impl Groups {
    pub(super) fn find(scope: &Scope) -> Result<Groups, GuardError> {
        if scope.is_tree() {
            return Err(GuardError::ThrottleOfTree);
        }
        let hierarchy = Hierarchy::of_this_process().map_err(GuardError::NoHierarchy)?;
        if hierarchy.version != CgroupVersion::V2 {
            return Err(GuardError::NoThrottle);
        }
        let top = scope.group().map(|group| group.path().to_owned());
        Ok(Groups::below(
            top.unwrap_or_else(|| hierarchy.mount.clone()),
            hierarchy,
        ))
    }

    fn below(top: PathBuf, hierarchy: Hierarchy) -> Groups {
        Groups {
            hierarchy,
            top,
            paths: HashMap::new(),
            folders: BTreeMap::new(),
            former: BTreeMap::new(),
            exempt: BTreeSet::new(),
            spared: BTreeSet::new(),
        }
    }

    /// Begins a look.
    pub(super) fn begin(&mut self) {
        self.paths.clear();
        self.exempt.clear();
        self.former = std::mem::take(&mut self.folders);
    }

    /// The cgroup of a process; `None` if it is the scope itself, or outside.
    pub(super) fn of(&mut self, process: &Folder, buffer: &mut Vec<u8>) -> Option<GroupId> {
        let text = process.read("cgroup", buffer).ok()?;
        self.at(Path::new(unified_path(std::str::from_utf8(text).ok()?)?))
    }

    fn at(&mut self, path: &Path) -> Option<GroupId> {
        if let Some(known) = self.paths.get(path) {
            return *known;
        }
        let found = self.find_folder(path);
        let id = found.as_ref().map(|(id, _)| *id);
        self.folders.extend(found);
        self.paths.insert(path.to_owned(), id);
        id
    }

    fn find_folder(&self, path: &Path) -> Option<(GroupId, PathBuf)> {
        let folder = self.hierarchy.folder(path)?;
        let mut above = folder.ancestors().take_while(|folder| *folder != self.top);
        // A path that does not lead through the scope ends at the root.
        let folder = above.find(|folder| folder.join(HIGH).exists())?;
        let is_inside = folder.starts_with(&self.top);
        let found = std::fs::symlink_metadata(folder).ok().filter(|_| is_inside)?;
        Some((found.ino(), folder.to_owned()))
    }

    /// Takes in that a process of the cgroup is exempt.
    pub(super) fn exempt(&mut self, id: GroupId) {
        self.exempt.insert(id);
    }

    /// Spares a cgroup for good.
    pub(super) fn spare(&mut self, id: GroupId) {
        self.spared.insert(id);
    }

    /// The cgroups that may be throttled: also none above an exempt process.
    pub(super) fn free(&self) -> BTreeSet<GroupId> {
        let exempt = self.exempt.iter().filter_map(|id| self.folders.get(id));
        let exempt: Vec<&PathBuf> = exempt.collect();
        let is_free = |id: &GroupId, folder: &Path| {
            !self.spared.contains(id) && !exempt.iter().any(|exempt| exempt.starts_with(folder))
        };
        let free = self.folders.iter().filter(|(id, folder)| is_free(id, folder));
        free.map(|(id, _)| *id).collect()
    }

    /// Folder of a cgroup of this look or the one before.
    pub(super) fn folder(&self, id: GroupId) -> Option<&Path> {
        let folder = self.folders.get(&id).or_else(|| self.former.get(&id));
        folder.map(PathBuf::as_path)
    }

    /// Name of a cgroup: its path below the mount.
    pub(super) fn name(&self, id: GroupId) -> String {
        let below = self
            .folder(id)
            .and_then(|folder| folder.strip_prefix(&self.hierarchy.mount).ok());
        let name = format!("/{}", below.unwrap_or(Path::new("")).display());
        sanitize(&name).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_nearest_cgroup_with_the_controller_counts_unless_it_has_an_exempt_process() {
        let mount = tempfile::tempdir().unwrap();
        let make = |path: &str, with_memory: bool| {
            let folder = mount.path().join(path);
            fs::create_dir_all(&folder).unwrap();
            if with_memory {
                fs::write(folder.join(HIGH), "max").unwrap();
            }
        };
        make("batch", true);
        make("batch/a", true);
        make("batch/a/inner", false);
        make("batch/b", true);
        make("batch/b/c", true);
        make("other", true);
        let hierarchy = Hierarchy {
            version: CgroupVersion::V2,
            mount: mount.path().to_owned(),
            inner: "/".into(),
            own: mount.path().to_owned(),
        };
        let mut groups = Groups::below(mount.path().join("batch"), hierarchy);
        groups.begin();
        let mut at = |path: &str| groups.at(Path::new(path));
        let a = at("/batch/a").unwrap();
        assert_eq!(at("/batch/a/inner"), Some(a), "it has no controller of its own");
        let (b, c) = (at("/batch/b").unwrap(), at("/batch/b/c").unwrap());
        for outside in [
            "/batch",
            "/other",
            "/",
            "/../batch/a",
            "/batch/../other",
            "/batch/gone",
            "batch/a",
        ] {
            assert_eq!(at(outside), None, "{outside}");
        }
        assert_eq!(groups.free(), [a, b, c].into());
        assert_eq!(
            (groups.name(a).as_str(), groups.name(c).as_str()),
            ("/batch/a", "/batch/b/c")
        );
        groups.exempt(c);
        assert_eq!(groups.free(), [a].into(), "`b` is above it");
        groups.begin();
        assert!(groups.free().is_empty());
        assert_eq!(groups.name(a), "/batch/a", "of the look before");
        assert_eq!(groups.at(Path::new("/batch/b")), Some(b));
        groups.spare(b);
        assert!(groups.free().is_empty());
    }

    #[test]
    fn cgroup_v1_and_a_tree_have_no_throttle() {
        let tree = Scope::find(&super::super::ScopeChoice::Tree(std::process::id())).unwrap();
        assert!(matches!(Groups::find(&tree), Err(GuardError::ThrottleOfTree)));
        let is_v2 = Hierarchy::of_this_process().map(|hierarchy| hierarchy.version == CgroupVersion::V2);
        match (Groups::find(&Scope::Machine), is_v2) {
            (Ok(_), Ok(true)) | (Err(GuardError::NoThrottle), Ok(false)) => {}
            (Err(GuardError::NoHierarchy(_)), Err(_)) => {}
            (found, is_v2) => panic!("{found:?}, {is_v2:?}"),
        }
    }
}
