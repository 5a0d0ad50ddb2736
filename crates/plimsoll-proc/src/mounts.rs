//! `/proc/PID/mountinfo` (`proc_pid_mountinfo(5)`): mounts and their places.

use std::path::Path;

use super::Tree;
use super::fields::unescape;

/// That of this process.
pub const PATH: &str = "/proc/self/mountinfo";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The folder inside the file system that is mounted (a container shows only its own cgroup).
    pub inner: String,
    pub point: String,
    pub kind: String,
    /// The device of the file system, or another name for its source.
    pub source: String,
    pub read_only: bool,
    /// Options of the file system itself; a cgroup v1 hierarchy's controllers are among them.
    pub options: String,
}

impl Mount {
    /// `id parent major:minor inner point flags [tags ...] - kind source options`.
    fn parse(line: &str) -> Option<Mount> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (inner, point, flags) = (left.next()?, left.next()?, left.next()?);
        let mut right = right.split(' ');
        let (kind, source, options) = (right.next()?, right.next()?, right.next().unwrap_or(""));
        let text = |path: &str| String::from_utf8_lossy(&unescape(path.as_bytes())).into_owned();
        Some(Mount {
            inner: text(inner),
            point: text(point),
            kind: kind.to_owned(),
            source: text(source),
            read_only: flags
                .split(',')
                .chain(options.split(','))
                .any(|flag| flag == "ro"),
            options: options.to_owned(),
        })
    }

    /// Whether the file system has the option.
    pub fn has_option(&self, name: &str) -> bool {
        self.options.split(',').any(|option| option == name)
    }

    /// The value of an option `name=value` of the file system.
    pub fn option(&self, name: &str) -> Option<&str> {
        let mut options = self.options.split(',');
        options.find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }
}

/// The mounts in a text of the file, in the order of mounting. A line that is not understood is passed over.
pub fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(Mount::parse).collect()
}

/// The mounts that this process sees, on the machine whose files are `tree`.
pub fn of(tree: &Tree) -> Vec<Mount> {
    parse(&tree.read(PATH).unwrap_or_default())
}

/// The mount that holds a file or folder, by its absolute path without links: of those at one point, the last.
pub fn holding<'m>(mounts: &'m [Mount], path: &Path) -> Option<&'m Mount> {
    let holds = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    holds.max_by_key(|mount| mount.point.len())
}

/// Whether a `/proc` among the mounts hides processes of other users (`hidepid=`, but for 0 and `off`).
pub fn hide_processes(mounts: &[Mount]) -> bool {
    let mut procs = mounts.iter().filter(|mount| mount.point == "/proc");
    procs.any(|mount| {
        mount
            .option("hidepid")
            .is_some_and(|value| !matches!(value, "0" | "off"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_proc_that_hides_processes_hides_them() {
        let hides = |options: &str| {
            let line = format!("22 31 0:20 / /proc rw,nosuid - proc proc {options}\n");
            hide_processes(&parse(&line))
        };
        assert!(!hides("rw") && !hides("rw,hidepid=0") && !hides("rw,hidepid=off"));
        assert!(hides("rw,hidepid=2") && hides("rw,gid=4,hidepid=invisible"));
    }

    #[test]
    fn a_folder_is_in_the_innermost_mount_that_was_mounted_last() {
        let text = "22 1 254:0 / / rw - ext4 /dev/vda rw\n\
                    23 22 0:20 / /var/tmp rw - tmpfs none rw\n\
                    24 22 8:1 / /var/tmp rw - xfs /dev/my\\040disk rw\n\
                    25 22 0:21 / /var/tmp/inner rw - btrfs /dev/sdb rw\n";
        let mounts = parse(text);
        let of = |path: &str| {
            holding(&mounts, Path::new(path)).map(|mount| (mount.kind.as_str(), mount.source.as_str()))
        };
        assert_eq!(of("/var/tmp/file"), Some(("xfs", "/dev/my disk")));
        assert_eq!(of("/var/tmp"), Some(("xfs", "/dev/my disk")));
        assert_eq!(of("/var/tmp2"), Some(("ext4", "/dev/vda")));
        assert_eq!(of("/var/tmp/inner/x"), Some(("btrfs", "/dev/sdb")));
        assert_eq!(holding(&[], Path::new("/")), None);
    }
}
