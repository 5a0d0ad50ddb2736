//! Where the memory controller is, and where in it this process is.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::control_file::read;
use super::{CgroupVersion, v1, v2};

/// The cgroup hierarchy with the memory controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// Version of its interface.
    pub version: CgroupVersion,
    /// Where it is mounted.
    pub mount: PathBuf,
    /// Folder of the cgroup that this process is in, at or below `mount`.
    pub own: PathBuf,
}

impl Hierarchy {
    /// The hierarchy of this process.
    ///
    /// # Errors
    /// With words for people when no mounted hierarchy has the memory controller.
    pub fn of_this_process() -> Result<Hierarchy, String> {
        Self::from_proc(Path::new("/proc/self"))
    }

    /// The hierarchy that the files `mountinfo` and `cgroup` of a process's `/proc` folder tell of.
    ///
    /// # Errors
    /// As [`Hierarchy::of_this_process`].
    pub fn from_proc(process: &Path) -> Result<Hierarchy, String> {
        let file = |name: &str| {
            let path = process.join(name);
            fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
        };
        Self::parse(&file("mountinfo")?, &file("cgroup")?)
    }

    /// The hierarchy that the text of a `mountinfo` and of a `cgroup` file tell of. For another process, take its
    /// `cgroup` and the `mountinfo` of this one: the kernel names cgroups, and mounts are, as this one sees them.
    ///
    /// # Errors
    /// As [`Hierarchy::of_this_process`].
    pub fn parse(mountinfo: &str, cgroups: &str) -> Result<Hierarchy, String> {
        let mounts: Vec<Mount> = mountinfo.lines().filter_map(Mount::parse).collect();
        // A controller is in one hierarchy only: where v1 has memory, a mounted v2 has it not.
        for mount in mounts
            .iter()
            .filter(|m| m.kind == "cgroup" && m.options.split(',').any(|o| o == "memory"))
        {
            if let Some(path) = own_path(cgroups, |controllers| {
                controllers.split(',').any(|c| c == "memory")
            }) {
                return Ok(mount.hierarchy(CgroupVersion::V1, path));
            }
        }
        for mount in mounts.iter().filter(|m| m.kind == "cgroup2") {
            let Some(path) = own_path(cgroups, str::is_empty) else {
                continue;
            };
            let hierarchy = mount.hierarchy(CgroupVersion::V2, path);
            if v2::has_memory(&hierarchy.mount) || v2::has_memory(&hierarchy.own) {
                return Ok(hierarchy);
            }
        }
        Err("no mounted cgroup hierarchy has the memory controller".to_owned())
    }

    /// The cgroup that `path` names: its folder, or the path below the mount with or without a slash before it.
    /// Returns its folder without links, and the path below the mount with a slash before it.
    ///
    /// # Errors
    /// With words for people when there is none, or it is not of this hierarchy.
    pub fn find(&self, path: &Path) -> Result<(PathBuf, String), String> {
        let folder = match path.starts_with(&self.mount) {
            true => path.to_owned(),
            false => self.mount.join(path.strip_prefix("/").unwrap_or(path)),
        };
        let real = |path: &Path| {
            fs::canonicalize(path).map_err(|error| format!("no such cgroup: {}: {error}", path.display()))
        };
        let (found, mount) = (real(&folder)?, real(&self.mount)?);
        match found.strip_prefix(&mount) {
            Ok(below) if found.join("cgroup.procs").exists() => {
                let name = format!("/{}", below.display());
                Ok((found, name))
            }
            _ => Err(format!(
                "{} is no cgroup of the memory controller, whose hierarchy is at {}",
                found.display(),
                mount.display()
            )),
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
            .filter_map(|path| match self.version {
                CgroupVersion::V1 => v1::limit(path).ok().flatten(),
                CgroupVersion::V2 => v2::limit(path).ok().flatten(),
            })
            .min()
    }
}

/// A line of `mountinfo`.
#[derive(Debug, PartialEq)]
struct Mount {
    /// Folder of the file system that is mounted.
    root: String,
    /// Where.
    point: PathBuf,
    kind: String,
    /// Options of the file system; a v1 hierarchy's controllers are among them.
    options: String,
}

impl Mount {
    /// `id parent major:minor root point options [tags ...] - kind source options` (`proc_pid_mountinfo(5)`).
    fn parse(line: &str) -> Option<Mount> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let mut right = right.split(' ');
        let (root, point) = (left.next()?, left.next()?);
        let (kind, _source, options) = (right.next()?, right.next()?, right.next().unwrap_or(""));
        Some(Mount {
            root: unescape(root),
            point: PathBuf::from(unescape(point)),
            kind: kind.to_owned(),
            options: options.to_owned(),
        })
    }

    fn hierarchy(&self, version: CgroupVersion, path: &str) -> Hierarchy {
        // In a container the mount shows only a part of the tree, and the path may be named from its real root.
        let below = Path::new(path)
            .strip_prefix(&self.root)
            .or_else(|_| Path::new(path).strip_prefix("/"));
        let below = below.unwrap_or(Path::new(""));
        let named = self.point.join(below);
        let climbs_out = below
            .components()
            .any(|part| part == std::path::Component::ParentDir);
        let own = if climbs_out || !named.is_dir() {
            self.point.clone()
        } else {
            named
        };
        Hierarchy {
            version,
            mount: self.point.clone(),
            own,
        }
    }
}

/// Path of this process in the hierarchy whose controllers fit, from lines `id:controllers:path`.
fn own_path(cgroups: &str, fits: impl Fn(&str) -> bool) -> Option<&str> {
    cgroups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        fits(controllers).then_some(path)
    })
}

/// Undoes the octal escapes of mount tables and `/proc/swaps` (`\040` is a space).
pub(in super::super) fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail
            .get(..3)
            .filter(|d| first == b'\\' && d.iter().all(|b| (b'0'..=b'7').contains(b)));
        match octal {
            Some(digits) => {
                let value = digits
                    .iter()
                    .fold(0u32, |value, digit| value * 8 + u32::from(digit - b'0'));
                bytes.push(value as u8);
                rest = &tail[3..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether this user may make cgroups in `path`.
pub(in super::super) fn writable(path: &Path) -> bool {
    use rustix::fs::{Access, access};
    access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok() && read(&path.join("cgroup.procs")).is_ok()
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
        assert!(
            Hierarchy::from_proc(proc.path())
                .unwrap_err()
                .contains("no mounted cgroup hierarchy")
        );
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
    }

    #[test]
    fn octal_escapes() {
        assert_eq!(unescape(r"/a\040b\134c"), r"/a b\c");
        assert_eq!(unescape(r"\04"), r"\04");
        assert_eq!(unescape(r"\\040"), r"\ ");
    }
}
