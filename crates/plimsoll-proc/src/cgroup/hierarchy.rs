//! Where the memory controller is, and where in it a process is: `/proc/PID/cgroup` and `/proc/PID/mountinfo`.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::{CgroupVersion, MemoryCgroup};
use crate::Tree;
use crate::mounts::{self, Mount};

/// The cgroup hierarchy with the memory controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    pub version: CgroupVersion,
    pub mount: PathBuf,
    /// Path of the cgroup at `mount`: `/`, or a longer path in a container that sees only a part of the tree.
    pub inner: PathBuf,
    /// Folder of the cgroup of the process, at or below `mount`. If the path from the kernel is not below `inner`, it
    /// is taken as a path below `mount`. If that folder does not exist, this is `mount` itself.
    pub own: PathBuf,
}

/// Why there is no hierarchy, or no such cgroup in it.
#[derive(Debug, thiserror::Error)]
pub enum HierarchyError {
    /// A file of the process or the cgroup cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// No mounted hierarchy has the memory controller.
    #[error("cannot find the memory controller: no mounted cgroup hierarchy has it")]
    NoMemory,
    #[error("no such cgroup: {}: {source}", path.display())]
    NoSuchCgroup { path: PathBuf, source: io::Error },
    /// The folder is of something else.
    #[error("{} is no cgroup of the memory controller; its hierarchy is at {}", path.display(), mount.display())]
    Elsewhere { path: PathBuf, mount: PathBuf },
}

impl HierarchyError {
    /// Whether the user named a wrong folder, on a machine that has the hierarchy.
    pub fn is_wrong_name(&self) -> bool {
        matches!(
            self,
            HierarchyError::NoSuchCgroup { .. } | HierarchyError::Elsewhere { .. }
        )
    }
}

impl Hierarchy {
    /// The hierarchy of this process.
    ///
    /// # Errors
    /// [`HierarchyError::NoMemory`] when no mounted hierarchy has the memory controller.
    pub fn of_this_process() -> Result<Hierarchy, HierarchyError> {
        Self::from_proc(Path::new("/proc/self"))
    }

    /// The hierarchy with the cgroup of another process, as this process sees both.
    ///
    /// # Errors
    /// As [`Hierarchy::of_this_process`]; [`HierarchyError::Unreadable`] also when there is no such process.
    pub fn of_process(pid: u32) -> Result<Hierarchy, HierarchyError> {
        let cgroups = PathBuf::from(format!("/proc/{pid}/cgroup"));
        Self::from_files(PathBuf::from("/proc/self/mountinfo"), cgroups)
    }

    /// The hierarchy of this process on the machine whose files are `tree`. Its paths are those of that machine, not
    /// below the tree's root.
    ///
    /// # Errors
    /// As [`Hierarchy::of_this_process`].
    pub fn of(tree: &Tree) -> Result<Hierarchy, HierarchyError> {
        let cgroups = tree.read("proc/self/cgroup").unwrap_or_default();
        Self::find_mount(&mounts::of(tree), &cgroups, tree)
    }

    /// The hierarchy that the files `mountinfo` and `cgroup` of a process's `/proc` folder tell of.
    ///
    /// # Errors
    /// As [`Hierarchy::of_this_process`].
    pub fn from_proc(process: &Path) -> Result<Hierarchy, HierarchyError> {
        Self::from_files(process.join("mountinfo"), process.join("cgroup"))
    }

    fn from_files(mountinfo: PathBuf, cgroups: PathBuf) -> Result<Hierarchy, HierarchyError> {
        let text = |path: PathBuf| match fs::read(&path) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(source) => Err(HierarchyError::Unreadable { path, source }),
        };
        Self::parse(&text(mountinfo)?, &text(cgroups)?)
    }

    /// The hierarchy that the text of a `mountinfo` and of a `cgroup` file tell of. For another process, take its
    /// `cgroup` and the `mountinfo` of this one: the kernel names cgroups, and mounts are, as this one sees them.
    ///
    /// # Errors
    /// As [`Hierarchy::of_this_process`].
    pub fn parse(mountinfo: &str, cgroups: &str) -> Result<Hierarchy, HierarchyError> {
        Self::find_mount(&mounts::parse(mountinfo), cgroups, &Tree::live())
    }

    fn find_mount(mounts: &[Mount], cgroups: &str, tree: &Tree) -> Result<Hierarchy, HierarchyError> {
        // A controller is in one hierarchy only: where v1 has memory, a mounted v2 has it not.
        let v1 = mounts
            .iter()
            .find(|mount| mount.kind == "cgroup" && mount.has_option("memory"));
        let v1_path = own_path(cgroups, |names| names.split(',').any(|name| name == "memory"));
        if let (Some(mount), Some(path)) = (v1, v1_path) {
            return Ok(Self::below(mount, CgroupVersion::V1, path, tree));
        }
        if let Some(path) = own_path(cgroups, str::is_empty) {
            for mount in mounts.iter().filter(|mount| mount.kind == "cgroup2") {
                let hierarchy = Self::below(mount, CgroupVersion::V2, path, tree);
                let has_memory = |folder: &Path| {
                    let real = tree.path(&folder.to_string_lossy());
                    MemoryCgroup::new(real, CgroupVersion::V2).has_controller()
                };
                if has_memory(&hierarchy.mount) || has_memory(&hierarchy.own) {
                    return Ok(hierarchy);
                }
            }
        }
        Err(HierarchyError::NoMemory)
    }

    /// The hierarchy that is mounted there, for a process whose cgroup the kernel calls `path`.
    fn below(mount: &Mount, version: CgroupVersion, path: &str, tree: &Tree) -> Hierarchy {
        let (point, path) = (PathBuf::from(&mount.point), Path::new(path));
        // In a container the mount shows only a part of the tree, and the path may be named from its real root.
        let inner = PathBuf::from(&mount.inner);
        let named = folder_of(&point, &inner, path).or_else(|| folder_of(&point, Path::new("/"), path));
        let own = named.filter(|named| tree.path(&named.to_string_lossy()).is_dir());
        Hierarchy {
            version,
            own: own.unwrap_or_else(|| point.clone()),
            inner,
            mount: point,
        }
    }

    /// The folder of the cgroup with the path `path` in `/proc/PID/cgroup`. Such a path starts at the root of the
    /// cgroup namespace, not at the mount as in [`Hierarchy::named`]. The folder need not exist. `None` if the path is
    /// not at or below `inner`: unlike `own`, this function does not take such a path as one below `mount`.
    pub fn folder(&self, path: &Path) -> Option<PathBuf> {
        folder_of(&self.mount, &self.inner, path)
    }

    /// The folder for a path from the user: a folder at or below the mount, or a path relative to the mount, with or
    /// without a leading slash. The folder need not exist. In a container, paths from the kernel differ: see
    /// [`Hierarchy::folder`].
    pub fn named(&self, path: &Path) -> PathBuf {
        match path.starts_with(&self.mount) {
            true => path.to_owned(),
            false => self.mount.join(path.strip_prefix("/").unwrap_or(path)),
        }
    }

    /// The cgroup at the folder [`Hierarchy::named`], without links, and its path below the mount with a leading slash.
    ///
    /// # Errors
    /// If the folder does not exist, is not a cgroup of this hierarchy, or this user may not look into it.
    pub fn find(&self, path: &Path) -> Result<(MemoryCgroup, String), HierarchyError> {
        let real = |path: &Path| {
            fs::canonicalize(path).map_err(|source| HierarchyError::NoSuchCgroup {
                path: path.to_owned(),
                source,
            })
        };
        let (found, mount) = (real(&self.named(path))?, real(&self.mount)?);
        let processes = found.join(super::PROCESSES);
        let is_cgroup = processes
            .try_exists()
            .map_err(|source| HierarchyError::Unreadable {
                path: processes,
                source,
            })?;
        match found.strip_prefix(&mount) {
            Ok(below) if is_cgroup => {
                let name = format!("/{}", below.display());
                Ok((MemoryCgroup::new(found, self.version), name))
            }
            _ => Err(HierarchyError::Elsewhere { path: found, mount }),
        }
    }

    /// The cgroups from the process's own up to the mounted root.
    pub fn ancestors(&self) -> impl Iterator<Item = &Path> {
        self.own
            .ancestors()
            .take_while(|path| path.starts_with(&self.mount))
    }

    /// The tightest limit in bytes of the cgroups that this process is in.
    pub fn limit(&self) -> Option<u64> {
        self.ancestors()
            .filter_map(|path| MemoryCgroup::new(path, self.version).limit().ok().flatten())
            .min()
    }
}

/// The folder of the cgroup `path` if `mount` shows the cgroup `inner`; `None` if `path` is not at or below `inner`.
pub(super) fn folder_of(mount: &Path, inner: &Path, path: &Path) -> Option<PathBuf> {
    let below = path.strip_prefix(inner).ok()?;
    // The path of a cgroup outside of the cgroup namespace begins with `..`.
    let is_inside = below
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    is_inside.then(|| mount.components().chain(below.components()).collect())
}

/// Path of the process in the hierarchy whose controllers fit.
pub(super) fn own_path(cgroups: &str, fits: impl Fn(&str) -> bool) -> Option<&str> {
    entries(cgroups).find_map(|(controllers, path)| fits(controllers).then_some(path))
}

/// Path of a process in the unified hierarchy (v2), from the text of its `cgroup` file.
pub fn unified_path(cgroups: &str) -> Option<&str> {
    own_path(cgroups, str::is_empty)
}

/// Controllers and path of each hierarchy, from lines `id:controllers:path`.
fn entries(cgroups: &str) -> impl Iterator<Item = (&str, &str)> {
    cgroups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        Some((controllers, path))
    })
}

/// The paths of a process in all hierarchies, from the root that this process sees; none if the process cannot be read.
pub fn paths(tree: &Tree, pid: u32) -> Vec<String> {
    let cgroups = tree.read(&format!("proc/{pid}/cgroup")).unwrap_or_default();
    entries(&cgroups).map(|(_, path)| path.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fake(mountinfo: &str, cgroup: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("mountinfo"), mountinfo).unwrap();
        fs::write(folder.path().join("cgroup"), cgroup).unwrap();
        folder
    }

    #[test]
    fn a_process_has_a_path_in_each_hierarchy() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::below(folder.path());
        assert!(paths(&tree, 1).is_empty());
        fs::create_dir_all(tree.path("proc/1")).unwrap();
        fs::write(
            tree.path("proc/1/cgroup"),
            "4:memory,cpu:/a:b\nx\n0::/init.scope\n",
        )
        .unwrap();
        assert_eq!(paths(&tree, 1), ["/a:b", "/init.scope"]);
        assert_eq!(
            unified_path("4:memory,cpu:/a:b\nx\n0::/init.scope\n"),
            Some("/init.scope")
        );
        assert_eq!(unified_path("4:memory:/a\n"), None);
    }

    #[test]
    fn a_hybrid_machine_has_memory_on_v1() {
        let tree = tempfile::tempdir().unwrap();
        let (memory, unified) = (tree.path().join("memory"), tree.path().join("unified"));
        fs::create_dir_all(memory.join("a/b")).unwrap();
        fs::create_dir_all(&unified).unwrap();
        let proc = fake(
            &format!(
                "41 31 0:38 / {} rw,relatime - cgroup2 cgroup2 rw\n35 31 0:32 / {} rw shared:9 - cgroup cgroup rw,memory\n",
                unified.display(),
                memory.display()
            ),
            "4:memory:/a/b\n1:cpu:/\n0::/\n",
        );
        let found = Hierarchy::from_proc(proc.path()).unwrap();
        assert_eq!(
            found,
            Hierarchy {
                version: CgroupVersion::V1,
                mount: memory.clone(),
                inner: "/".into(),
                own: memory.join("a/b")
            }
        );
        let ancestors: Vec<_> = found.ancestors().collect();
        assert_eq!(ancestors, [memory.join("a/b"), memory.join("a"), memory.clone()]);
    }

    #[test]
    fn v2_without_the_controller_is_no_memory_hierarchy() {
        let tree = tempfile::tempdir().unwrap();
        fs::write(tree.path().join("cgroup.controllers"), "hugetlb\n").unwrap();
        let line = format!("41 31 0:38 / {} rw - cgroup2 cgroup2 rw\n", tree.path().display());
        let proc = fake(&line, "0::/\n");
        assert!(matches!(
            Hierarchy::from_proc(proc.path()),
            Err(HierarchyError::NoMemory)
        ));
        fs::write(tree.path().join("cgroup.controllers"), "cpu memory pids\n").unwrap();
        assert_eq!(
            Hierarchy::from_proc(proc.path()).unwrap().version,
            CgroupVersion::V2
        );
    }

    #[test]
    fn a_container_that_sees_a_part_of_the_tree() {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir_all(tree.path().join("inner")).unwrap();
        fs::write(tree.path().join("cgroup.controllers"), "memory").unwrap();
        for (root, path, own) in [
            ("/docker/abc", "/docker/abc/inner", "inner"),
            ("/docker/abc", "/docker/abc", ""),
            ("/", "/not/there", ""),
            ("/", "/../outside", ""),
        ] {
            let line = format!(
                "41 31 0:38 {root} {} rw - cgroup2 cgroup2 rw\n",
                tree.path().display()
            );
            let proc = fake(&line, &format!("0::{path}\n"));
            assert_eq!(
                Hierarchy::from_proc(proc.path()).unwrap().own,
                tree.path().join(own),
                "{root} {path}"
            );
        }
        let line = format!(
            "41 31 0:38 /docker/abc {} rw - cgroup2 cgroup2 rw\n",
            tree.path().display()
        );
        let container = Hierarchy::parse(&line, "0::/docker/abc\n").unwrap();
        let folder = |path: &str| container.folder(Path::new(path));
        assert_eq!(folder("/docker/abc"), Some(tree.path().to_owned()));
        assert_eq!(folder("/docker/abc/a/b"), Some(tree.path().join("a/b")));
        for outside in ["/", "/inner", "/docker/abcd", "/docker/abc/../x", "docker/abc/a"] {
            assert_eq!(folder(outside), None, "{outside}");
        }
    }

    #[test]
    fn the_tightest_limit_of_the_ancestors_counts() {
        let tree = tempfile::tempdir().unwrap();
        let mount = tree.path().to_owned();
        let own = mount.join("system/service");
        fs::create_dir_all(&own).unwrap();
        let hierarchy = Hierarchy {
            version: CgroupVersion::V2,
            mount: mount.clone(),
            inner: "/".into(),
            own: own.clone(),
        };
        assert_eq!(hierarchy.limit(), None);
        fs::write(own.join("memory.max"), "max\n").unwrap();
        fs::write(mount.join("system/memory.max"), "1073741824\n").unwrap();
        assert_eq!(hierarchy.limit(), Some(1 << 30));
    }

    #[test]
    fn the_paths_of_a_made_up_machine_are_its_own() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let tree = Tree::below(root.path());
        assert!(matches!(Hierarchy::of(&tree), Err(HierarchyError::NoMemory)));
        put("proc/self/cgroup", "0::/user.slice\n");
        put(
            "proc/self/mountinfo",
            "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        );
        put("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
        let own = |path: &str| {
            let found = Hierarchy::of(&tree).unwrap();
            assert_eq!(found.mount, Path::new("/sys/fs/cgroup"));
            assert_eq!(found.own, Path::new(path));
        };
        own("/sys/fs/cgroup");
        put("sys/fs/cgroup/user.slice/cgroup.procs", "");
        own("/sys/fs/cgroup/user.slice");
    }
}
