//! Where the memory controller of cgroups is, if anywhere.

use super::mounts::mounts;
use super::tree::Tree;

/// The memory controller of cgroups, as this process sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryCgroup {
    /// The unified hierarchy has the memory controller.
    V2 {
        /// Folder where the hierarchy is mounted, below the tree's root.
        mount: String,
        /// Folder of this process's own cgroup.
        own: String,
    },
    /// The memory controller is on a hierarchy of its own.
    V1 {
        /// Folder where the hierarchy is mounted, below the tree's root.
        mount: String,
        /// Folder of this process's own cgroup.
        own: String,
    },
    /// The kernel has no memory controller, or none is mounted here.
    None,
}

impl MemoryCgroup {
    /// Finds it from `/proc/self/cgroup` and `/proc/self/mountinfo`.
    pub fn of(tree: &Tree) -> MemoryCgroup {
        let membership = tree.read("proc/self/cgroup").unwrap_or_default();
        let mounts = mounts(tree);
        let path_of = |wanted: &dyn Fn(&str, &str) -> bool| {
            membership.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':');
                let (id, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
                wanted(id, controllers).then(|| path.to_owned())
            })
        };
        let v1_path = path_of(&|_, controllers| controllers.split(',').any(|name| name == "memory"));
        let v1_mount = mounts.iter().find(|mount| {
            mount.kind == "cgroup" && mount.options.split(',').any(|option| option == "memory")
        });
        if let (Some(path), Some(mount)) = (v1_path, v1_mount) {
            let own = mount.folder_of(&path, tree);
            return MemoryCgroup::V1 {
                mount: mount.point.clone(),
                own,
            };
        }
        let v2_path = path_of(&|id, controllers| id == "0" && controllers.is_empty());
        let v2_mount = mounts.iter().find(|mount| mount.kind == "cgroup2");
        if let (Some(path), Some(mount)) = (v2_path, v2_mount) {
            let own = mount.folder_of(&path, tree);
            let has_memory = |folder: &str| {
                tree.read(&format!("{folder}/cgroup.controllers"))
                    .is_some_and(|names| names.split_whitespace().any(|name| name == "memory"))
            };
            if has_memory(&mount.point) || has_memory(&own) {
                return MemoryCgroup::V2 {
                    mount: mount.point.clone(),
                    own,
                };
            }
        }
        MemoryCgroup::None
    }

    /// `v1`, `v2` or `none`.
    pub fn name(&self) -> &'static str {
        match self {
            MemoryCgroup::V1 { .. } => "v1",
            MemoryCgroup::V2 { .. } => "v2",
            MemoryCgroup::None => "none",
        }
    }
}
