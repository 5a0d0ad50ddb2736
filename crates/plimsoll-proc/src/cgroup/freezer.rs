//! Frozen processes: `freezer.state` of the freezer controller (v1), `cgroup.events` of the unified hierarchy (v2).

use std::path::{Path, PathBuf};

use super::hierarchy::{folder_of, own_path, unified_path};
use crate::fields::value_of;
use crate::mounts::{self, Mount};
use crate::{Folder, Tree};

/// The mounted hierarchies that can freeze processes.
#[derive(Debug, Default)]
pub struct Freezer {
    controller: Option<Mounted>,
    unified: Option<Mounted>,
}

#[derive(Debug)]
struct Mounted {
    point: PathBuf,
    /// Path of the cgroup at `point`.
    inner: PathBuf,
}

impl Freezer {
    /// Those of the machine whose files are `tree`.
    pub fn find(tree: &Tree) -> Freezer {
        let mounts = mounts::of(tree);
        let first = |fits: &dyn Fn(&Mount) -> bool| {
            mounts.iter().find(|mount| fits(mount)).map(|mount| Mounted {
                point: tree.path(&mount.point),
                inner: PathBuf::from(&mount.inner),
            })
        };
        Freezer {
            controller: first(&|mount| mount.kind == "cgroup" && mount.has_option("freezer")),
            unified: first(&|mount| mount.kind == "cgroup2"),
        }
    }

    /// Whether the cgroup of a process, or one above it, is frozen. False if the process has ended, and for a cgroup that this
    /// process does not see.
    pub fn holds(&self, process: &Folder, buffer: &mut Vec<u8>) -> bool {
        let text = process.read("cgroup", buffer);
        text.is_ok_and(|text| self.holds_cgroups(&String::from_utf8_lossy(text)))
    }

    /// As [`Freezer::holds`], for the text of a process's `cgroup` file.
    pub fn holds_cgroups(&self, cgroups: &str) -> bool {
        let is_controller = |names: &str| names.split(',').any(|name| name == "freezer");
        // The kernel includes the state of the cgroups above in both files.
        let state = read(
            self.controller.as_ref(),
            own_path(cgroups, is_controller),
            "freezer.state",
        );
        let events = read(self.unified.as_ref(), unified_path(cgroups), "cgroup.events");
        matches!(state.trim_ascii(), b"FROZEN" | b"FREEZING") || value_of(&events, "frozen") == Some(1)
    }
}

/// A file of a cgroup; empty if there is none, as in the root.
fn read(mounted: Option<&Mounted>, path: Option<&str>, file: &str) -> Vec<u8> {
    let folder = mounted
        .zip(path)
        .and_then(|(mounted, path)| folder_of(&mounted.point, &mounted.inner, Path::new(path)));
    let text = folder.and_then(|folder| std::fs::read(folder.join(file)).ok());
    text.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_process_is_frozen_by_either_hierarchy() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::below(root.path());
        for folder in ["proc/self", "v1/job", "v2/job"] {
            fs::create_dir_all(tree.path(folder)).unwrap();
        }
        let write = |file: &str, text: &str| fs::write(tree.path(file), text).unwrap();
        let process = "6:freezer:/job\n4:memory:/elsewhere\n0::/job\n";
        assert!(!Freezer::find(&tree).holds_cgroups(process), "nothing is mounted");
        write(
            "proc/self/mountinfo",
            "30 25 0:26 / /v1 rw - cgroup cgroup rw,freezer\n31 25 0:27 / /v2 rw - cgroup2 cgroup2 rw\n",
        );
        let freezer = Freezer::find(&tree);
        assert!(!freezer.holds_cgroups(process), "the files are not there");
        for (file, thawed, frozen) in [
            (
                "v1/job/freezer.state",
                "THAWED\n",
                &["FREEZING\n", "FROZEN\n"][..],
            ),
            (
                "v2/job/cgroup.events",
                "populated 1\nfrozen 0\n",
                &["populated 1\nfrozen 1\n"],
            ),
        ] {
            for text in frozen {
                write(file, text);
                assert!(freezer.holds_cgroups(process), "{file}: {text}");
                assert!(!freezer.holds_cgroups("6:freezer:/\n0::/\n"), "another cgroup");
            }
            write(file, thawed);
            assert!(!freezer.holds_cgroups(process), "{file}");
        }
    }
}
